package sim_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
)

// newEngine returns an engine that the test closes.
func newEngine(t *testing.T, cfg sim.Config) *sim.Engine {
	t.Helper()
	e, err := sim.New(cfg, sim.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// call makes one request in process.
func call(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// into decodes JSON.
func into[T any](t *testing.T, data string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(data), &v); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return v
}

// dataLines are the data of a stream's events.
func dataLines(t *testing.T, stream string) []string {
	t.Helper()
	var out []string
	s := bufio.NewScanner(strings.NewReader(stream))
	for s.Scan() {
		if d, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			out = append(out, d)
		}
	}
	return out
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type chatAnswer struct {
	Object  string `json:"object"`
	Model   string `json:"model"`
	Choices []struct {
		Index   int `json:"index"`
		Message struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				Function struct{ Name, Arguments string } `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
		Delta struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
		} `json:"delta"`
		Finish *string `json:"finish_reason"`
		Stop   *string `json:"stop_reason"`
	} `json:"choices"`
	Usage *usage `json:"usage"`
}

const hello = `{"model":"sim-8b","messages":[{"role":"user","content":"hello"}],"max_tokens":20,"ignore_eos":true`

func TestChat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, sim.DefaultConfig())
		begin := time.Now()
		w := call(t, e, "POST", "/v1/chat/completions", hello+`}`)
		took := time.Since(begin)
		if w.Code != 200 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		got := into[chatAnswer](t, w.Body.String())
		n, whole := sim.CheckText(got.Choices[0].Message.Content)
		if n != 20 || !whole || *got.Choices[0].Finish != "length" || got.Usage.Completion != 20 ||
			got.Usage.Total != got.Usage.Prompt+20 {
			t.Errorf("got %s", w.Body)
		}
		if took < 120*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("20 tokens took %v", took)
		}
	})
}

func TestChatStream(t *testing.T) {
	for _, tt := range []struct {
		name, options    string
		usages, noChoice int
	}{
		{name: "no usage"},
		{"include", `,"stream_options":{"include_usage":true}`, 1, 1},
		{"continuous", `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`, 22, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEngine(t, sim.InstantConfig())
			w := call(t, e, "POST", "/v1/chat/completions", hello+`,"stream":true`+tt.options+`}`)
			lines := dataLines(t, w.Body.String())
			if last := lines[len(lines)-1]; last != "[DONE]" {
				t.Fatalf("ends with %q", last)
			}
			text, usages, noChoice := "", 0, 0
			for i, l := range lines[:len(lines)-1] {
				c := into[chatAnswer](t, l)
				if c.Usage != nil {
					usages++
				}
				if len(c.Choices) == 0 {
					noChoice++
					if !strings.Contains(l, `"choices":[]`) || c.Usage.Completion != 20 {
						t.Errorf("usage chunk %s", l)
					}
					continue
				}
				if i == 0 && c.Choices[0].Delta.Role != "assistant" {
					t.Errorf("first chunk %s", l)
				}
				text += *c.Choices[0].Delta.Content
			}
			if n, whole := sim.CheckText(text); n != 20 || !whole {
				t.Errorf("text %q: %d tokens, whole %v", text, n, whole)
			}
			if usages != tt.usages || noChoice != tt.noChoice {
				t.Errorf("%d usages, %d without choices; want %d, %d", usages, noChoice, tt.usages, tt.noChoice)
			}
		})
	}
}
