package anthropic_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/anthropic"
)

func TestWriteError(t *testing.T) {
	types := map[int]string{
		400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error",
		404: "not_found_error", 405: "invalid_request_error", 408: "invalid_request_error", 413: "request_too_large",
		415: "invalid_request_error", 422: "invalid_request_error", 429: "rate_limit_error", 431: "invalid_request_error",
		500: "api_error", 502: "api_error", 503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
	}
	for status, kind := range types {
		w := httptest.NewRecorder()
		e := &anthropic.Error{Status: status, Message: "Do this.", RetryAfter: 1500 * time.Millisecond, Allow: "GET"}
		anthropic.WriteError(w, e, "req_1")
		want := `{"type":"error","error":{"type":"` + kind + `","message":"Do this."},"request_id":"req_1"}`
		if w.Code != status || w.Body.String() != want {
			t.Errorf("got %d %s, want %d %s", w.Code, w.Body, status, want)
		}
		for h, want := range map[string]string{
			"Content-Type": "application/json", "X-Request-Id": "req_1", "Request-Id": "req_1",
			"Retry-After": "2", "Retry-After-Ms": "1500", "X-Should-Retry": "true", "Allow": "GET",
		} {
			if got := w.Header().Get(h); got != want {
				t.Errorf("%s is %q, want %q", h, got, want)
			}
		}
		if e.Error() != kind+": Do this." {
			t.Errorf("Error() is %q", e.Error())
		}
	}
}

func TestErrorEvent(t *testing.T) {
	e := &anthropic.Error{Status: 529, Type: "api_error", Message: "a\nb"}
	want := "event: error\ndata: " + `{"type":"error","error":{"type":"api_error","message":"a\nb"}}` + "\n\n"
	if got := string(anthropic.ErrorEvent(e, "")); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNormalizeError(t *testing.T) {
	shaped := ` {"type":"error","error":{"type":"not_found_error","message":"m","extra":1}}`
	silent := "The engine answered 500 Internal Server Error without saying why. Try again, or ask the operator with the id of this request."
	tests := []struct {
		name   string
		status int
		body   string
		want   string
	}{
		{"has the shape", 400, shaped, shaped},
		{"a type of the engine's own", 400, `{"type":"error","error":{"type":"BadRequestError","message":"m"}}`, `{"type":"error","error":{"type":"invalid_request_error","message":"m"},"request_id":"r"}`},
		{"OpenAI", 400, `{"error":{"message":"m","type":"BadRequestError","param":null,"code":400}}`, `{"type":"error","error":{"type":"invalid_request_error","message":"m"},"request_id":"r"}`},
		{"flat", 404, `{"object":"error","message":"m","type":"x","code":404}`, `{"type":"error","error":{"type":"not_found_error","message":"m"},"request_id":"r"}`},
		{"string", 429, `{"error":"slow"}`, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"},"request_id":"r"}`},
		{"detail", 422, `{"detail":"d"}`, `{"type":"error","error":{"type":"invalid_request_error","message":"d"},"request_id":"r"}`},
		{"no type", 400, `{"type":"error","error":{"message":"m"}}`, `{"type":"error","error":{"type":"invalid_request_error","message":"m"},"request_id":"r"}`},
		{"empty", 500, ``, `{"type":"error","error":{"type":"api_error","message":"` + silent + `"},"request_id":"r"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(anthropic.NormalizeError(tt.status, "application/json", []byte(tt.body), "r"))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func FuzzNormalizeError(f *testing.F) {
	for _, body := range []string{
		`{"type":"error","error":{"type":"x","message":"m"}}`, `{"error":{"message":"m","type":"t","code":400}}`, `{"detail":[]}`, `<html>`,
	} {
		f.Add(400, "", []byte(body))
	}
	f.Fuzz(func(t *testing.T, status int, contentType string, body []byte) {
		got := anthropic.NormalizeError(status, contentType, body, "r")
		var doc struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal(got, &doc); err != nil || doc.Error.Message == "" || doc.Error.Type == "" {
			t.Fatalf("%q became %q: %v", body, got, err)
		}
		if again := anthropic.NormalizeError(status, "application/json", got, "r"); string(again) != string(got) {
			t.Fatalf("%q became %q", got, again)
		}
	})
}

func TestModelList(t *testing.T) {
	var models []anthropic.Model
	for id := range strings.SplitSeq("abcdefg", "") {
		models = append(models, anthropic.Model{ID: id})
	}
	tests := []struct {
		name, query string
		ids         string // first to last
		more        bool
		err         string
	}{
		{"all", "", "abcdefg", false, ""},
		{"first page", "limit=3", "abc", true, ""},
		{"next page", "limit=3&after_id=c", "def", true, ""},
		{"last page", "limit=3&after_id=f", "g", false, ""},
		{"behind the last", "after_id=g", "", false, ""},
		{"before", "limit=3&before_id=e", "bcd", true, ""},
		{"before, start reached", "limit=3&before_id=d", "abc", false, ""},
		{"before the first", "before_id=a", "", false, ""},
		{"largest limit", "limit=1000", "abcdefg", false, ""},
		{"limit 0", "limit=0", "", false, "limit"},
		{"limit too large", "limit=1001", "", false, "limit"},
		{"limit no number", "limit=x", "", false, "limit"},
		{"both", "after_id=a&before_id=b", "", false, "exclude"},
		{"unknown after", "after_id=z", "", false, "after_id"},
		{"unknown before", "before_id=z", "", false, "before_id"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			query, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			var body []byte
			page, err := anthropic.ParsePage(query)
			if err == nil {
				body, err = anthropic.ModelList(models, page)
			}
			if tt.err != "" {
				e, ok := errors.AsType[*anthropic.Error](err)
				if !ok || e.Status != 400 || !strings.Contains(e.Message, tt.err) {
					t.Errorf("got %v, want an error about %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var list struct {
				Data    []struct{ ID string }
				HasMore bool    `json:"has_more"`
				FirstID *string `json:"first_id"`
				LastID  *string `json:"last_id"`
			}
			if err := json.Unmarshal(body, &list); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, m := range list.Data {
				got = append(got, m.ID)
			}
			ids := strings.Join(got, "")
			if ids != tt.ids || list.HasMore != tt.more {
				t.Errorf("got %s, want %s, more %v", body, tt.ids, tt.more)
			}
			if ids == "" != (list.FirstID == nil) || ids != "" && *list.FirstID+*list.LastID != ids[:1]+ids[len(ids)-1:] {
				t.Errorf("first and last of %s", body)
			}
		})
	}
}
