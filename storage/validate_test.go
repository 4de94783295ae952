package storage_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
)

func goodKey() storage.Key {
	return storage.Key{ID: "k1", Hash: storage.KeyHash{1}, CreatedAt: time.Unix(1_700_000_000, 0)}
}

func TestKeyRefused(t *testing.T) {
	zero := int64(0)
	tests := []struct {
		name string
		edit func(*storage.Key)
		want string // in the error; "" for none
	}{
		{"good", func(*storage.Key) {}, ""},
		{"no ID", func(k *storage.Key) { k.ID = "" }, "ID: 0 bytes"},
		{"a long ID", func(k *storage.Key) { k.ID = strings.Repeat("x", 65) }, "ID: 65 bytes"},
		{"no hash", func(k *storage.Key) { k.Hash = storage.KeyHash{} }, "Hash"},
		{"NUL", func(k *storage.Key) { k.Name = "a\x00b" }, "without NUL"},
		{"not UTF-8", func(k *storage.Key) { k.Owner = "\xff" }, "UTF-8"},
		{"no model", func(k *storage.Key) { k.Models = []string{} }, "Models: 0"},
		{"a model without a name", func(k *storage.Key) { k.Models = []string{""} }, "Models: 0 bytes"},
		{"a limit of nothing", func(k *storage.Key) { k.Limits.Concurrency = &zero }, "Limits.Concurrency: 0"},
		{"a budget of nothing", func(k *storage.Key) { k.Budget = &storage.Budget{Period: storage.PeriodDay} }, "Budget.Nanos: 0"},
		{"a budget of no period", func(k *storage.Key) { k.Budget = &storage.Budget{Nanos: 1} }, "Budget.Period"},
		{"a tag without a name", func(k *storage.Key) { k.Tags = map[string]string{"": "x"} }, "Tags: 0 bytes"},
		{"never made", func(k *storage.Key) { k.CreatedAt = time.Time{} }, "CreatedAt"},
		{"expires before time", func(k *storage.Key) { k.ExpiresAt = time.Unix(-1, 0) }, "ExpiresAt"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := goodKey()
			tt.edit(&k)
			wantFault(t, k.Validate(), tt.want)
		})
	}
}

func TestUsageRefused(t *testing.T) {
	negative, huge := int64(-1), int64(storage.MaxCostNanos+1)
	soon := -time.Second
	tests := []struct {
		name string
		edit func(*storage.Usage)
		want string
	}{
		{"good", func(*storage.Usage) {}, ""},
		{"no ID", func(u *storage.Usage) { u.RequestID = "" }, "RequestID"},
		{"no time", func(u *storage.Usage) { u.At = time.Time{} }, "At"},
		{"no source", func(u *storage.Usage) { u.Source = 0 }, "Source"},
		{"before it came", func(u *storage.Usage) { u.TTFT = &soon }, "TTFT"},
		{"fewer than none", func(u *storage.Usage) { u.Tokens.Output = &negative }, "Tokens.Output: -1"},
		{"too dear", func(u *storage.Usage) { u.CostNanos = &huge }, "CostNanos"},
		{"a total with a start", func(u *storage.Usage) {
			u.Charged = &storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal, Start: u.At}
		}, "Charged.Start"},
		{"a day without a start", func(u *storage.Usage) { u.Charged = &storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodDay} }, "Charged.Start"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := storage.Usage{RequestID: "r", At: time.Unix(1_700_000_000, 0), Source: storage.SourceNone}
			tt.edit(&u)
			wantFault(t, u.Validate(), tt.want)
		})
	}
}

func TestAuditRefused(t *testing.T) {
	good := storage.Audit{ID: "a", Action: "key.create", At: time.Unix(1_700_000_000, 0), After: json.RawMessage(`{"name":"x"}`)}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, state := range map[string]string{"empty": "", "not JSON": "{", "not UTF-8": "\"\xff\"", "huge": `"` + strings.Repeat("x", 65<<10) + `"`} {
		a := good
		a.Before = json.RawMessage(state)
		if err := a.Validate(); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestGrantRequestRefused(t *testing.T) {
	r := storage.GrantRequest{
		ID: "g", Budget: storage.BudgetPeriod{KeyID: "k", Period: storage.PeriodTotal}, Router: "r",
		LimitNanos: 10, WantNanos: 1, LeastNanos: 2, At: time.Unix(1_700_000_000, 0),
	}
	wantFault(t, r.Validate(), "WantNanos: 1")
	r.WantNanos = 2
	wantFault(t, r.Validate(), "")
}

func wantFault(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && (!errors.Is(err, storage.ErrInvalid) || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v; want ErrInvalid with %q", err, want)
	}
}

// Whatever comes from outside, its row can be kept and shown; what could be is not
// touched.
func TestTidy(t *testing.T) {
	hidden := func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }
	rapid.Check(t, func(t *rapid.T) {
		bytes := rapid.SliceOfN(rapid.Byte(), 0, 300)
		text := rapid.OneOf(rapid.StringN(0, 200, 600), rapid.Map(bytes, func(b []byte) string { return string(b) })).Draw(t, "text")
		u := storage.Usage{RequestID: "r", Asked: text, Model: "qwen3", Source: storage.SourceNone, At: time.Unix(1, 0)}
		a := storage.Audit{ID: "a", Action: "x", Actor: text, Target: text, RequestID: text, At: time.Unix(1, 0)}
		u.Tidy()
		a.Tidy()
		if err := errors.Join(u.Validate(), a.Validate()); err != nil {
			t.Fatal(err)
		}
		for tidied, most := range map[*string]int{&u.Asked: 256, &a.Actor: 256, &a.Target: 256, &a.RequestID: 128} {
			kept := len(text) <= most && utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
			if strings.ContainsFunc(*tidied, hidden) || kept && *tidied != text {
				t.Fatalf("%q became %q", text, *tidied)
			}
		}
		if u.Model != "qwen3" {
			t.Fatalf("the model became %q", u.Model)
		}
	})
}
