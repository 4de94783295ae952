package apierror_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/router/internal/apierror"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name, contentType, body string
		want                    apierror.Foreign
	}{
		{"nested", "", `{"error":{"message":"m","type":"t","param":"p","code":"c"}}`,
			apierror.Foreign{Shape: apierror.ShapeNested, Message: "m", Type: "t", Param: "p", Code: "c", Strict: true}},
		{"nested with a number", "", `{"error":{"message":"m","type":"t","code":400}}`,
			apierror.Foreign{Shape: apierror.ShapeNested, Message: "m", Type: "t", Code: "400"}},
		{"Anthropic", "", `{"type":"error","error":{"message":"m","type":"t"}}`,
			apierror.Foreign{Shape: apierror.ShapeNested, Message: "m", Type: "t", Strict: true, Root: "error"}},
		{"string", "", `{"error":"m","error_type":"t"}`, apierror.Foreign{Shape: apierror.ShapeString, Message: "m", Type: "t"}},
		{"flat", "", `{"object":"error","message":"m","type":"t","code":"429"}`,
			apierror.Foreign{Shape: apierror.ShapeFlat, Message: "m", Type: "t", Code: "429"}},
		{"detail", "", `{"detail":"m"}`, apierror.Foreign{Shape: apierror.ShapeDetail, Message: "m"}},
		{"text", "text/plain", "m", apierror.Foreign{Shape: apierror.ShapeText, Message: "m"}},
		{"HTML", "text/html; charset=utf-8", "x<title> m </title>", apierror.Foreign{Shape: apierror.ShapeText, Message: "m"}},
		{"list", "", `["m"]`, apierror.Foreign{Shape: apierror.ShapeText}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, apierror.Read(tt.contentType, []byte(tt.body))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCut(t *testing.T) {
	for _, s := range []string{"", "a", strings.Repeat("ü", 10), "a" + strings.Repeat("😀", 10)} {
		for n := 3; n < 30; n++ {
			got := apierror.Cut(s, n)
			if len(got) > n || !utf8.ValidString(got) || len(s) <= n && got != s {
				t.Errorf("Cut(%q, %d) is %q", s, n, got)
			}
		}
	}
}

func TestSetHeaders(t *testing.T) {
	h := http.Header{}
	apierror.SetHeaders(h, "id", apierror.Hints{RetryAfter: time.Nanosecond})
	if h.Get("Retry-After") != "1" || h.Get("Retry-After-Ms") != "1" {
		t.Errorf("a moment became %v", h)
	}
}
