// Package asker stands for your code: a small client that asks a model behind
// an OpenAI-compatible API and shows the answer while it comes. What is to be
// seen here are its tests. They run it against simulated engines and a real
// router in the same process: no GPU, container, key or network, and no mock
// that agrees with whatever the client believes.
//
// To begin with your own code, copy the folder into a package of yours, put your
// client in the place of this file, and let newFleet and inVirtualTime return
// it. The tests are of the same package and import llmgw only.
package asker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrIncomplete says that an answer began and did not end.
var ErrIncomplete = errors.New("asker: the answer is incomplete")

// RefusedError is an answer that is none.
type RefusedError struct {
	Status     int
	Code       string
	Message    string
	RetryAfter time.Duration // 0: the server did not say
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("asker: %d %s: %s", e.Status, e.Code, e.Message)
}

// Asker asks one model.
type Asker struct {
	BaseURL string // with /v1
	Model   string
	HTTP    *http.Client
}

// apiError is an error as the API writes it.
type apiError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Ask sends the question and calls show with each piece of the answer. It
// returns what came: with an error wrapping ErrIncomplete if that is not all, as
// when the engine fails in the middle. A *RefusedError means that nothing came.
func (a *Asker) Ask(ctx context.Context, question string, show func(string)) (string, error) {
	body, err := json.Marshal(map[string]any{
		"model": a.Model, "stream": true, "max_tokens": 200,
		"messages": []map[string]string{{"role": "user", "content": question}},
	})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.BaseURL+"/chat/completions", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := a.HTTP.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return "", refused(res)
	}
	var answer strings.Builder
	lines := bufio.NewScanner(res.Body)
	for finished := false; lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" && finished {
			return answer.String(), nil
		}
		var event struct {
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
			Error *apiError
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			return answer.String(), fmt.Errorf("%w: %w", ErrIncomplete, err)
		}
		if event.Error != nil {
			return answer.String(), fmt.Errorf("%w: %s: %s", ErrIncomplete, event.Error.Code, event.Error.Message)
		}
		for _, c := range event.Choices {
			finished = finished || c.FinishReason != ""
			if c.Delta.Content != "" {
				answer.WriteString(c.Delta.Content)
				show(c.Delta.Content)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return answer.String(), fmt.Errorf("%w: %w", ErrIncomplete, err)
	}
	return answer.String(), fmt.Errorf("%w: it stopped without saying why", ErrIncomplete)
}

func refused(res *http.Response) error {
	e := &RefusedError{Status: res.StatusCode, Message: "no explanation"}
	var body struct{ Error *apiError }
	if json.NewDecoder(res.Body).Decode(&body) == nil && body.Error != nil {
		e.Code, e.Message = body.Error.Code, body.Error.Message
	}
	if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	return e
}
