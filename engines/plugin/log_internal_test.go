package plugin

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func recorder() (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{
		Level: slog.LevelDebug,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey && len(groups) == 0 {
				return slog.Attr{}
			}
			return a
		},
	})), &out
}

func TestRelayLog(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"slog", `{"time":"2026-01-02T03:04:05Z","level":"ERROR","msg":"no card","index":3}`, `level=ERROR msg="the adapter says" says="no card" index=3`},
		{"hclog", `{"@level":"warn","@message":"odd","@timestamp":"x","@module":"m"}`, `level=WARN msg="the adapter says" says=odd`},
		{"types that nobody expects", `{"@level":7,"@message":[],"@timestamp":{}}`, `level=INFO msg="the adapter says" says="" @level=7 @message=[]`},
		{"text", "panic: oh no", `level=WARN msg="the adapter says" line="panic: oh no"`},
		{"nothing", "", ""},
		{"a line without an end", strings.Repeat("x", 20<<10), `level=WARN msg="the adapter says" line=` + strings.Repeat("x", 8<<10)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log, out := recorder()
			relayLog(strings.NewReader(tt.line+"\n"), log)
			want := tt.want
			if want != "" {
				want += "\n"
			}
			if out.String() != want {
				t.Errorf("log %q, want %q", out.String(), want)
			}
		})
	}
}

func TestRelayLogIsBounded(t *testing.T) {
	log, out := recorder()
	relayLog(strings.NewReader(strings.Repeat("noise\n", 1000)), log)
	// The thousand lines may have fallen into two seconds.
	if n := strings.Count(out.String(), "noise"); n < 100 || n > 200 {
		t.Errorf("%d lines in the log, want one second's or two", n)
	}
	if !strings.Contains(out.String(), "dropped_lines=") {
		t.Error("no word of what was dropped")
	}
}

func FuzzRelayLine(f *testing.F) {
	f.Add([]byte(`{"level":"INFO","msg":"x","a":{"b":[1,null]}}`))
	f.Add([]byte(`{"@message":5}`))
	f.Add([]byte("\x00text"))
	f.Fuzz(func(t *testing.T, line []byte) {
		log, out := recorder()
		relayLine(line, log)
		if len(line) > 0 && out.Len() == 0 {
			t.Error("a line was lost")
		}
	})
}

func TestSocketDir(t *testing.T) {
	if got := socketDir("/run/llmgw"); got != "/run/llmgw" {
		t.Errorf("configured: %s", got)
	}
	t.Setenv("TMPDIR", "/short")
	if got := socketDir(""); got != "/short" {
		t.Errorf("short: %s", got)
	}
	t.Setenv("TMPDIR", "/"+strings.Repeat("long/", 20))
	if got := socketDir(""); got != "/tmp" {
		t.Errorf("long: %s", got)
	}
}
