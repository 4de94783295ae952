package account

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
)

// Passwords, tokens and keys that are used in every way that there is, rightly and
// wrongly, show in no log, error, metric, audit row, printed value or file of the store,
// though all of them say something. Nor does an address that has no account.
func TestCanary(t *testing.T) {
	dir := t.TempDir()
	cfg := sqlite.DefaultConfig()
	cfg.Path = filepath.Join(dir, "llmgw.db")
	db, err := sqlite.New(cfg, sqlite.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, nil)
	b.db, b.store.Store = db, db
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: db, Bands: []string{"gold"}, Models: models, Told: b.heard, Now: b.clock.Now, Logger: b.deps.Logger})
	if err != nil {
		t.Fatal(err)
	}
	b.deps.Issuer = issuer

	const (
		pass, next, bad = "canary one sings very loud", "canary two sings very loud", "canary three sings very loud"
		nobody          = "nobody-canary@example.org"
	)
	var sink strings.Builder
	secrets := []string{pass, next, bad, "argon2id"}
	add := func(secret string) {
		if secret != "" {
			secrets = append(secrets, secret)
		}
	}
	failed := 0
	say := func(values ...any) {
		for _, v := range values {
			if _, is := v.(error); is {
				failed++
			}
			fmt.Fprintf(&sink, "%v %+v %#v\n", v, v, v)
			b.deps.Logger.Info("said", "value", v)
		}
	}
	all := func() {
		ctx := t.Context()
		for _, typed := range []string{pass, "short canary", bad + "\xff", strings.Repeat(bad, 100)} {
			say(b.SignUp(ctx, ada, typed, auth.By{Actor: "portal"}))
			say(b.SignUp(ctx, pass, typed, auth.By{}))
		}
		_, err := b.Approve(ctx, ada, gold, op)
		say(err)
		for _, in := range []SignIn{{Address: ada, Password: bad}, {Address: nobody, Password: bad}, {Address: bad, Password: pass}, {Address: ada, Password: pass, Agent: "a"}} {
			opened, err := b.SignIn(ctx, in)
			add(opened.Token)
			say(in, opened, err)
			v, err := b.Visitor(ctx, opened.Token)
			say(v, err)
			if err != nil {
				continue
			}
			add(v.FormToken)
			issued, err := b.CreateKey(ctx, v, KeySpec{Name: "n"})
			add(issued.Secret.Reveal())
			say(issued, err)
			_, err = b.CreateKey(ctx, v, KeySpec{Name: issued.Secret.Reveal(), Models: []string{issued.Secret.Reveal()}})
			say(err)
			_, err = b.RevokeKey(ctx, v, issued.Key.ID)
			say(err)
			keys, err := b.Keys(ctx, v)
			say(len(keys), err)
			_, err = b.ChangePassword(ctx, v, bad, next)
			say(err)
			again, err := b.ChangePassword(ctx, v, pass, next)
			add(again.Token)
			say(again, err)
			back, err := b.Reset(ctx, ada, op)
			add(back.Token)
			say(back, err)
			say(b.OpenResetLink(ctx, back.Token, pass, auth.By{}), b.OpenResetLink(ctx, back.Token, pass, auth.By{}))
		}
		link, err := b.KeyLink(ctx, auth.Spec{Name: "n"}, 0, op)
		add(link.Token)
		say(link, err)
		for range 2 {
			info, err := b.Link(ctx, link.Token)
			say(info, err)
			issued, err := b.OpenKeyLink(ctx, link.Token, auth.By{})
			add(issued.Secret.Reveal())
			say(issued, err)
		}
		_, err = b.SetAdmin(ctx, ada, true, op)
		say(err)
		_, err = b.Suspend(ctx, ada, op)
		say(err)
		_, err = b.SignIn(ctx, SignIn{Address: ada, Password: pass})
		say(err)
		for range 10 {
			_, err = b.SignIn(ctx, SignIn{Address: nobody, Password: bad})
			say(err)
		}
		b.prune(ctx)
		b.clock.Advance(time.Hour)
	}
	all()
	b.store.set(func(string) error { return errDown })
	all()
	b.store.set(nil)
	all()
	_, text := b.audits(t)
	sink.WriteString(text + b.metricsText(t) + b.log.String())
	for _, secret := range secrets {
		if i := strings.Index(sink.String(), secret); i >= 0 {
			t.Errorf("%q shows: ...%.200q", secret, sink.String()[max(0, i-100):])
		}
	}
	if strings.Contains(b.log.String(), nobody) || strings.Contains(text, nobody) {
		t.Errorf("%s is kept, though it has no account", nobody)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if secret != "argon2id" && strings.Contains(string(content), secret) {
				t.Errorf("%q is in %s", secret, filepath.Base(file))
			}
		}
	}
	if failed < 30 || len(secrets) < 14 || sink.Len() < 20_000 {
		t.Errorf("the test saw too little: %d errors, %d secrets, %d bytes", failed, len(secrets), sink.Len())
	}
	for _, want := range []error{ErrRefused, ErrThrottled, ErrSuspended, ErrLinkUsed, storage.ErrUnavailable} {
		if !strings.Contains(sink.String(), want.Error()) {
			t.Errorf("the test saw no %v", want)
		}
	}
}
