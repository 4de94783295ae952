package router

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRequestIDs(t *testing.T) {
	seen := map[string]bool{}
	now := time.Unix(1_700_000_000, 0)
	for range 1000 {
		id, own := requestID(nil, now)
		if seen[id] || !own || !plainID(id) || !strings.HasPrefix(id, "req_") {
			t.Errorf("got %q", id)
		}
		seen[id] = true
		if later, _ := requestID(nil, now.Add(time.Millisecond)); later <= id {
			t.Errorf("%q of a millisecond later sorts before %q", later, id)
		}
	}
	if got, own := requestID(http.Header{"X-Request-Id": {"a b"}, "Request-Id": {"mine"}}, now); got != "mine" || own {
		t.Errorf("got %q, own %t", got, own)
	}
}

func TestPlainQuery(t *testing.T) {
	for query, want := range map[string]string{
		"":                "",
		"a=b&c=%20+":      "a=b&c=%20+",
		"a b":             "a%20b",
		"a\r\nHost: x":    "a%0D%0AHost:%20x",
		"\u00e9":          "%C3%A9",
		"\xff\x7f\x00\t#": "%FF%7F%00%09#",
	} {
		if got := plainQuery(query); got != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
}

func TestMediaTypes(t *testing.T) {
	for contentType, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream; charset=utf-8": true, "text/event-stream ;x": true,
		"text/event-streams": false, "application/json": false, "": false, "text/event": false,
	} {
		if got := isEventStream(contentType); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
	}
	for contentType, want := range map[string]bool{"multipart/form-data; boundary=x": true, "Multipart/mixed": true, "multipart": false, "": false} {
		if got := isMultipart(contentType); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
	}
}

func TestResultNames(t *testing.T) {
	seen := map[string]bool{}
	for r := ResultUnset; r <= ResultFault; r++ {
		if name := r.String(); seen[name] || name == "unknown" {
			t.Errorf("%d is %q", r, name)
		}
		seen[r.String()] = true
	}
	if Result(200).String() != "unknown" {
		t.Error("a result that is none has a name")
	}
}
