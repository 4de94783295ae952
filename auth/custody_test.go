package auth_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

func TestCreateIn(t *testing.T) {
	store := newStore()
	s := newIssuer(t, store, nil)
	var kept storage.Key
	calls := 0
	in := auth.Custody{Account: "acc_1", Keep: func(_ context.Context, k storage.Key, why storage.Audit) error {
		if calls++; calls == 1 {
			return errDown
		}
		kept = k
		if why.Action != "key.create" || why.Target != k.ID || !strings.Contains(string(why.After), `"account":"acc_1"`) ||
			!strings.Contains(string(why.After), `"lineage":"acc_1"`) {
			t.Errorf("audit row %+v, after %s", why, why.After)
		}
		return nil
	}}
	issued, err := s.CreateIn(t.Context(), auth.Spec{Name: "n", Models: []string{"b/*"}}, in, me)
	if err != nil || calls != 2 || kept.ID != issued.Key.ID || kept.Account != "acc_1" || kept.Lineage != "acc_1" ||
		issued.Secret.Hash() != kept.Hash || issued.Key.Revision != 1 || kept.Revision != 0 {
		t.Errorf("%v after %d calls; kept %+v", err, calls, kept)
	}
	if len(store.keys) != 0 {
		t.Error("it was kept where nobody asked for it")
	}
	if id := auth.NewIdentity(kept); id.Lineage() != "acc_1" {
		t.Error("what bounds it is not counted by its account")
	}
	calls = 0
	in.Once = true
	if _, err := s.CreateIn(t.Context(), auth.Spec{}, in, me); !errors.Is(err, storage.ErrUnavailable) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
	if _, err := s.CreateIn(t.Context(), auth.Spec{Band: "none"}, in, me); !errors.Is(err, auth.ErrInvalid) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// What replaces an account's key is the account's, and counts with the others.
func TestRotateKeepsTheAccount(t *testing.T) {
	store := newStore()
	store.add(t, storage.Key{ID: "key_old", Account: "acc_1", Lineage: "acc_1", CreatedAt: start26})
	store.add(t, storage.Key{ID: "key_off", Account: "acc_2", Lineage: "acc_2", Suspended: true})
	s := newIssuer(t, store, nil)
	issued, err := s.Rotate(t.Context(), "key_old", auth.Rotation{}, me)
	if err != nil || issued.Key.Account != "acc_1" || issued.Key.Lineage != "acc_1" || issued.Key.Replaces != "key_old" {
		t.Errorf("%+v, %v", issued.Key, err)
	}
	if _, err := s.Rotate(t.Context(), "key_off", auth.Rotation{}, me); !errors.Is(err, auth.ErrNotUsable) || !strings.Contains(err.Error(), "its account") {
		t.Error(err)
	}
	if _, _, err := s.Update(t.Context(), "key_off", auth.Change{}, me); !errors.Is(err, auth.ErrNotUsable) || !strings.Contains(err.Error(), "its account") {
		t.Error(err)
	}
}

// Somebody who guesses the ID of another's key ends it nowhere, whether or not the
// store is there.
func TestRevokeIn(t *testing.T) {
	store, heard := newStore(), &told{}
	store.add(t, storage.Key{ID: "key_1", Account: "acc_1", Lineage: "acc_1"})
	store.add(t, storage.Key{ID: "key_op"})
	s := newIssuer(t, store, func(d *auth.IssuerDeps) { d.Told = heard })
	var fail error
	end := func(id string) func(context.Context, time.Time, storage.Audit) (storage.Key, error) {
		return func(ctx context.Context, at time.Time, why storage.Audit) (storage.Key, error) {
			if fail != nil {
				return storage.Key{}, fail
			}
			return store.RevokeKey(ctx, id, at, why)
		}
	}
	for _, test := range []struct{ account, id string }{{"acc_2", "key_1"}, {"acc_1", "key_op"}, {"", "key_op"}, {"acc_1", "none"}} {
		for _, fail = range []error{nil, errDown} {
			if _, err := s.RevokeIn(t.Context(), test.account, test.id, end(test.id), me); !errors.Is(err, storage.ErrNotFound) {
				t.Errorf("%s of %q: %v", test.id, test.account, err)
			}
		}
	}
	store.fail = errDown
	if _, err := s.RevokeIn(t.Context(), "acc_2", "key_1", end("key_1"), me); !errors.Is(err, storage.ErrUnavailable) {
		t.Error(err)
	}
	store.fail = nil
	if len(heard.revoked) != 0 || len(store.audits) != 0 {
		t.Fatalf("told of %v, %d audit rows", heard.revoked, len(store.audits))
	}
	// His own key is refused here at once, and it is not known whether elsewhere.
	fail = errDown
	if _, err := s.RevokeIn(t.Context(), "acc_1", "key_1", end("key_1"), me); !errors.Is(err, storage.ErrUnavailable) || errors.Is(err, auth.ErrKept) ||
		!slices.Equal(heard.revoked, []string{"key_1"}) {
		t.Errorf("%v, told of %v", err, heard.revoked)
	}
	fail = nil
	if k, err := s.RevokeIn(t.Context(), "acc_1", "key_1", end("key_1"), me); err != nil || k.RevokedAt.IsZero() || len(store.audits) != 1 {
		t.Errorf("%+v, %v", k, err)
	}
}

// What an account's keys may use is checked as a key is.
func TestCheckAndPreview(t *testing.T) {
	s := newIssuer(t, newStore(), nil)
	k, _, err := s.Check(auth.Spec{Models: []string{"b/*"}, Expires: "1d"})
	if err != nil || k.ID != "" || k.Hash != (storage.KeyHash{}) || !k.ExpiresAt.Equal(start26.Truncate(time.Microsecond).Add(24*time.Hour)) {
		t.Errorf("%+v, %v", k, err)
	}
	if _, _, err := s.Check(auth.Spec{Models: []string{"gone"}}); !errors.Is(err, auth.ErrInvalid) {
		t.Error(err)
	}
	was := storage.Key{Models: []string{"long-gone"}, Band: "gold", Limits: storage.Limits{Concurrency: new(int64(2))}}
	k, _, err = s.Preview(was, auth.Change{Band: new("bronze"), Limits: storage.Limits{Concurrency: new(int64(0))}})
	if err != nil || k.Band != "bronze" || k.Limits.Concurrency != nil || !slices.Equal(k.Models, was.Models) {
		t.Errorf("%+v, %v", k, err)
	}
	if _, _, err := s.Preview(was, auth.Change{Band: new("lead")}); !errors.Is(err, auth.ErrInvalid) {
		t.Error(err)
	}
}
