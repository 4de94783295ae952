package suite

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/ci/clients/engine"
)

const claudeCode = "claude-code"

// claudeTurn is the shape of a turn of Claude Code: a list of system blocks of
// which the first changes with each request, cache breakpoints, thinking, tools.
const claudeTurn = `{"model":"MODEL","max_tokens":32000,"stream":STREAM,"system":[` +
	`{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.185; cc_entrypoint=cli; cch=00000;"},` +
	`{"type":"text","text":"You are Claude Code.","cache_control":{"type":"ephemeral"}}],` +
	`"messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>today</system-reminder>"},{"type":"text","text":"MARK — ` + "Grüße, 東京" + `","cache_control":{"type":"ephemeral"}}]}],` +
	`"thinking":{"type":"enabled","budget_tokens":31999},"temperature":1,"metadata":{"user_id":"user_0_account__session_0"},` +
	`"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]}TOOLS}`

const claudeTools = `,"tools":[{"name":"Bash","description":"Run a command","input_schema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"command":{"type":"string"}},"required":["command"],"additionalProperties":false}}]`

// claudeBetas must reach the engine byte by byte.
const claudeBetas = "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27,prompt-caching-scope-2026-01-05"

func claudeHeader(t *testing.T) http.Header {
	t.Helper()
	return http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json"}, "Authorization": {"Bearer " + setting(t, "LLMGW_KEY")},
		"Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {claudeBetas},
		"User-Agent": {"claude-cli/2.1.185 (external, cli)"}, "X-App": {"cli"},
		"X-Claude-Code-Session-Id": {"0199c4c2-5a1e-7d30-9a4b-0123456789ab"},
		"X-Stainless-Lang":         {"js"}, "X-Stainless-Retry-Count": {"0"}, "X-Stainless-Timeout": {"600"},
	}
}

func claudeBody(how, mark, stream, tools string) []byte {
	return []byte(strings.NewReplacer("MODEL", claudeCode+"/"+how, "MARK", mark, "STREAM", stream, "TOOLS", tools).Replace(claudeTurn))
}

// claudeRead returns a stream's text or arguments, its last event, its count of
// output tokens and its error.
func claudeRead(t *testing.T, stream string) (said, last string, tokens int, failed string) {
	t.Helper()
	for _, ev := range sse(stream) {
		var d struct {
			Type  string `json:"type"`
			Delta struct {
				Text string `json:"text"`
				JSON string `json:"partial_json"`
			} `json:"delta"`
			Usage struct {
				Output int `json:"output_tokens"`
			} `json:"usage"`
			Error struct {
				Type string `json:"type"`
			} `json:"error"`
		}
		must(t, json.Unmarshal([]byte(ev[1]), &d))
		equal(t, "event's name", ev[0], d.Type)
		said += d.Delta.Text + d.Delta.JSON
		last = d.Type
		if d.Type == "message_delta" {
			tokens = d.Usage.Output
		}
		if d.Type == "error" {
			failed = d.Error.Type
		}
	}
	return said, last, tokens, failed
}

func TestClaudeCode(t *testing.T) {
	const path = "/v1/messages?beta=true"
	run := func(name string, f func(t *testing.T)) { cell(t, claudeCode, name, f) }
	run("stream", func(t *testing.T) {
		body := claudeBody("plain", "cell stream", "true", "")
		resp, stream := post(t, path, claudeHeader(t), body)
		equal(t, "status", resp.StatusCode, 200)
		said, last, tokens, _ := claudeRead(t, stream)
		equal(t, "text", said, text)
		equal(t, "last event", last, "message_stop")
		equal(t, "output tokens", tokens, output)
		seen := requests(t, claudeCode+"/plain", "cell stream")[0]
		equal(t, "body at the engine", seen.Body, strings.Replace(string(body), claudeCode+"/plain", engine.Model, 1))
		equal(t, "query at the engine", strings.HasSuffix(seen.Target, path), true)
		equal(t, "betas at the engine", seen.Header.Get("Anthropic-Beta"), claudeBetas)
		equal(t, "version at the engine", seen.Header.Get("Anthropic-Version"), "2023-06-01")
		equal(t, "session at the engine", seen.Header.Get("X-Claude-Code-Session-Id"), claudeHeader(t).Get("X-Claude-Code-Session-Id"))
		equal(t, "key at the engine", seen.Header.Get("Authorization"), "")
		equal(t, "request id", resp.Header.Get("request-id"), seen.Header.Get("X-Request-Id"))
	})
	run("framing", func(t *testing.T) {
		_, stream := post(t, path, claudeHeader(t), claudeBody("framing", "cell framing", "true", ""))
		said, last, tokens, _ := claudeRead(t, stream)
		equal(t, "text", said, text)
		equal(t, "last event", last, "message_stop")
		equal(t, "output tokens", tokens, output)
	})
	run("tools-stream", func(t *testing.T) {
		_, stream := post(t, path, claudeHeader(t), claudeBody("plain", "cell tools", "true", claudeTools))
		said, _, _, _ := claudeRead(t, stream)
		equal(t, "arguments", said, engine.ToolArguments)
	})
	run("count-tokens", func(t *testing.T) {
		resp, body := post(t, "/v1/messages/count_tokens?beta=true", claudeHeader(t), claudeBody("plain", "cell count", "false", claudeTools))
		equal(t, "status", resp.StatusCode, 200)
		equal(t, "answer", body, `{"input_tokens":11}`)
	})
	run("probe", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, gateway(t)+"/", nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		must(t, resp.Body.Close())
		equal(t, "status of the landing page", resp.StatusCode, 200)
	})
	for how, kind := range map[string]string{"cut": "api_error", "short": "api_error", "errorevent": "overloaded_error"} {
		run(how, func(t *testing.T) {
			_, stream := post(t, path, claudeHeader(t), claudeBody(how, "cell "+how, "true", ""))
			said, last, _, failed := claudeRead(t, stream)
			equal(t, "text before", said, strings.Join(engine.Pieces()[:2], ""))
			equal(t, "last event", last, "error")
			equal(t, "error", failed, kind)
		})
	}
	run("errors", func(t *testing.T) {
		for how, kind := range map[string]string{"s400": "invalid_request_error", "s429": "rate_limit_error", "s529": "overloaded_error", "html502": "api_error"} {
			resp, body := post(t, path, claudeHeader(t), claudeBody(how, "x", "true", ""))
			equal(t, how+" status", resp.Status[:3], how[len(how)-3:])
			equal(t, how+" type in "+body, strings.Contains(body, `{"type":"error","error":{"type":"`+kind+`"`), true)
		}
	})
	// A turn's stream is left when a second request answers first: both must be
	// free afterwards.
	run("abort", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway(t)+path, strings.NewReader(string(claudeBody("endless", "cell abort", "true", ""))))
		must(t, err)
		req.Header = claudeHeader(t)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		_, err = io.ReadFull(resp.Body, make([]byte, 1000))
		must(t, err)
		second, body := post(t, path, claudeHeader(t), claudeBody("plain", "cell second", "false", ""))
		equal(t, "status of the second", second.StatusCode, 200)
		equal(t, "second has the text", strings.Contains(body, "東京"), true)
		equal(t, "running", book(t, claudeCode+"/endless").Running, 1)
		cancel()
		gone(t, claudeCode+"/endless")
	})
}
