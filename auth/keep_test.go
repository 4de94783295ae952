package auth_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// A revocation that is made while the store is away is written when it is back, as
// of when it was made and by whom.
func TestRevocationIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, heard := newStore(), &told{}
		store.add(t, storage.Key{ID: "key_1"})
		s := newIssuer(t, store, func(d *auth.IssuerDeps) { d.Told, d.Now = heard, time.Now })
		store.set(func(s *memStore) { s.fail = errDown })
		if _, err := s.Revoke(t.Context(), "key_1", me); errors.Is(err, auth.ErrKept) || !errors.Is(err, storage.ErrUnavailable) {
			t.Errorf("not running: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		synctest.Wait()

		at := time.Now()
		for _, id := range []string{"key_1", "key_1", "key_none"} {
			if _, err := s.Revoke(t.Context(), id, me); !errors.Is(err, auth.ErrKept) || !errors.Is(err, storage.ErrUnavailable) {
				t.Errorf("%s: %v", id, err)
			}
		}
		time.Sleep(time.Hour) // virtual
		store.set(func(s *memStore) { s.fail = nil })
		time.Sleep(2 * time.Second)
		store.set(func(s *memStore) {
			if k := s.keys["key_1"]; !k.RevokedAt.Equal(at.UTC().Truncate(time.Microsecond)) {
				t.Errorf("revoked at %v, want %v", k.RevokedAt, at)
			}
			if len(s.audits) != 1 || s.audits[0].Action != "key.revoke" || s.audits[0].Actor != me.Actor || !strings.Contains(string(s.audits[0].After), "revoked_at") {
				t.Errorf("audit rows: %+v", s.audits)
			}
			s.fail = errDown
		})
		// They are bounded.
		kept := 0
		for i := range 1100 {
			if _, err := s.Revoke(t.Context(), fmt.Sprint("key_", i), me); errors.Is(err, auth.ErrKept) {
				kept++
			}
		}
		if kept != 1024 {
			t.Errorf("%d are kept, want 1024", kept)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := s.Revoke(t.Context(), "key_new", me); errors.Is(err, auth.ErrKept) {
			t.Errorf("kept by one that has ended: %v", err)
		}
	})
}
