package transfer_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
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
	why := func(id string) storage.Audit {
		return storage.Audit{ID: id, At: time.Unix(1_700_000_000, 0), Action: "account.create"}
	}
	a := storage.Account{ID: "acct", Address: "a@b.c", Password: "$", State: storage.AccountApproved, CreatedAt: why("").At}
	l := storage.Link{ID: "link", Hash: storage.TokenHash{1}, Kind: storage.LinkReset, Account: "acct", CreatedAt: a.CreatedAt, ExpiresAt: a.CreatedAt}
	if err := errors.Join(s.CreateAccount(t.Context(), a, 0, why("d")), s.CreateLink(t.Context(), l, why("e"))); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := s.Export(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sealed is a text with the right checksum.
func sealed(t *testing.T, text string) string {
	t.Helper()
	i := strings.LastIndex(text, `{"end"`)
	if i < 0 {
		t.Fatal("no end")
	}
	return fmt.Sprintf("%s{\"end\":true,\"lines\":%d,\"sha256\":\"%x\"}\n", text[:i], strings.Count(text[:i], "\n")-1, sha256.Sum256([]byte(text[:i])))
}

func TestVerify(t *testing.T) {
	text := exported(t)
	if sealed(t, string(text)) != string(text) {
		t.Fatal("the end is another")
	}
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
		"a bad account":   sealed(t, strings.Replace(string(text), `"state":"approved"`, `"state":"lost"`, 1)),
		"no password":     sealed(t, strings.Replace(string(text), `"password":"$"`, `"password":""`, 1)),
		"a bad link":      sealed(t, strings.Replace(string(text), `"kind":"reset"`, `"kind":"key"`, 1)),
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
