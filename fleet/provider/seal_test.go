package provider_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/fleet/provider"
)

const canary = "sk-canary-0123456789"

func key(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }

func sealer(t testing.TB, keys ...string) *provider.Sealer {
	t.Helper()
	s, err := provider.NewSealer([]byte("# of the providers\n\n" + strings.Join(keys, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func secret(t testing.TB, text string) provider.Secret {
	t.Helper()
	s, err := provider.NewSecret(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeal(t *testing.T) {
	old := sealer(t, key(1))
	sealed, id, err := old.Seal(secret(t, canary), "prov_1", url)
	if err != nil || bytes.Contains(sealed, []byte("canary")) || id != old.KeyID() {
		t.Fatalf("sealed %q with %s: %v", sealed, id, err)
	}
	twice, _, _ := old.Seal(secret(t, canary), "prov_1", url)
	if bytes.Equal(sealed, twice) {
		t.Error("a nonce is used twice")
	}
	rotated := sealer(t, hex.EncodeToString(bytes.Repeat([]byte{2}, 32)), key(1))
	got, err := rotated.Open(sealed, id, "prov_1", url)
	if err != nil || got.Reveal() != canary {
		t.Errorf("after a rotation: %v", err)
	}
	if rotated.KeyID() == id {
		t.Error("the first key does not seal")
	}
	for name, open := range map[string]func() (provider.Secret, error){
		"another provider": func() (provider.Secret, error) { return old.Open(sealed, id, "prov_2", url) },
		"another address":  func() (provider.Secret, error) { return old.Open(sealed, id, "prov_1", "http://evil/v1") },
		"changed": func() (provider.Secret, error) {
			bad := bytes.Clone(sealed)
			bad[len(bad)-1] ^= 1
			return old.Open(bad, id, "prov_1", url)
		},
		"cut":           func() (provider.Secret, error) { return old.Open(sealed[:5], id, "prov_1", url) },
		"nothing":       func() (provider.Secret, error) { return old.Open(nil, id, "prov_1", url) },
		"another form":  func() (provider.Secret, error) { return old.Open(append([]byte{9}, sealed[1:]...), id, "prov_1", url) },
		"a key less":    func() (provider.Secret, error) { return sealer(t, key(3)).Open(sealed, id, "prov_1", url) },
		"another's key": func() (provider.Secret, error) { return rotated.Open(sealed, rotated.KeyID(), "prov_1", url) },
	} {
		if got, err := open(); !errors.Is(err, provider.ErrCredential) || !got.IsZero() || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeyFile(t *testing.T) {
	for name, file := range map[string]string{
		"empty": "", "words": "correct horse battery staple", "short": base64.StdEncoding.EncodeToString(make([]byte, 16)),
		"long": base64.StdEncoding.EncodeToString(make([]byte, 33)), "twice": key(1) + "\n" + key(1), "too many": manyKeys(65),
		"too long": strings.Repeat("#", 65<<10),
	} {
		_, err := provider.NewSealer([]byte(file))
		if !errors.Is(err, provider.ErrCredential) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && file != "" && strings.Contains(err.Error(), strings.SplitN(file, "\n", 2)[0]) {
			t.Errorf("%s: the error repeats a line: %v", name, err)
		}
	}
	for _, bad := range []string{"", "a b", "a\n", "ä", strings.Repeat("x", 8193)} {
		if _, err := provider.NewSecret(bad); !errors.Is(err, provider.ErrCredential) || len(bad) > 2 && strings.Contains(err.Error(), bad) {
			t.Errorf("%.10q: %v", bad, err)
		}
	}
}

func manyKeys(n byte) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(key(i) + "\n")
	}
	return b.String()
}

// However a secret is printed, it is not.
func TestSecretHides(t *testing.T) {
	s := secret(t, canary)
	type holder struct{ S provider.Secret }
	b, err := json.Marshal(holder{s})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "s", s, "h", holder{s})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "s", s, "h", holder{s}, "p", &s)
	all := fmt.Sprintf("%v %+v %#v %s %q %x %d %v %+v %#v %s", s, s, s, s, s, s, s, holder{s}, &holder{s}, holder{s}, string(b)) + log.String()
	if strings.Contains(all, "canary") || strings.Contains(all, hex.EncodeToString([]byte(canary))) || !strings.Contains(all, "[secret]") {
		t.Errorf("it shows: %s", all)
	}
}
