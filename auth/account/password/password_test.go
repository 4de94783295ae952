package password

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

var cheap = Params{MemoryKiB: 64, Passes: 1, Lanes: 1}

func newHasher(t testing.TB, cfg Config) *Hasher {
	t.Helper()
	if cfg.Params == (Params{}) {
		cfg.Params = cheap
	}
	h, err := New(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func enter(t testing.TB, h *Hasher) *Slot {
	t.Helper()
	s, err := h.Enter()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Leave)
	return s
}

func TestHashAndVerify(t *testing.T) {
	h := newHasher(t, Config{})
	s := enter(t, h)
	const typed = "correct horse battery staple"
	kept, err := s.Hash(t.Context(), typed)
	if err != nil || !strings.HasPrefix(kept, "$argon2id$v=19$m=64,t=1,p=1$") {
		t.Fatalf("%s, %v", kept, err)
	}
	other, err := s.Hash(t.Context(), typed)
	if err != nil || other == kept {
		t.Errorf("two hashes of one password are alike, %v", err)
	}
	for _, test := range []struct {
		typed string
		want  bool
	}{{typed, true}, {typed + " ", false}, {"", false}, {strings.ToUpper(typed), false}} {
		if right, stale, err := s.Verify(t.Context(), kept, test.typed); right != test.want || stale || err != nil {
			t.Errorf("%q: %v, %v, %v", test.typed, right, stale, err)
		}
	}
	if err := s.VerifyNobody(t.Context(), typed); err != nil {
		t.Error(err)
	}
	parsed, err := parse(h.nobody.String())
	if err != nil || parsed.Params != cheap {
		t.Errorf("nobody's hash is %v, %v", parsed, err)
	}
}

// Nothing of a long password is cut off.
func TestEveryByteCounts(t *testing.T) {
	s := enter(t, newHasher(t, Config{}))
	long := strings.Repeat("x", MostBytes)
	kept, err := s.Hash(t.Context(), long)
	if err != nil {
		t.Fatal(err)
	}
	if right, _, err := s.Verify(t.Context(), kept, long[:MostBytes-1]+"y"); right || err != nil {
		t.Errorf("the last byte does not count, %v", err)
	}
}

// The text is what other implementations of Argon2 write and read.
func TestKnownHash(t *testing.T) {
	// From the reference implementation's tests (src/test.c): argon2id, version 19,
	// t=2, m=2^16 KiB, p=1, "password", "somesalt".
	const known = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	s := enter(t, newHasher(t, Config{}))
	if right, stale, err := s.Verify(t.Context(), known, "password"); !right || stale || err != nil {
		t.Errorf("%v, %v, %v", right, stale, err)
	}
}

func TestStale(t *testing.T) {
	for _, test := range []struct {
		was, is Params
		want    bool
	}{
		{cheap, cheap, false},
		{cheap, Params{MemoryKiB: 128, Passes: 1, Lanes: 1}, true},
		{cheap, Params{MemoryKiB: 64, Passes: 2, Lanes: 1}, true},
		{Params{MemoryKiB: 128, Passes: 1, Lanes: 1}, cheap, false},
		{Params{MemoryKiB: 128, Passes: 1, Lanes: 1}, Params{MemoryKiB: 64, Passes: 3, Lanes: 1}, true},
	} {
		kept, err := enter(t, newHasher(t, Config{Params: test.was})).Hash(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		s := enter(t, newHasher(t, Config{Params: test.is}))
		if right, stale, err := s.Verify(t.Context(), kept, "p"); !right || stale != test.want || err != nil {
			t.Errorf("%v to %v: %v, %v, %v", test.was, test.is, right, stale, err)
		}
		if _, stale, _ := s.Verify(t.Context(), kept, "q"); stale {
			t.Error("a wrong password would be hashed anew")
		}
	}
}

// What would take gigabytes, or is spelled in another way, is not computed.
func TestHashRefused(t *testing.T) {
	s := enter(t, newHasher(t, Config{}))
	const salt, sum = "c29tZXNhbHQ", "CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	for _, kept := range []string{
		"", "$", "$$$$$", "secret", "$2a$10$abcdefghijklmnopqrstuv",
		"$argon2i$v=19$m=64,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=16$m=64,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=4194304,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=4294967296,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=262144,t=16,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=64,t=4000000000,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=64,t=1,p=200$" + salt + "$" + sum,
		"$argon2id$v=19$m=64,t=0,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=64,t=1,p=0$" + salt + "$" + sum,
		"$argon2id$v=19$m=7,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=064,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=+64,t=1,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$t=1,m=64,p=1$" + salt + "$" + sum,
		"$argon2id$v=19$m=64,t=1,p=1,keyid=a$" + salt + "$" + sum,
		"$argon2id$v=19$m=64,t=1,p=1$" + salt + "$",
		"$argon2id$v=19$m=64,t=1,p=1$$" + sum,
		"$argon2id$v=19$m=64,t=1,p=1$" + salt + "$AAAA",
		"$argon2id$v=19$m=64,t=1,p=1$" + salt + "=$" + sum,
		"$argon2id$v=19$m=64,t=1,p=1$" + salt + "\n$" + sum,
		"$argon2id$v=19$m=64,t=1,p=1$" + strings.Repeat("A", 300) + "$" + sum,
	} {
		right, stale, err := s.Verify(t.Context(), kept, "p")
		if right || stale || !errors.Is(err, ErrHash) {
			t.Errorf("%s: %v, %v, %v", kept, right, stale, err)
		}
		if err != nil && len(kept) > 8 && strings.Contains(err.Error(), kept) {
			t.Errorf("the error repeats it: %v", err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"lanes":   {Params: Params{MemoryKiB: 64, Passes: 1}},
		"passes":  {Params: Params{MemoryKiB: 64, Lanes: 1}},
		"memory":  {Params: Params{Passes: 1, Lanes: 1}},
		"at once": {Params: cheap, AtOnce: -1},
		"waiting": {Params: cheap, Waiting: -1},
	} {
		if _, err := New(cfg, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(Config{Params: cheap}, strings.NewReader("short")); err == nil {
		t.Error("a hash of no randomness")
	}
	if err := DefaultParams().Validate(); err != nil {
		t.Error(err)
	}
	if h := newHasher(t, Config{}); cap(h.running) < 1 {
		t.Error("none at once")
	}
}

// No more are computed at once than may, no more wait than may, and who leaves makes
// room.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(t, Config{AtOnce: 2, Waiting: 3})
		for range 2 { // two are being computed
			h.running <- struct{}{}
			enter(t, h)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		errs := make(chan error, 3)
		for range 3 {
			s, err := h.Enter()
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				defer s.Leave()
				_, err := s.Hash(ctx, "p")
				errs <- err
			})
		}
		synctest.Wait()
		if h.Running() != 2 || h.Waiting() != 3 {
			t.Errorf("%d run and %d wait", h.Running(), h.Waiting())
		}
		if _, err := h.Enter(); !errors.Is(err, ErrBusy) {
			t.Errorf("a fourth that waits: %v", err)
		}
		cancel()
		wg.Wait()
		close(errs)
		for err := range errs {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		}
		if h.Waiting() != 0 {
			t.Errorf("%d wait after all have left", h.Waiting())
		}
		s, err := h.Enter()
		if err != nil {
			t.Fatal(err)
		}
		s.Leave()
		s.Leave()
		if h.there.Load() != 2 {
			t.Errorf("%d are there", h.there.Load())
		}
		// Who has left before his turn has nothing computed for him, even with room.
		<-h.running
		if _, err := enter(t, h).Hash(ctx, "p"); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// However many come at once, no more are ever computed than may be.
func TestParallel(t *testing.T) {
	h := newHasher(t, Config{AtOnce: 2, Waiting: 1000})
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			s, err := h.Enter()
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Leave()
			kept, err := s.Hash(t.Context(), fmt.Sprint(i))
			if right, _, err2 := s.Verify(t.Context(), kept, fmt.Sprint(i)); !right || err != nil || err2 != nil {
				t.Error(right, err, err2)
			}
			if n := h.Running(); n > 2 {
				t.Errorf("%d at once", n)
			}
		})
	}
	wg.Wait()
	if h.Running() != 0 || h.Waiting() != 0 {
		t.Errorf("%d run and %d wait at the end", h.Running(), h.Waiting())
	}
}

func TestNormal(t *testing.T) {
	for _, test := range []struct{ name, typed, want, fault string }{
		{"a long phrase of small letters", "correct horse battery", "correct horse battery", ""},
		{"fifteen", "aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaa", ""},
		{"fourteen", "aaaaaaaaaaaaaa", "", "has 14 characters; want at least 15"},
		{"short and complex", "Xy7$!kQ2&", "", "has 9 characters"},
		{"none", "", "", "has 0 characters"},
		{"spaces stay", "   a   b   c   ", "   a   b   c   ", ""},
		{"characters, not bytes", strings.Repeat("é", 15), strings.Repeat("é", 15), ""},
		{"bytes that look like more", strings.Repeat("é", 14), "", "has 14 characters"},
		{"decomposed", strings.Repeat("e\u0301", 15), strings.Repeat("é", 15), ""},
		{"decomposed and short", strings.Repeat("e\u0301", 14), "", "has 14 characters"},
		{"what looks different stays different", "ﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁ", "ﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁﬁ", ""},
		{"emoji", strings.Repeat("🦜", 15), strings.Repeat("🦜", 15), ""},
		{"the longest", strings.Repeat("x", 1024), strings.Repeat("x", 1024), ""},
		{"too long", strings.Repeat("x", 1025), "", "has 1025 bytes; want at most 1024"},
		{"not UTF-8", strings.Repeat("\xff", 20), "", "is not UTF-8"},
	} {
		got, err := Normal(test.typed)
		if got != test.want || (err != nil) != (test.fault != "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%s: %q, %v", test.name, got, err)
		}
	}
}

// What is read is written again just so, and costs what it may.
func FuzzParse(f *testing.F) {
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc")
	f.Add("$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc")
	f.Add("$argon2id$v=19$m=4294967295,t=1,p=255$c29tZXNhbHQ$AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := parse(text)
		if err != nil {
			if !errors.Is(err, ErrHash) {
				t.Errorf("%v", err)
			}
			return
		}
		if h.String() != text || h.Validate() != nil || uint64(h.MemoryKiB)*uint64(h.Passes) > mostCost || len(text) > mostTextBytes {
			t.Errorf("%q became %q, which costs %+v", text, h, h.Params)
		}
	})
}

func FuzzNormal(f *testing.F) {
	f.Add("correct horse battery staple")
	f.Add(strings.Repeat("e\u0301", 15))
	f.Fuzz(func(t *testing.T, typed string) {
		once, err := Normal(typed)
		if err != nil {
			return
		}
		if twice, err := Normal(once); err != nil && len(once) <= MostBytes || err == nil && twice != once {
			t.Errorf("%q became %q and then %q, %v", typed, once, twice, err)
		}
	})
}

// BenchmarkHash is what one hash costs.
func BenchmarkHash(b *testing.B) {
	s := enter(b, newHasher(b, Config{Params: DefaultParams()}))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Hash(b.Context(), "correct horse battery staple"); err != nil {
			b.Fatal(err)
		}
	}
}
