package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// lone opens a connection for each request: the tests' own requests shall not
// meet connections that the engine closes.
var lone = &http.Transport{DisableKeepAlives: true}

// client has a limit on everything, so that no test hangs.
var client = &http.Client{Transport: lone, Timeout: time.Minute}

// answer is a whole answer.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string {
	return fmt.Sprintf("%d %s %s", a.status, a.header.Get("Content-Type"), a.body[:min(len(a.body), 600)])
}

// call makes one request. The key is shown if there is one.
func call(ctx context.Context, method, url, key, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return client.Do(req)
}

func whole(ctx context.Context, method, url, key, body string) (answer, error) {
	res, err := call(ctx, method, url, key, body)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(b)}, err
}

func get(t *testing.T, url, key string) answer {
	t.Helper()
	a, err := whole(t.Context(), http.MethodGet, url, key, "")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func post(t *testing.T, url, key, body string) answer {
	t.Helper()
	a, err := whole(t.Context(), http.MethodPost, url, key, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// stream is a streamed answer that is being read.
type stream struct {
	*bufio.Reader
	leave func() // ends the request as a client does that goes away
}

// open starts a streamed request and reads to its first content.
func open(t *testing.T, url, body string) *stream {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	res, err := call(ctx, http.MethodPost, url, "", body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	s := &stream{bufio.NewReader(res.Body), cancel}
	for {
		line, err := s.ReadString('\n')
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%d: no content came: %q, %v", res.StatusCode, line, err)
		}
		if strings.Contains(line, `"content":"`) && !strings.Contains(line, `"content":""`) {
			return s
		}
	}
}

// sample returns the sum of the series of a metric that have all labels, each
// written name="value"; false if there is none.
func sample(page, name string, labels ...string) (sum float64, ok bool) {
next:
	for line := range strings.Lines(page) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if family, _, _ := strings.Cut(series, "{"); family != name {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue next
			}
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		sum, ok = sum+v, true
	}
	return sum, ok
}
