package record_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/storage/record"
)

// referenceKey is the key 00 01 … 0f of the SipHash paper's test vector.
func referenceKey(tb testing.TB) record.Key {
	tb.Helper()
	var b [record.KeyBytes]byte
	for i := range b {
		b[i] = byte(i)
	}
	k, err := record.ParseKey(b[:])
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

func TestFingerprintIsSipHash(t *testing.T) {
	k := referenceKey(t)
	text := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}
	const want = 0xa129ca6149be45e5 // appendix A of the paper
	if got := k.Fingerprint(string(text)); got != want {
		t.Errorf("Fingerprint: %#x, want %#x", got, uint64(want))
	}
	if got := k.FingerprintBytes(text); got != want {
		t.Errorf("FingerprintBytes: %#x, want %#x", got, uint64(want))
	}
	if k.Fingerprint("") != k.FingerprintBytes(nil) {
		t.Error("the empty text has two fingerprints")
	}
	if other := record.NewKey(); other.Fingerprint("text") == k.Fingerprint("text") {
		t.Error("two keys have the same fingerprint of a text")
	}
}

func TestKeyIDIsStable(t *testing.T) {
	k := referenceKey(t)
	if k != referenceKey(t) {
		t.Error("the same bytes make different keys")
	}
	if k.ID() == 0 || k.ID() == record.NewKey().ID() {
		t.Errorf("ID %v", k.ID())
	}
	if (record.Key{}).ID() != 0 {
		t.Error("the zero Key has an ID")
	}
	for _, n := range []int{0, 15, 17, 32} {
		if _, err := record.ParseKey(make([]byte, n)); !errors.Is(err, record.ErrInvalid) {
			t.Errorf("a key of %d bytes: %v, want ErrInvalid", n, err)
		}
	}
}

func TestKeyIsNotPrinted(t *testing.T) {
	k := referenceKey(t)
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
		fmt.Fprintf(&out, verb+"\n", k)
		fmt.Fprintf(&out, verb+"\n", &k)
		fmt.Fprintf(&out, verb+"\n", record.Deps{Key: k})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "key", k)
	slog.New(slog.NewTextHandler(&out, nil)).Info("m", "key", k)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "deps", record.Deps{Key: k})
	// The key's halves are 0x0706050403020100 and 0x0f0e0d0c0b0a0908.
	for _, secret := range []string{"070605040302", "706050403020100", "506097522914230528", "00010203", "f0e0d0c0b0a0908", "1084818905618843912"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the key is printed (%s):\n%s", secret, out.String())
		}
	}
	if !strings.Contains(out.String(), k.ID().String()) {
		t.Errorf("the ID is not printed:\n%s", out.String())
	}
}

func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "record.key")
	made, err := record.KeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	again, err := record.KeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if made != again || made.ID() == 0 {
		t.Errorf("made %v, read %v", made, again)
	}
	for _, content := range []string{"", "\n", "abc", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("z", 32)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := record.KeyFile(path)
		if !errors.Is(err, record.ErrInvalid) || !strings.Contains(err.Error(), path) {
			t.Errorf("content %q: %v, want ErrInvalid with the path", content, err)
		}
		if content != "" && len(content) > 3 && strings.Contains(err.Error(), content) {
			t.Errorf("the error shows the content: %v", err)
		}
	}
	if _, err := record.KeyFile(filepath.Join(path, "no")); err == nil {
		t.Error("a key was made below a file")
	}
}
