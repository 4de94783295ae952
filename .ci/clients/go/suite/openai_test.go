package suite

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/llmgw/llmgw/ci/clients/engine"
)

const openaiGo = "openai-go"

// ask is a chat whose prompt holds mark.
func ask(how, mark string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    openaiGo + "/" + how,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(mark)},
	}
}

// read takes a stream to its end: its text, the usage it told and the number of
// chunks without a choice.
func read(t *testing.T, c *openai.Client, p openai.ChatCompletionNewParams) (acc openai.ChatCompletionAccumulator, pieces []string, empty int, err error) {
	t.Helper()
	stream := c.Chat.Completions.NewStreaming(t.Context(), p)
	defer stream.Close()
	for stream.Next() {
		chunk := stream.Current()
		acc.AddChunk(chunk)
		if len(chunk.Choices) == 0 {
			empty++
		} else if s := chunk.Choices[0].Delta.Content; s != "" {
			pieces = append(pieces, s)
		}
	}
	return acc, pieces, empty, stream.Err()
}

func weather() []openai.ChatCompletionToolUnionParam {
	return []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
		Name: "weather", Parameters: shared.FunctionParameters{"type": "object", "properties": map[string]any{"city": map[string]any{"type": "string"}}},
	})}
}

func TestOpenAI(t *testing.T) {
	client := openai.NewClient(option.WithBaseURL(gateway(t)+"/v1"), option.WithAPIKey(setting(t, "LLMGW_KEY")))
	once := openai.NewClient(option.WithBaseURL(gateway(t)+"/v1"), option.WithAPIKey(setting(t, "LLMGW_KEY")), option.WithMaxRetries(0))
	demo := openai.NewClient(option.WithBaseURL(setting(t, "LLMGW_DEMO")+"/v1"), option.WithAPIKey(setting(t, "LLMGW_DEMO_KEY")))

	run := func(name string, f func(t *testing.T)) { cell(t, openaiGo, name, f) }
	run("demo", func(t *testing.T) {
		p := ask("", "demo")
		p.Model, p.MaxTokens = setting(t, "LLMGW_DEMO_MODEL"), openai.Int(24)
		whole, err := demo.Chat.Completions.New(t.Context(), p)
		must(t, err)
		words := int64(len(strings.Split(whole.Choices[0].Message.Content, " ")))
		equal(t, "words", words, whole.Usage.CompletionTokens)
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		acc, _, _, err := read(t, &demo, p)
		must(t, err)
		equal(t, "streamed text", acc.Choices[0].Message.Content, whole.Choices[0].Message.Content)
		equal(t, "streamed usage", acc.Usage.TotalTokens, whole.Usage.TotalTokens)
	})
	run("chat", func(t *testing.T) {
		got, err := client.Chat.Completions.New(t.Context(), ask("plain", "cell chat"))
		must(t, err)
		equal(t, "text", got.Choices[0].Message.Content, text)
		equal(t, "finish", got.Choices[0].FinishReason, "stop")
		equal(t, "prompt tokens", got.Usage.PromptTokens, prompt)
		equal(t, "cached tokens", got.Usage.PromptTokensDetails.CachedTokens, cached)
		equal(t, "total tokens", got.Usage.TotalTokens, total)
	})
	run("stream", func(t *testing.T) {
		acc, pieces, empty, err := read(t, &client, ask("plain", "cell stream"))
		must(t, err)
		if !slices.Equal(pieces, engine.Pieces()) {
			t.Errorf("pieces %q; want %q", pieces, engine.Pieces())
		}
		equal(t, "finish", acc.Choices[0].FinishReason, "stop")
		equal(t, "chunks without a choice", empty, 0)
		equal(t, "usage", acc.Usage.TotalTokens, 0)
		equal(t, "asked by the gateway", strings.Contains(requests(t, openaiGo+"/plain", "cell stream\"")[0].Body, `"include_usage":true`), true)
	})
	run("stream-usage", func(t *testing.T) {
		p := ask("plain", "cell usage")
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		acc, _, empty, err := read(t, &client, p)
		must(t, err)
		equal(t, "text", acc.Choices[0].Message.Content, text)
		equal(t, "chunks without a choice", empty, 1)
		equal(t, "prompt tokens", acc.Usage.PromptTokens, prompt)
		equal(t, "total tokens", acc.Usage.TotalTokens, total)
	})
	run("framing", func(t *testing.T) {
		p := ask("framing", "cell framing")
		acc, _, empty, err := read(t, &client, p)
		must(t, err)
		equal(t, "text", acc.Choices[0].Message.Content, text)
		equal(t, "chunks without a choice", empty, 0)
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		acc, _, _, err = read(t, &client, p)
		must(t, err)
		equal(t, "total tokens", acc.Usage.TotalTokens, total)
	})
	run("slow", func(t *testing.T) {
		begin := time.Now()
		acc, _, _, err := read(t, &client, ask("slow", "cell slow"))
		must(t, err)
		equal(t, "text", acc.Choices[0].Message.Content, text)
		equal(t, "waited", time.Since(begin) >= engine.SlowBy, true)
	})
	run("tools", func(t *testing.T) {
		p := ask("plain", "cell tools")
		p.Tools = weather()
		got, err := client.Chat.Completions.New(t.Context(), p)
		must(t, err)
		m := got.Choices[0].Message
		equal(t, "finish", got.Choices[0].FinishReason, "tool_calls")
		equal(t, "call", m.ToolCalls[0].Function.Name+m.ToolCalls[0].Function.Arguments, "weather"+engine.ToolArguments)
		p.Messages = append(p.Messages, m.ToParam(), openai.ToolMessage("12 °C", m.ToolCalls[0].ID))
		got, err = client.Chat.Completions.New(t.Context(), p)
		must(t, err)
		equal(t, "text", got.Choices[0].Message.Content, text)
	})
	run("tools-stream", func(t *testing.T) {
		p := ask("framing", "cell tools stream")
		p.Tools = weather()
		acc, _, _, err := read(t, &client, p)
		must(t, err)
		call := acc.Choices[0].Message.ToolCalls[0]
		equal(t, "call", call.ID+call.Function.Name+call.Function.Arguments, "call_1weather"+engine.ToolArguments)
		equal(t, "finish", acc.Choices[0].FinishReason, "tool_calls")
	})
	run("vision", func(t *testing.T) {
		p := ask("plain", "")
		p.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{
			openai.TextContentPart("cell vision"),
			openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: "data:image/png;base64," + image, Detail: "low"}),
		})}
		got, err := client.Chat.Completions.New(t.Context(), p)
		must(t, err)
		equal(t, "text", got.Choices[0].Message.Content, text)
		body := requests(t, openaiGo+"/plain", "cell vision")[0].Body
		equal(t, "image at the engine", strings.Contains(body, "data:image/png;base64,"+image), true)
	})
	run("embeddings", func(t *testing.T) {
		got, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
			Model: openaiGo + "/plain", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}},
		})
		must(t, err)
		if want := []float64{1, -0.5, 0.25, 1}; !slices.Equal(got.Data[1].Embedding, want) {
			t.Errorf("embedding %v; want %v", got.Data[1].Embedding, want)
		}
		equal(t, "usage", got.Usage.PromptTokens, prompt)
		got, err = client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
			Model: openaiGo + "/plain", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfTokenArrays: [][]int64{{1, 2}, {3}, {4}}},
			EncodingFormat: openai.EmbeddingNewParamsEncodingFormatBase64,
		})
		must(t, err)
		equal(t, "embeddings", len(got.Data), 3)
		equal(t, "base64", strings.Contains(got.RawJSON(), `"AACAPwAAAL8AAIA+AAAAQA=="`), true)
	})
	run("models", func(t *testing.T) {
		one, err := client.Models.Get(t.Context(), openaiGo+"/plain")
		must(t, err)
		equal(t, "id", one.ID, openaiGo+"/plain")
		list, err := client.Models.List(t.Context())
		must(t, err)
		equal(t, "listed", slices.ContainsFunc(list.Data, func(m openai.Model) bool { return m.ID == openaiGo+"/plain" }), true)
	})
	run("errors", func(t *testing.T) {
		for how, status := range map[string]int{"s400": 400, "s401": 401, "s403": 403, "s404": 404, "s409": 409, "s413": 413, "s422": 422, "s429": 429, "s500": 500, "s503": 503, "html502": 502} {
			_, err := once.Chat.Completions.New(t.Context(), ask(how, "cell errors"))
			var e *openai.Error
			if !errors.As(err, &e) {
				t.Errorf("%s: %T %v; want *openai.Error", how, err, err)
				continue
			}
			equal(t, how+" status", e.StatusCode, status)
			if want := "scripted failure"; how != "html502" && !strings.Contains(e.Message, want) {
				t.Errorf("%s message %q; want it to contain %q", how, e.Message, want)
			}
			equal(t, how+" has a type and a message", e.Type != "" && e.Message != "", true)
			equal(t, how+" code is symbolic", strings.Trim(e.Code, "0123456789") == e.Code, true)
			seen := book(t, openaiGo+"/"+how).Requests
			equal(t, how+" attempts", len(seen), 1)
			equal(t, how+" request id", e.Response.Header.Get("x-request-id"), seen[0].Header.Get("X-Request-Id"))
		}
	})
	run("no-retry", func(t *testing.T) {
		begin := time.Now()
		_, err := client.Chat.Completions.New(t.Context(), ask("no-such", "x"))
		var e *openai.Error
		if !errors.As(err, &e) {
			t.Fatalf("%T %v; want *openai.Error", err, err)
		}
		equal(t, "status", e.StatusCode, 404)
		equal(t, "code, type, param", e.Code+" "+e.Type+" "+e.Param, "model_not_found invalid_request_error model")
		equal(t, "x-should-retry", e.Response.Header.Get("x-should-retry"), "false")
		equal(t, "at once", time.Since(begin) < 5*time.Second, true)
	})
	for how, wait := range map[string]time.Duration{"limited": time.Second, "loading": time.Second, "closing": 0} {
		run("retry-"+how, func(t *testing.T) {
			got, err := client.Chat.Completions.New(t.Context(), ask(how, "cell retry"))
			must(t, err)
			equal(t, "text", got.Choices[0].Message.Content, text)
			retried(t, openaiGo+"/"+how, wait)
		})
	}
	run("asleep", func(t *testing.T) {
		c := openai.NewClient(option.WithBaseURL(throughDoor(t, openaiGo+"-asleep")+"/v1"), option.WithAPIKey(setting(t, "LLMGW_KEY")))
		p := ask("asleep", "cell asleep")
		p.MaxTokens = openai.Int(3)
		got, err := c.Chat.Completions.New(t.Context(), p)
		must(t, err)
		equal(t, "tokens", got.Usage.CompletionTokens, 3)
		woken(t, openaiGo)
	})
	for _, how := range []string{"cut", "short", "errorevent"} {
		run(how, func(t *testing.T) {
			_, pieces, _, err := read(t, &client, ask(how, "cell "+how))
			if err == nil {
				t.Fatal("a stream that broke off ended without an error")
			}
			equal(t, "text before", strings.Join(pieces, ""), strings.Join(engine.Pieces()[:2], ""))
			equal(t, "attempts", len(book(t, openaiGo+"/"+how).Requests), 1)
			want := map[string]string{"cut": "upstream_failed", "short": "upstream_failed", "errorevent": "scripted: the engine died"}[how]
			equal(t, "says why ("+err.Error()+")", strings.Contains(err.Error(), want), true)
		})
	}
	run("reset", func(t *testing.T) {
		stream := client.Chat.Completions.NewStreaming(t.Context(), ask("reset", "cell reset"))
		got := ""
		for stream.Next() {
			if c := stream.Current().Choices; len(c) > 0 && c[0].Delta.Content != "" {
				got += c[0].Delta.Content
				control(t, "release", openaiGo+"/reset")
			}
		}
		equal(t, "raises", stream.Err() != nil, true)
		equal(t, "a prefix ("+got+")", got != "" && strings.HasPrefix(text, got), true)
		equal(t, "attempts", len(book(t, openaiGo+"/reset").Requests), 1)
	})
	run("abort", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream := client.Chat.Completions.NewStreaming(ctx, ask("endless", "cell abort"))
		for n := 0; n < 5 && stream.Next(); n++ {
		}
		equal(t, "running", book(t, openaiGo+"/endless").Running, 1)
		cancel()
		for stream.Next() {
		}
		equal(t, "error is the context's", errors.Is(stream.Err(), context.Canceled), true)
		gone(t, openaiGo+"/endless")
	})
	run("timeout", func(t *testing.T) {
		_, err := once.Chat.Completions.New(t.Context(), ask("hang", "cell timeout"), option.WithRequestTimeout(time.Second))
		equal(t, "error is a deadline's", errors.Is(err, context.DeadlineExceeded), true)
		gone(t, openaiGo+"/hang")
	})
	run("responses", func(t *testing.T) {
		p := responses.ResponseNewParams{Model: openaiGo + "/plain", Input: responses.ResponseNewParamsInputUnion{OfString: param.NewOpt("cell responses")}}
		got, err := client.Responses.New(t.Context(), p)
		must(t, err)
		equal(t, "text", got.OutputText(), text)
		equal(t, "usage", got.Usage.TotalTokens, total)
		equal(t, "cached", got.Usage.InputTokensDetails.CachedTokens, cached)
		p.Model = openaiGo + "/framing"
		stream := client.Responses.NewStreaming(t.Context(), p)
		streamed, last := "", ""
		for stream.Next() {
			ev := stream.Current()
			if last = ev.Type; ev.Type == "response.output_text.delta" {
				streamed += ev.Delta
			}
			if ev.Type == "response.completed" {
				equal(t, "streamed usage", ev.Response.Usage.TotalTokens, total)
			}
		}
		must(t, stream.Err())
		equal(t, "streamed text", streamed, text)
		equal(t, "last event", last, "response.completed")
	})
}
