package usage_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/usage"
	"github.com/llmgw/llmgw/storage"
)

// pages is a store that lists its rows two at a time.
type pages struct {
	store
	all  []storage.Usage
	fail bool
}

func (p *pages) ListUsage(_ context.Context, q storage.UsageQuery) ([]storage.Usage, string, error) {
	at := len(q.After)
	if p.fail && at > 0 {
		return nil, "", storage.ErrUnavailable
	}
	end := min(at+2, len(p.all))
	next := ""
	if end < len(p.all) {
		next = strings.Repeat("x", end)
	}
	return p.all[at:end], next, nil
}

func sample() *pages {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ttft, in, zero, cost := 120*time.Millisecond, int64(10), int64(0), int64(1500)
	return &pages{all: []storage.Usage{
		{
			RequestID: "r1", KeyID: "k1", Owner: "=cmd()", Asked: "a", Model: "b", Endpoint: "e", Path: "/v1/chat/completions", Router: "x",
			Stream: true, At: at, Latency: 1500 * time.Microsecond, TTFT: &ttft, Status: 200, Result: "ok", Retries: 1,
			Tokens: storage.Tokens{Input: &in, CachedInput: &zero, Output: &in}, Source: storage.SourceEngine, CostNanos: &cost,
		},
		{RequestID: "r2", At: at, Owner: "says \"no\", twice", Result: "refused", Status: 429, Code: "rate_limit_exceeded", Source: storage.SourceNone},
		{RequestID: "r3", At: at, Result: "ok", Status: 200, Source: storage.SourceEstimated},
	}}
}

func TestCSV(t *testing.T) {
	p := sample()
	var b strings.Builder
	if err := usage.WriteCSV(&b, usage.Rows(t.Context(), p, storage.UsageQuery{})); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(strings.NewReader(b.String())).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 4 {
		t.Fatalf("%d lines", len(lines))
	}
	// The columns are the fields of the JSON.
	fields := reflect.TypeFor[usage.Row]()
	for i := range fields.NumField() {
		if want := fields.Field(i).Tag.Get("json"); lines[0][i] != want {
			t.Errorf("column %d is %q, want %q", i, lines[0][i], want)
		}
	}
	at := func(line int, column string) string {
		for i, name := range lines[0] {
			if name == column {
				return lines[line][i]
			}
		}
		t.Fatalf("no column %q", column)
		return ""
	}
	for _, tt := range []struct {
		line         int
		column, want string
	}{
		{1, "owner", "'=cmd()"},
		{1, "ttft_ms", "120"},
		{1, "latency_ms", "1.5"},
		{1, "cached_input_tokens", "0"},
		{1, "cost_nanos", "1500"},
		{2, "owner", `says "no", twice`},
		{2, "input_tokens", ""},
		{2, "ttft_ms", ""},
		{2, "cost_nanos", ""},
		{3, "tokens_source", "estimated"},
	} {
		if got := at(tt.line, tt.column); got != tt.want {
			t.Errorf("line %d, %s: %q, want %q", tt.line, tt.column, got, tt.want)
		}
	}
}

func TestJSONLines(t *testing.T) {
	p := sample()
	var b strings.Builder
	if err := usage.WriteJSON(&b, usage.Rows(t.Context(), p, storage.UsageQuery{})); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != len(p.all) {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines {
		var r usage.Row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if want := usage.NewRow(&p.all[i]); !reflect.DeepEqual(r, want) {
			t.Errorf("got %+v, want %+v", r, want)
		}
	}
	if !strings.Contains(lines[1], `"input_tokens":null`) {
		t.Errorf("what is not known is shown as a number: %s", lines[1])
	}
}

// A store that fails half way is no end of the list.
func TestExportFails(t *testing.T) {
	p := sample()
	p.fail = true
	var b strings.Builder
	if err := usage.WriteCSV(&b, usage.Rows(t.Context(), p, storage.UsageQuery{})); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
	if err := usage.WriteJSON(&b, usage.Rows(t.Context(), p, storage.UsageQuery{})); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
}
