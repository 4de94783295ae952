package openai_test

import (
	"testing"

	"github.com/llmgw/llmgw/router/openai"
)

func TestErrorStatus(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want       int
	}{
		{"vLLM", `{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}`, 400},
		{"vLLM, model", `{"error":{"message":"m","type":"NotFoundError","param":null,"code":404}}`, 404},
		{"vLLM, inside", `{"error":{"message":"m","type":"InternalServerError","param":null,"code":500}}`, 500},
		{"vLLM, flat", `{"object":"error","message":"m","type":"BadRequestError","code":400}`, 400},
		{"SGLang", `{"error":{"object":"error","message":"m","type":"SERVICE_UNAVAILABLE","param":null,"code":503}}`, 503},
		{"code as a string", `{"error":{"message":"m","code":"429"}}`, 429},
		{"llama.cpp", `{"error":{"code":400,"message":"m","type":"exceed_context_size_error","n_ctx":512}}`, 400},
		{"llama.cpp without code", `{"error":{"message":"m","type":"unavailable_error"}}`, 503},
		{"llama.cpp, not started for it", `{"error":{"message":"m","type":"not_supported_error"}}`, 501},
		{"TGI", `{"error":"m","error_type":"overloaded"}`, 503},
		{"TGI, mistake", `{"error":"m","error_type":"validation"}`, 400},
		{"TGI, inside", `{"error":"m","error_type":"generation"}`, 500},
		{"Ollama", `{"error":{"message":"m","type":"api_error","param":null,"code":null}}`, 500},
		{"OpenAI", `{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}`, 400},
		{"OpenAI, the code says more than the type", `{"error":{"message":"m","type":"invalid_request_error","code":"model_not_found"}}`, 404},
		{"OpenAI, limit", `{"error":{"message":"m","type":"requests","code":"rate_limit_exceeded"}}`, 429},
		{"OpenAI, quota", `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`, 429},
		{"Responses", `{"type":"error","code":"server_error","message":"m","param":null}`, 500},
		{"Responses, failed", `{"error":{"code":"rate_limit_exceeded","message":"m"}}`, 429},
		{"Anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"m"}}`, 503},
		{"Anthropic, mistake", `{"type":"error","error":{"type":"invalid_request_error","message":"m"}}`, 400},
		{"Anthropic, time", `{"type":"error","error":{"type":"timeout_error","message":"m"}}`, 504},
		{"Anthropic, length", `{"type":"error","error":{"type":"request_too_large","message":"m"}}`, 413},
		{"a code that is no status", `{"error":{"message":"m","code":1302}}`, 500},
		{"a code that is no error", `{"error":{"message":"m","code":200}}`, 500},
		{"words only", `{"error":"boom"}`, 500},
		{"nothing", ``, 500},
		{"no JSON", `boom`, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := openai.ErrorStatus([]byte(tt.data)); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func FuzzErrorStatus(f *testing.F) {
	for _, data := range []string{
		`{"error":{"message":"m","type":"BadRequestError","code":400}}`, `{"error":"m","error_type":"overloaded"}`,
		`{"type":"error","code":"rate_limit_exceeded"}`, `{"error":{"code":99999999999999999999}}`, `[DONE]`,
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := openai.ErrorStatus(data); got < 400 || got > 599 {
			t.Errorf("%q: got %d", data, got)
		}
	})
}
