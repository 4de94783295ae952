package sim_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/sim"
)

// FuzzRequest sends any body to any route: it is answered, with JSON or a
// stream, and leaves nothing behind.
func FuzzRequest(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens",
		"/v1/embeddings", "/v1/rerank", "/v1/score", "/tokenize", "/v1/chat/completions/render", "/v1/completions/render"}
	for i, body := range []string{
		`{"model":"sim-8b","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"u"}}]}],"stream":true,"stop":"a"}`,
		`{"prompt":[[1,2],"a"],"n":2,"max_tokens":3,"echo":true,"stop":["b",""]}`,
		`{"input":[{"role":"user","content":"a"},{"type":"function_call_output","output":"x"}],"stream":true,"tools":[{"name":"f"}],"tool_choice":"required"}`,
		`{"max_tokens":1,"system":"s","messages":[{"role":"user","content":[{"type":"tool_result","content":"r"}]}],"tools":[{"name":"f"}],"tool_choice":{"type":"any"}}`,
		`{"messages":[{"role":"user","content":"a"}]}`,
		`{"input":["a",[1]],"encoding_format":"base64","dimensions":3}`,
		`{"query":"q","documents":["a",{"text":"b"}],"top_n":1}`,
		`{"text_1":"a","text_2":["b","c"]}`,
		`{"messages":[{"role":"user","content":null,"tool_calls":[{}]}],"tools":[{}],"add_generation_prompt":false,"continue_final_message":true}`,
	} {
		f.Add(uint8(i), body)
	}
	cfg := sim.InstantConfig()
	cfg.MaxModelLen, cfg.NumGPUBlocks = 2048, 1024
	e, err := sim.New(cfg, sim.Deps{})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = e.Close() })
	f.Fuzz(func(t *testing.T, route uint8, body string) {
		r := httptest.NewRequestWithContext(t.Context(), "POST", paths[int(route)%len(paths)], strings.NewReader(body))
		w := httptest.NewRecorder()
		e.ServeHTTP(w, r)
		switch w.Code {
		case 200, 400, 404:
		default:
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if ct := w.Header().Get("Content-Type"); ct != "application/json" && !strings.HasPrefix(ct, "text/event-stream") {
			t.Errorf("content type %q", ct)
		}
		if s := e.Stats(); s.Running+s.Waiting+s.UsedBlocks != 0 {
			t.Errorf("left behind: %+v", s)
		}
	})
}

func FuzzParseFaults(f *testing.F) {
	f.Add("split_bytes=1;crlf=true;script=503 1 flat,200;metrics_delay=2s")
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := sim.ParseFaults(sim.Faults{}, text)
		if err != nil {
			return
		}
		cfg := sim.InstantConfig()
		cfg.Faults = faults
		if err := cfg.Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
