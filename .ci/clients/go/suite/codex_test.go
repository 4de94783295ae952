package suite

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/llmgw/llmgw/ci/clients/engine"
)

const codex = "codex"

// codexTurn is the shape of a turn of the Codex CLI: streamed Responses, nothing
// stored, tools of two kinds, reasoning asked back encrypted.
const codexTurn = `{"model":"MODEL","instructions":"You are Codex, a coding agent.","input":[` +
	`{"type":"message","role":"developer","content":[{"type":"input_text","text":"<permissions>read-only</permissions>"}]},` +
	`{"type":"message","role":"user","content":[{"type":"input_text","text":"MARK — ` + "Grüße, 東京" + `"}]}],` +
	`"tools":[{"type":"function","name":"shell","strict":false,"parameters":{"type":"object","properties":{"command":{"type":"array","items":{"type":"string"}}},"required":["command"]}},` +
	`{"type":"custom","name":"apply_patch","description":"Edit files","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}}],` +
	`"tool_choice":"auto","parallel_tool_calls":false,"reasoning":{"effort":"medium","summary":"auto"},"store":false,"stream":true,` +
	`"include":["reasoning.encrypted_content"],"prompt_cache_key":"0199c4c2-5a1e-7d30-9a4b-0123456789ab"}`

func codexHeader(t *testing.T, encoding string) http.Header {
	t.Helper()
	h := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"text/event-stream"}, "Authorization": {"Bearer " + setting(t, "LLMGW_KEY")},
		"User-Agent": {"codex_cli_rs/0.114.0 (Debian 13.0.0; x86_64) xterm"}, "Originator": {"codex_cli_rs"},
		"Session_id": {"0199c4c2-5a1e-7d30-9a4b-0123456789ab"},
	}
	if encoding != "" {
		h.Set("Content-Encoding", encoding)
	}
	return h
}

func codexBody(how, mark string) []byte {
	return []byte(strings.NewReplacer("MODEL", codex+"/"+how, "MARK", mark).Replace(codexTurn))
}

func packed(t *testing.T, body []byte) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	must(t, err)
	return enc.EncodeAll(body, nil)
}

// turn is what Codex keeps of a stream.
type turn struct {
	created, completed bool
	items              []string // types of the finished items
	calls              string   // arguments of the last function call
	usage              struct {
		Input  *int64 `json:"input_tokens"`
		Output *int64 `json:"output_tokens"`
		Total  *int64 `json:"total_tokens"`
	}
	failed string // message of the event that ended it
}

func codexRead(t *testing.T, stream string) (c turn) {
	t.Helper()
	for _, ev := range sse(stream) {
		var d struct {
			Type     string `json:"type"`
			Message  string `json:"message"`
			Response struct {
				ID    string          `json:"id"`
				Usage json.RawMessage `json:"usage"`
				Error struct {
					Message string `json:"message"`
				} `json:"error"`
			} `json:"response"`
			Item struct {
				Type      string `json:"type"`
				Arguments string `json:"arguments"`
			} `json:"item"`
		}
		must(t, json.Unmarshal([]byte(ev[1]), &d))
		equal(t, "event's name", ev[0], d.Type)
		switch d.Type {
		case "response.created":
			c.created = d.Response.ID != ""
		case "response.output_item.done":
			c.items = append(c.items, d.Item.Type)
			c.calls = d.Item.Arguments
		case "response.completed":
			c.completed = d.Response.ID != ""
			must(t, json.Unmarshal(d.Response.Usage, &c.usage))
		case "error":
			c.failed = d.Message
		case "response.failed":
			c.failed = d.Response.Error.Message
		}
	}
	return c
}

func TestCodex(t *testing.T) {
	run := func(name string, f func(t *testing.T)) { cell(t, codex, name, f) }
	whole := func(t *testing.T, c turn) {
		t.Helper()
		equal(t, "created and completed", c.created && c.completed, true)
		if c.usage.Input == nil || c.usage.Output == nil || c.usage.Total == nil {
			t.Fatal("usage is not whole")
		}
		equal(t, "total tokens", *c.usage.Total, total)
	}
	run("zstd", func(t *testing.T) {
		body := codexBody("plain", "cell zstd")
		resp, stream := post(t, "/v1/responses", codexHeader(t, "zstd"), packed(t, body))
		equal(t, "status", resp.StatusCode, 200)
		c := codexRead(t, stream)
		whole(t, c)
		equal(t, "finished items", strings.Join(c.items, " "), "function_call")
		equal(t, "arguments", c.calls, engine.ToolArguments)
		seen := requests(t, codex+"/plain", "cell zstd")[0]
		want := strings.Replace(string(body), codex+"/plain", engine.Model, 1)
		equal(t, "body at the engine", seen.Body, want)
		equal(t, "encoding at the engine", seen.Header.Get("Content-Encoding"), "")
		// A name with an underscore is read like one with a dash by some servers,
		// so engines do not get it.
		equal(t, "session at the engine", seen.Header.Get("Session_id"), "")
	})
	run("stream", func(t *testing.T) {
		resp, stream := post(t, "/v1/responses", codexHeader(t, ""), codexBody("framing", "cell stream"))
		equal(t, "status", resp.StatusCode, 200)
		whole(t, codexRead(t, stream))
	})
	run("corrupt-zstd", func(t *testing.T) {
		resp, body := post(t, "/v1/responses", codexHeader(t, "zstd"), packed(t, codexBody("s500", "x"))[:80])
		equal(t, "status", resp.StatusCode, 400)
		equal(t, "says why in "+body, strings.Contains(body, `"code":"corrupt_encoding"`), true)
		equal(t, "x-should-retry", resp.Header.Get("x-should-retry"), "false")
		equal(t, "attempts", len(book(t, codex+"/s500").Requests), 0)
	})
	for how, want := range map[string]string{"cut": "engine failed before", "short": "engine failed before", "errorevent": "scripted: the engine died"} {
		run(how, func(t *testing.T) {
			_, stream := post(t, "/v1/responses", codexHeader(t, "zstd"), packed(t, codexBody(how, "cell "+how)))
			c := codexRead(t, stream)
			equal(t, "created, not completed", c.created && !c.completed, true)
			equal(t, "says why in "+c.failed, strings.Contains(c.failed, want), true)
			equal(t, "no [DONE]", strings.Contains(stream, "[DONE]"), false)
			equal(t, "attempts", len(book(t, codex+"/"+how).Requests), 1)
		})
	}
	run("errors", func(t *testing.T) {
		for how, status := range map[string]int{"s400": 400, "s429": 429, "s503": 503, "html502": 502} {
			resp, body := post(t, "/v1/responses", codexHeader(t, "zstd"), packed(t, codexBody(how, "x")))
			equal(t, how+" status", resp.StatusCode, status)
			var e struct {
				Error struct {
					Message string `json:"message"`
					Type    string `json:"type"`
				} `json:"error"`
			}
			must(t, json.Unmarshal([]byte(body), &e))
			equal(t, how+" has a type and a message", e.Error.Type != "" && e.Error.Message != "", true)
		}
	})
	run("abort", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, gateway(t)+"/v1/responses", strings.NewReader(string(packed(t, codexBody("endless", "cell abort")))))
		must(t, err)
		req.Header = codexHeader(t, "zstd")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		_, err = io.ReadFull(resp.Body, make([]byte, 2000))
		must(t, err)
		equal(t, "running", book(t, codex+"/endless").Running, 1)
		cancel()
		gone(t, codex+"/endless")
	})
	run("models", func(t *testing.T) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, gateway(t)+"/v1/models?client_version=0.114.0", nil)
		must(t, err)
		req.Header = codexHeader(t, "")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		equal(t, "status", resp.StatusCode, 200)
		var list struct {
			Data []struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		must(t, json.NewDecoder(resp.Body).Decode(&list))
		equal(t, "has models", len(list.Data) > 0, true)
	})
}
