package auth_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// canary is a key that stands in for all in tests of where keys may show.
func canary(t testing.TB) auth.Secret {
	t.Helper()
	s, err := auth.Mint(bytes.NewReader(bytes.Repeat([]byte("canary-in-a-coal-mine"), 64)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// spilled reports whether a text holds the canary, or enough of it to be of use.
func spilled(t testing.TB, text string) bool {
	t.Helper()
	key := canary(t).Reveal()
	return strings.Contains(text, key) || strings.Contains(text, key[10:40]) || strings.Contains(text, fmt.Sprintf("%x", key[10:40]))
}

func TestMint(t *testing.T) {
	form := regexp.MustCompile(`^llmgw_[0-9A-Za-z]{49}$`) // what scanners of leaked secrets are given
	seen := map[string]bool{}
	for range 200 {
		s, err := auth.Mint(nil)
		if err != nil {
			t.Fatal(err)
		}
		text := s.Reveal()
		if !form.MatchString(text) || seen[text] {
			t.Fatalf("minted a key that is malformed or not new")
		}
		seen[text] = true
		h, err := auth.ParseKey(text)
		if err != nil || h != s.Hash() || h != sha256.Sum256([]byte(text)) {
			t.Fatalf("ParseKey of a minted key: %v; the hash is not the SHA-256 of the text", err)
		}
		if sum := crc32.ChecksumIEEE([]byte(text[:49])); base62(text[49:]) != uint64(sum) {
			t.Fatal("the last six characters are not the CRC-32 of the rest")
		}
		if hint := s.Hint(); len(hint) > 32 || !strings.HasPrefix(text, hint[:10]) || !strings.HasSuffix(text, hint[len(hint)-4:]) || len(hint) != 17 {
			t.Errorf("hint %q", hint)
		}
	}
}

// base62 reads a number as keys have it.
func base62(text string) (n uint64) {
	for _, c := range text {
		n = n*62 + uint64(strings.IndexRune("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", c))
	}
	return n
}

// Keys are made of all of the reader's values alike, and a reader that ends or
// gives nothing of use is an error, not a weak key.
func TestMintReaders(t *testing.T) {
	if a, b := canary(t).Reveal(), canary(t).Reveal(); a != b {
		t.Error("the same randomness made two keys")
	}
	for name, r := range map[string]io.Reader{
		"ends":     bytes.NewReader(make([]byte, 40)),
		"no use":   endless(255),
		"is empty": strings.NewReader(""),
	} {
		if s, err := auth.Mint(r); err == nil || s.Reveal() != "" {
			t.Errorf("a reader that %s made a key, error %v", name, err)
		}
	}
	counts := map[byte]int{}
	src := rand.NewChaCha8([32]byte{7})
	const keys = 4000
	for range keys {
		s, err := auth.Mint(src)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []byte(s.Reveal()[6:49]) {
			counts[c]++
		}
	}
	want := keys * 43 / 62
	for c, n := range counts {
		if n < want*9/10 || n > want*11/10 {
			t.Errorf("%c stands %d times in %d keys, want about %d", c, n, keys, want)
		}
	}
	if len(counts) != 62 {
		t.Errorf("%d characters are in use, want 62", len(counts))
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// However a secret, or what holds one, is printed or encoded, it does not show.
func TestSecretShowsNowhere(t *testing.T) {
	type hidden struct{ secret auth.Secret }
	type deep struct {
		Public auth.Secret
		hidden *hidden
		any    any
	}
	s := canary(t)
	things := []any{s, &s, hidden{s}, &hidden{s}, []auth.Secret{s}, map[string]auth.Secret{"k": s}, deep{s, &hidden{s}, s}, struct{ E error }{fmt.Errorf("x %v", s)}}
	var out bytes.Buffer
	for _, thing := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p", "%T"} {
			fmt.Fprintf(&out, verb+"\n", thing)
		}
		fmt.Fprintln(&out, thing)
		for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
			slog.New(h).Info("made", "key", thing)
		}
		if b, err := json.Marshal(thing); err == nil {
			out.Write(b)
		}
		if b, err := yaml.Marshal(thing); err == nil {
			out.Write(b)
		}
	}
	b, err := json.Marshal(map[string]any{"a": s, "b": &s, "c": []any{s}})
	if err != nil || string(b) != `{"a":"[redacted]","b":"[redacted]","c":["[redacted]"]}` {
		t.Errorf("JSON: %s, %v", b, err)
	}
	if spilled(t, out.String()) {
		t.Error("the key shows in what was printed")
	}
	if !spilled(t, s.Reveal()) || s.String() != "[redacted]" {
		t.Error("the test would not see a key")
	}
	var zero auth.Secret
	if zero.Reveal() != "" || zero.Hint() != "" || zero.String() != "[redacted]" {
		t.Errorf("the zero secret is %q", zero.Reveal())
	}
}

func TestParseKeyRefuses(t *testing.T) {
	key := canary(t).Reveal()
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "", "does not begin with llmgw_"},
		{"another service's", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklm", "does not begin with llmgw_"},
		{"another case", strings.ToUpper(key), "does not begin with llmgw_"},
		{"cut short", key[:54], "it has 54 characters; want 55"},
		{"too long", key + "0", "it has 56 characters; want 55"},
		{"prefix alone", "llmgw_", "it has 6 characters"},
		{"space behind", key + " ", "it has 56 characters"},
		{"typo", key[:20] + "x" + key[21:], "checksum"},
		{"no base 62", key[:20] + "é" + key[22:], "checksum"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, err := auth.ParseKey(test.text)
			if !errors.Is(err, auth.ErrMalformed) || h != (storage.KeyHash{}) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("ParseKey: %v; want %s", err, test.want)
			}
			if len(test.text) > 10 && strings.Contains(err.Error(), test.text[6:]) {
				t.Error("the error repeats the key")
			}
		})
	}
}

// Whatever single character is mistyped, and whichever neighbours are swapped,
// the checksum notices.
func TestChecksumNoticesTypos(t *testing.T) {
	key := canary(t).Reveal()
	for i := range len(key) {
		for c := byte('!'); c <= '~'; c++ {
			if c == key[i] {
				continue
			}
			if _, err := auth.ParseKey(key[:i] + string(c) + key[i+1:]); err == nil {
				t.Errorf("character %d may be %q too", i, c)
			}
		}
		if i > 0 && key[i] != key[i-1] {
			if _, err := auth.ParseKey(key[:i-1] + string(key[i]) + string(key[i-1]) + key[i+1:]); err == nil {
				t.Errorf("characters %d and %d may be swapped", i-1, i)
			}
		}
	}
}

func FuzzParseKey(f *testing.F) {
	key := canary(f).Reveal()
	for _, s := range []string{"", key, key[:54], key + "x", "llmgw_", "llmgw_" + strings.Repeat("0", 49), key + key} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := auth.ParseKey(s)
		if err == nil {
			if h != sha256.Sum256([]byte(s)) || !strings.HasPrefix(s, "llmgw_") || len(s) != 55 {
				t.Errorf("took %q", s)
			}
			return
		}
		if !errors.Is(err, auth.ErrMalformed) || h != (storage.KeyHash{}) {
			t.Errorf("%q: %v", s, err)
		}
		if len(s) > 20 && strings.Contains(err.Error(), s) {
			t.Errorf("the error repeats %q", s)
		}
	})
}
