package suite

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/llmgw/llmgw/ci/clients/keys"
)

// makeKey makes a key. want is JSON.
func makeKey(t *testing.T, want string) string {
	t.Helper()
	key, err := keys.Create(t.Context(), setting(t, "LLMGW_ADMIN"), want)
	must(t, err)
	return key
}

// throughDoor is a base URL whose requests are in the book door/name.
func throughDoor(t *testing.T, name string) string {
	t.Helper()
	return setting(t, "LLMGW_DOOR") + "/" + name
}

// statuses are what the server answered to those who came through the door.
func statuses(t *testing.T, name string) (list []int) {
	t.Helper()
	for _, r := range book(t, "door/"+name).Requests {
		list = append(list, r.Status)
	}
	return list
}

// onRefusal calls do once the server has refused a request that came through the
// door. What it returns waits for that.
func onRefusal(t *testing.T, name string, do func() error) (wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if slices.Contains(statuses(t, name), http.StatusTooManyRequests) {
				_ = do()
				return
			}
		}
		t.Errorf("no 429 for %s in 5 s", name)
	}()
	return func() { <-done }
}

// wrongKeys are one of another server and one that was cut, with what is said.
func wrongKeys(t *testing.T) map[string][2]string {
	t.Helper()
	good := setting(t, "LLMGW_KEY")
	return map[string][2]string{
		"other": {setting(t, "LLMGW_DEMO_KEY"), "not known here"}, "cut": {good[:len(good)-3], "cannot be one of this server"},
	}
}

const (
	twoRequests = `{"limits": {"requests_per_minute": 2, "tokens_per_minute": 100000}}`
	oneAtOnce   = `{"limits": {"concurrency": 1}}`
)

// budgetFor covers an answer of so many tokens, and nothing more.
func budgetFor(tokens int) string { return `{"budget": "0.00000` + strconv.Itoa(tokens) + `/total"}` }

// within checks that a header is a number in a range.
func within(t *testing.T, h http.Header, name string, least, most int) {
	t.Helper()
	if n, err := strconv.Atoi(h.Get(name)); err != nil || n < least || n > most {
		t.Errorf("%s: %q; want %d to %d", name, h.Get(name), least, most)
	}
}

// permanent checks the headers of a refusal that no waiting helps.
func permanent(t *testing.T, h http.Header) {
	t.Helper()
	equal(t, "x-should-retry", h.Get("x-should-retry"), "false")
	equal(t, "retry-after, retry-after-ms", h.Get("retry-after")+h.Get("retry-after-ms"), "")
}

func TestOpenAIKeys(t *testing.T) {
	client := func(t *testing.T, name, key string, more ...option.RequestOption) *openai.Client {
		t.Helper()
		c := openai.NewClient(append([]option.RequestOption{option.WithBaseURL(throughDoor(t, openaiGo+"-"+name) + "/v1"), option.WithAPIKey(key)}, more...)...)
		return &c
	}
	refusal := func(t *testing.T, c *openai.Client, p openai.ChatCompletionNewParams) *openai.Error {
		t.Helper()
		_, err := c.Chat.Completions.New(t.Context(), p)
		var e *openai.Error
		if !errors.As(err, &e) {
			t.Fatalf("%T %v; want *openai.Error", err, err)
		}
		return e
	}
	run := func(name string, f func(t *testing.T)) { cell(t, openaiGo, name, f) }
	run("wrong-key", func(t *testing.T) {
		for name, wrong := range wrongKeys(t) {
			e := refusal(t, client(t, name, wrong[0]), ask("plain", "x"))
			equal(t, "status and code", strconv.Itoa(e.StatusCode)+" "+e.Code, "401 invalid_api_key")
			equal(t, "says so: "+e.Message, strings.Contains(e.Message, wrong[1]), true)
			equal(t, "repeats the key", strings.Contains(e.RawJSON(), wrong[0]), false)
			equal(t, "attempts", len(statuses(t, openaiGo+"-"+name)), 1)
		}
	})
	run("key-header", func(t *testing.T) {
		key := setting(t, "LLMGW_KEY")
		c := client(t, "azure", "", option.WithHeaderDel("Authorization"), option.WithHeader("Api-Key", key))
		_, err := c.Chat.Completions.New(t.Context(), ask("plain", "cell key-header"))
		must(t, err)
		h := book(t, "door/"+openaiGo+"-azure").Requests[0].Header
		equal(t, "headers", h.Get("Api-Key")+h.Get("Authorization"), key)
		equal(t, "key at the engine", requests(t, openaiGo+"/plain", "cell key-header")[0].Header.Get("Api-Key"), "")
	})
	run("not-allowed", func(t *testing.T) {
		c := client(t, "not-allowed", makeKey(t, `{"models": ["`+openaiGo+`/plain"]}`))
		_, err := c.Chat.Completions.New(t.Context(), ask("plain", "cell not-allowed"))
		must(t, err)
		slow, none := refusal(t, c, ask("slow", "cell not-allowed")), refusal(t, c, ask("no-such", "cell not-allowed"))
		equal(t, "status and code", strconv.Itoa(slow.StatusCode)+" "+slow.Code, "404 model_not_found")
		equal(t, "message", strings.ReplaceAll(slow.Message, "slow", "no-such"), none.Message)
		equal(t, "requests at the engine", len(requests(t, openaiGo+"/slow", "cell not-allowed")), 0)
		list, err := c.Models.List(t.Context())
		must(t, err)
		equal(t, "models", len(list.Data), 1)
		equal(t, "model", list.Data[0].ID, openaiGo+"/plain")
	})
	run("rate-headers", func(t *testing.T) {
		c := client(t, "limits", makeKey(t, twoRequests), option.WithMaxRetries(0))
		for _, left := range []string{"1", "0"} {
			var resp *http.Response
			_, err := c.Chat.Completions.New(t.Context(), ask("plain", "cell rate"), option.WithResponseInto(&resp))
			must(t, err)
			equal(t, "requests", resp.Header.Get("x-ratelimit-remaining-requests")+"/"+resp.Header.Get("x-ratelimit-limit-requests"), left+"/2")
			within(t, resp.Header, "x-ratelimit-remaining-tokens", 1, 99999)
			reset, err := time.ParseDuration(resp.Header.Get("x-ratelimit-reset-requests"))
			must(t, err)
			equal(t, "reset", reset > 0 && reset <= 61*time.Second, true)
		}
		e := refusal(t, c, ask("plain", "cell rate"))
		equal(t, "status and code", strconv.Itoa(e.StatusCode)+" "+e.Code, "429 rate_limit_exceeded")
		equal(t, "remaining", e.Response.Header.Get("x-ratelimit-remaining-requests"), "0")
		within(t, e.Response.Header, "retry-after", 1, 61)
		within(t, e.Response.Header, "retry-after-ms", 1, 61000)
	})
	run("retry-rate", func(t *testing.T) {
		key := makeKey(t, oneAtOnce)
		held := client(t, "held", key).Chat.Completions.NewStreaming(t.Context(), ask("endless", "cell retry-rate"))
		equal(t, "one is under way", held.Next(), true)
		wait := onRefusal(t, openaiGo+"-rate", held.Close)
		defer wait()
		got, err := client(t, "rate", key).Chat.Completions.New(t.Context(), ask("plain", "cell retry-rate"))
		must(t, err)
		equal(t, "text", got.Choices[0].Message.Content, text)
		retried(t, "door/"+openaiGo+"-rate", time.Second)
	})
	run("no-retry-budget", func(t *testing.T) {
		c, p := client(t, "budget", makeKey(t, budgetFor(output))), ask("plain", "cell budget")
		p.MaxTokens = openai.Int(output)
		_, err := c.Chat.Completions.New(t.Context(), p)
		must(t, err)
		p.MaxTokens = openai.Int(output + 1)
		e := refusal(t, c, p)
		equal(t, "status, code, type", strconv.Itoa(e.StatusCode)+" "+e.Code+" "+e.Type, "429 insufficient_quota insufficient_quota")
		permanent(t, e.Response.Header)
		if got := statuses(t, openaiGo+"-budget"); !slices.Equal(got, []int{200, 429}) {
			t.Errorf("answers %v; want 200 and one 429", got)
		}
	})
}

func TestAnthropicKeys(t *testing.T) {
	client := func(t *testing.T, name string, more ...anthropicoption.RequestOption) *anthropic.Client {
		t.Helper()
		c := anthropic.NewClient(append(more, anthropicoption.WithBaseURL(throughDoor(t, anthropicGo+"-"+name)))...)
		return &c
	}
	refusal := func(t *testing.T, c *anthropic.Client, p anthropic.MessageNewParams) *anthropic.Error {
		t.Helper()
		_, err := c.Messages.New(t.Context(), p)
		var e *anthropic.Error
		if !errors.As(err, &e) {
			t.Fatalf("%T %v; want *anthropic.Error", err, err)
		}
		return e
	}
	run := func(name string, f func(t *testing.T)) { cell(t, anthropicGo, name, f) }
	run("wrong-key", func(t *testing.T) {
		for name, wrong := range wrongKeys(t) {
			e := refusal(t, client(t, name, anthropicoption.WithAPIKey(wrong[0])), message("plain", "x"))
			equal(t, "status and type", strconv.Itoa(e.StatusCode)+" "+string(e.Type()), "401 authentication_error")
			equal(t, "says so: "+e.RawJSON(), strings.Contains(e.RawJSON(), wrong[1]), true)
			equal(t, "repeats the key", strings.Contains(e.RawJSON(), wrong[0]), false)
			equal(t, "attempts", len(statuses(t, anthropicGo+"-"+name)), 1)
		}
	})
	run("key-header", func(t *testing.T) {
		key := setting(t, "LLMGW_KEY")
		for header, how := range map[string]anthropicoption.RequestOption{
			"X-Api-Key": anthropicoption.WithAPIKey(key), "Authorization": anthropicoption.WithAuthToken(key),
		} {
			_, err := client(t, header, how).Messages.New(t.Context(), message("plain", "cell key-header"))
			must(t, err)
			h := book(t, "door/"+anthropicGo+"-"+header).Requests[0].Header
			equal(t, "key in "+header, strings.TrimPrefix(h.Get(header), "Bearer "), key)
		}
		for _, r := range requests(t, anthropicGo+"/plain", "cell key-header") {
			equal(t, "key at the engine", r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"), "")
		}
	})
	run("not-allowed", func(t *testing.T) {
		c := client(t, "not-allowed", anthropicoption.WithAPIKey(makeKey(t, `{"models": ["`+anthropicGo+`/plain"]}`)))
		_, err := c.Messages.New(t.Context(), message("plain", "cell not-allowed"))
		must(t, err)
		slow, none := refusal(t, c, message("slow", "cell not-allowed")), refusal(t, c, message("no-such", "cell not-allowed"))
		equal(t, "status and type", strconv.Itoa(slow.StatusCode)+" "+string(slow.Type()), "404 not_found_error")
		equal(t, "unknown", strconv.Itoa(none.StatusCode)+" "+string(none.Type()), "404 not_found_error")
		equal(t, "requests at the engine", len(requests(t, anthropicGo+"/slow", "cell not-allowed")), 0)
		list, err := c.Models.List(t.Context(), anthropic.ModelListParams{})
		must(t, err)
		equal(t, "models", len(list.Data), 1)
		equal(t, "model", list.Data[0].ID, anthropicGo+"/plain")
	})
	run("rate-headers", func(t *testing.T) {
		c := client(t, "limits", anthropicoption.WithAPIKey(makeKey(t, twoRequests)), anthropicoption.WithMaxRetries(0))
		for _, left := range []string{"1", "0"} {
			var resp *http.Response
			_, err := c.Messages.New(t.Context(), message("plain", "cell rate"), anthropicoption.WithResponseInto(&resp))
			must(t, err)
			h := resp.Header
			equal(t, "requests", h.Get("anthropic-ratelimit-requests-remaining")+"/"+h.Get("anthropic-ratelimit-requests-limit"), left+"/2")
			within(t, h, "anthropic-ratelimit-tokens-remaining", 1, 99999)
			reset, err := time.Parse(time.RFC3339, h.Get("anthropic-ratelimit-requests-reset"))
			must(t, err)
			equal(t, "reset", reset.After(time.Now()), true)
		}
		e := refusal(t, c, message("plain", "cell rate"))
		equal(t, "status and type", strconv.Itoa(e.StatusCode)+" "+string(e.Type()), "429 rate_limit_error")
		equal(t, "remaining", e.Response.Header.Get("anthropic-ratelimit-requests-remaining"), "0")
		within(t, e.Response.Header, "retry-after", 1, 61)
	})
	run("retry-rate", func(t *testing.T) {
		key := anthropicoption.WithAPIKey(makeKey(t, oneAtOnce))
		held := client(t, "held", key).Messages.NewStreaming(t.Context(), message("endless", "cell retry-rate"))
		equal(t, "one is under way", held.Next(), true)
		wait := onRefusal(t, anthropicGo+"-rate", held.Close)
		defer wait()
		got, err := client(t, "rate", key).Messages.New(t.Context(), message("plain", "cell retry-rate"))
		must(t, err)
		equal(t, "text", got.Content[0].Text, text)
		retried(t, "door/"+anthropicGo+"-rate", time.Second)
	})
	run("no-retry-budget", func(t *testing.T) {
		c, p := client(t, "budget", anthropicoption.WithAPIKey(makeKey(t, budgetFor(output)))), message("plain", "cell budget")
		p.MaxTokens = output
		_, err := c.Messages.New(t.Context(), p)
		must(t, err)
		p.MaxTokens = output + 1
		e := refusal(t, c, p)
		equal(t, "status and type", strconv.Itoa(e.StatusCode)+" "+string(e.Type()), "429 rate_limit_error")
		equal(t, "says so", strings.Contains(e.RawJSON(), "budget"), true)
		permanent(t, e.Response.Header)
		if got := statuses(t, anthropicGo+"-budget"); !slices.Equal(got, []int{200, 429}) {
			t.Errorf("answers %v; want 200 and one 429", got)
		}
	})
}
