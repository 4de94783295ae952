package transfer_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
	"github.com/llmgw/llmgw/storage/transfer"
)

// exported is what a store with some keys writes.
func exported(t *testing.T) []byte {
	t.Helper()
	cfg := sqlite.DefaultConfig()
	cfg.Path = filepath.Join(t.TempDir(), "s.db")
	s, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 3 {
		id := string(rune('a' + i))
		k := storage.Key{ID: id, Hash: storage.KeyHash{byte(i + 1)}, CreatedAt: time.Unix(1_700_000_000, 0)}
		if err := s.CreateKey(t.Context(), k, storage.Audit{ID: id, At: k.CreatedAt, Action: "key.create"}); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestVerify(t *testing.T) {
	text := exported(t)
	verify := func(b []byte) error { return transfer.Verify(t.Context(), bytes.NewReader(b)) }
	if err := verify(text); err != nil {
		t.Fatal(err)
	}
	for n := range len(text) - 1 { // the last newline says nothing
		if err := verify(text[:n]); !errors.Is(err, storage.ErrInvalid) {
			t.Fatalf("cut to %d of %d bytes: %v; want ErrInvalid", n, len(text), err)
		}
	}
	for name, bad := range map[string]string{
		"nothing":         "",
		"something else":  "id,name\n1,a\n",
		"a changed byte":  strings.Replace(string(text), `"id":"b"`, `"id":"d"`, 1),
		"a line left out": strings.Join(append(strings.SplitAfter(string(text), "\n")[:2], strings.SplitAfter(string(text), "\n")[3:]...), ""),
		"more":            string(text) + "{}\n",
	} {
		if err := verify([]byte(bad)); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%s: %v; want ErrInvalid", name, err)
		}
	}
	newer := regexp.MustCompile(`"version":\d+`).ReplaceAllString(string(text), `"version":1000`)
	if err := verify([]byte(newer)); !errors.Is(err, storage.ErrSchema) {
		t.Errorf("of a newer program: %v; want ErrSchema", err)
	}
}
