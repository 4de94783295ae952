package suite

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/llmgw/llmgw/ci/clients/engine"
)

const anthropicGo = "anthropic-go"

// message is a request whose prompt holds mark.
func message(how, mark string) anthropic.MessageNewParams {
	return anthropic.MessageNewParams{
		Model: anthropicGo + "/" + how, MaxTokens: 100,
		Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(mark))},
	}
}

// accumulate takes a stream to its end: the message it makes and its pieces.
// onPiece may be nil.
func accumulate(ctx context.Context, t *testing.T, c *anthropic.Client, p anthropic.MessageNewParams, onPiece func(n int)) (m anthropic.Message, pieces []string, err error) {
	t.Helper()
	stream := c.Messages.NewStreaming(ctx, p)
	defer stream.Close()
	for stream.Next() {
		ev := stream.Current()
		must(t, m.Accumulate(ev))
		if ev.Type != "content_block_delta" || ev.Delta.Type != "text_delta" {
			continue
		}
		pieces = append(pieces, ev.Delta.Text)
		if onPiece != nil {
			onPiece(len(pieces))
		}
	}
	return m, pieces, stream.Err()
}

func TestAnthropic(t *testing.T) {
	client := anthropic.NewClient(option.WithBaseURL(gateway(t)), option.WithAPIKey(setting(t, "LLMGW_KEY")))
	once := anthropic.NewClient(option.WithBaseURL(gateway(t)), option.WithAPIKey(setting(t, "LLMGW_KEY")), option.WithMaxRetries(0))
	demo := anthropic.NewClient(option.WithBaseURL(setting(t, "LLMGW_DEMO")), option.WithAPIKey(setting(t, "LLMGW_DEMO_KEY")))
	tools := []anthropic.ToolUnionParam{anthropic.ToolUnionParamOfTool(anthropic.ToolInputSchemaParam{
		Properties: map[string]any{"city": map[string]any{"type": "string"}},
	}, "weather")}
	counted := func(t *testing.T, u anthropic.Usage) {
		t.Helper()
		equal(t, "input tokens", u.InputTokens, prompt-cached)
		equal(t, "cached tokens", u.CacheReadInputTokens, cached)
		equal(t, "output tokens", u.OutputTokens, output)
	}

	run := func(name string, f func(t *testing.T)) { cell(t, anthropicGo, name, f) }
	run("demo", func(t *testing.T) {
		p := message("", "demo")
		p.Model, p.MaxTokens = setting(t, "LLMGW_DEMO_MODEL"), 24
		whole, err := demo.Messages.New(t.Context(), p)
		must(t, err)
		equal(t, "words", int64(len(strings.Split(whole.Content[0].Text, " "))), whole.Usage.OutputTokens)
		m, _, err := accumulate(t.Context(), t, &demo, p, nil)
		must(t, err)
		equal(t, "streamed text", m.Content[0].Text, whole.Content[0].Text)
		equal(t, "streamed usage", m.Usage.OutputTokens, whole.Usage.OutputTokens)
	})
	run("chat", func(t *testing.T) {
		got, err := client.Messages.New(t.Context(), message("plain", "cell chat"))
		must(t, err)
		equal(t, "text", got.Content[0].Text, text)
		equal(t, "stop", got.StopReason, anthropic.StopReasonEndTurn)
		counted(t, got.Usage)
		seen := requests(t, anthropicGo+"/plain", "cell chat")[0].Header
		equal(t, "names a version", seen.Get("Anthropic-Version") != "", true)
		equal(t, "key at the engine", seen.Get("X-Api-Key"), "")
	})
	run("stream", func(t *testing.T) {
		m, pieces, err := accumulate(t.Context(), t, &client, message("plain", "cell stream"), nil)
		must(t, err)
		if !slices.Equal(pieces, engine.Pieces()) {
			t.Errorf("pieces %q; want %q", pieces, engine.Pieces())
		}
		equal(t, "stop", m.StopReason, anthropic.StopReasonEndTurn)
		counted(t, m.Usage)
	})
	run("framing", func(t *testing.T) {
		m, _, err := accumulate(t.Context(), t, &client, message("framing", "cell framing"), nil)
		must(t, err)
		equal(t, "text", m.Content[0].Text, text)
		counted(t, m.Usage)
	})
	run("slow", func(t *testing.T) {
		begin := time.Now()
		m, _, err := accumulate(t.Context(), t, &client, message("slow", "cell slow"), nil)
		must(t, err)
		equal(t, "text", m.Content[0].Text, text)
		equal(t, "waited", time.Since(begin) >= engine.SlowBy, true)
	})
	run("tools", func(t *testing.T) {
		p := message("plain", "cell tools")
		p.Tools = tools
		got, err := client.Messages.New(t.Context(), p)
		must(t, err)
		call := got.Content[0]
		equal(t, "stop", got.StopReason, anthropic.StopReasonToolUse)
		equal(t, "call", call.ID+call.Name+string(call.Input), "toolu_1weather"+engine.ToolArguments)
		p.Messages = append(p.Messages, got.ToParam(), anthropic.NewUserMessage(anthropic.NewToolResultBlock(call.ID, "12 °C", false)))
		got, err = client.Messages.New(t.Context(), p)
		must(t, err)
		equal(t, "text", got.Content[0].Text, text)
	})
	run("tools-stream", func(t *testing.T) {
		p := message("framing", "cell tools")
		p.Tools = tools
		m, _, err := accumulate(t.Context(), t, &client, p, nil)
		must(t, err)
		equal(t, "stop", m.StopReason, anthropic.StopReasonToolUse)
		equal(t, "call", m.Content[0].Name+string(m.Content[0].Input), "weather"+engine.ToolArguments)
	})
	run("vision", func(t *testing.T) {
		p := message("plain", "")
		p.Messages = []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("cell vision"), anthropic.NewImageBlockBase64("image/png", image))}
		got, err := client.Messages.New(t.Context(), p)
		must(t, err)
		equal(t, "text", got.Content[0].Text, text)
		equal(t, "image at the engine", strings.Contains(requests(t, anthropicGo+"/plain", "cell vision")[0].Body, image), true)
	})
	run("count-tokens", func(t *testing.T) {
		got, err := client.Messages.CountTokens(t.Context(), anthropic.MessageCountTokensParams{
			Model: anthropicGo + "/plain", Messages: message("", "cell count").Messages,
		})
		must(t, err)
		equal(t, "tokens", got.InputTokens, prompt)
	})
	run("models", func(t *testing.T) {
		one, err := client.Models.Get(t.Context(), anthropicGo+"/plain", anthropic.ModelGetParams{})
		must(t, err)
		equal(t, "id", one.ID, anthropicGo+"/plain")
		found := false
		pages := client.Models.ListAutoPaging(t.Context(), anthropic.ModelListParams{Limit: anthropic.Int(20)}) // several pages
		for pages.Next() {
			found = found || pages.Current().ID == anthropicGo+"/plain"
		}
		must(t, pages.Err())
		equal(t, "listed", found, true)
	})
	run("errors", func(t *testing.T) {
		for how, kind := range map[string]string{
			"s400": "invalid_request_error", "s401": "authentication_error", "s403": "permission_error", "s404": "not_found_error",
			"s413": "request_too_large", "s422": "invalid_request_error", "s429": "rate_limit_error", "s500": "api_error",
			"s529": "overloaded_error", "html502": "api_error",
		} {
			_, err := once.Messages.New(t.Context(), message(how, "cell errors"))
			var e *anthropic.Error
			if !errors.As(err, &e) {
				t.Errorf("%s: %T %v; want *anthropic.Error", how, err, err)
				continue
			}
			equal(t, how+" status", strconv.Itoa(e.StatusCode), how[len(how)-3:])
			equal(t, how+" type in "+e.RawJSON(), strings.Contains(e.RawJSON(), `"type":"`+kind+`"`), true)
			if how != "html502" {
				equal(t, how+" message", strings.Contains(e.RawJSON(), "scripted failure"), true)
			}
			seen := book(t, anthropicGo+"/"+how).Requests
			equal(t, how+" attempts", len(seen), 1)
			equal(t, how+" request id", e.RequestID, seen[0].Header.Get("X-Request-Id"))
		}
	})
	run("no-retry", func(t *testing.T) {
		_, err := client.Messages.New(t.Context(), message("no-such", "x"))
		var e *anthropic.Error
		if !errors.As(err, &e) {
			t.Fatalf("%T %v; want *anthropic.Error", err, err)
		}
		equal(t, "status", e.StatusCode, 404)
		equal(t, "type", e.Type(), "not_found_error")
		equal(t, "x-should-retry", e.Response.Header.Get("x-should-retry"), "false")
	})
	for how, wait := range map[string]time.Duration{"limited": time.Second, "loading": time.Second, "closing": 0} {
		run("retry-"+how, func(t *testing.T) {
			got, err := client.Messages.New(t.Context(), message(how, "cell retry"))
			must(t, err)
			equal(t, "text", got.Content[0].Text, text)
			retried(t, anthropicGo+"/"+how, wait)
		})
	}
	for how, kind := range map[string]string{"cut": "api_error", "short": "api_error", "errorevent": "overloaded_error"} {
		run(how, func(t *testing.T) {
			_, pieces, err := accumulate(t.Context(), t, &client, message(how, "cell "+how), nil)
			var e *anthropic.Error
			if !errors.As(err, &e) {
				t.Fatalf("%T %v; want *anthropic.Error", err, err)
			}
			equal(t, "type", string(e.Type()), kind)
			equal(t, "text before", strings.Join(pieces, ""), strings.Join(engine.Pieces()[:2], ""))
			equal(t, "attempts", len(book(t, anthropicGo+"/"+how).Requests), 1)
		})
	}
	run("reset", func(t *testing.T) {
		_, pieces, err := accumulate(t.Context(), t, &client, message("reset", "cell reset"), func(int) { control(t, "release", anthropicGo+"/reset") })
		got := strings.Join(pieces, "")
		equal(t, "raises", err != nil, true)
		equal(t, "a prefix ("+got+")", got != "" && strings.HasPrefix(text, got), true)
		equal(t, "attempts", len(book(t, anthropicGo+"/reset").Requests), 1)
	})
	run("abort", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, _, err := accumulate(ctx, t, &client, message("endless", "cell abort"), func(n int) {
			if n == 4 {
				equal(t, "running", book(t, anthropicGo+"/endless").Running, 1)
				cancel()
			}
		})
		equal(t, "error is the context's", errors.Is(err, context.Canceled), true)
		gone(t, anthropicGo+"/endless")
	})
	run("timeout", func(t *testing.T) {
		_, err := once.Messages.New(t.Context(), message("hang", "cell timeout"), option.WithRequestTimeout(time.Second))
		equal(t, "error is a deadline's", errors.Is(err, context.DeadlineExceeded), true)
		gone(t, anthropicGo+"/hang")
	})
}
