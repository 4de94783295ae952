package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memStore keeps keys in memory and behaves as it is told.
type memStore struct {
	mu      sync.Mutex
	keys    map[string]storage.Key
	byHash  map[storage.KeyHash]string
	audits  []storage.Audit
	reads   int
	latency time.Duration // of a read; what is read is as it was at its begin
	fail    error         // what every call returns
	stall   bool          // reads wait for their context's end
	deaf    chan struct{} // reads wait for this, whatever their context says
	before  func(op string)
}

func newStore() *memStore {
	return &memStore{keys: map[string]storage.Key{}, byHash: map[storage.KeyHash]string{}}
}

func (s *memStore) KeyByHash(ctx context.Context, h storage.KeyHash) (storage.Key, error) {
	s.mu.Lock()
	s.reads++
	id, ok := s.byHash[h]
	k := s.keys[id]
	latency, fail, stall, deaf := s.latency, s.fail, s.stall, s.deaf
	s.mu.Unlock()
	if deaf != nil {
		<-deaf
		return k, nil
	}
	var end <-chan time.Time
	if !stall {
		timer := time.NewTimer(latency)
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-end:
	case <-ctx.Done():
		return storage.Key{}, fmt.Errorf("read: %w", context.Cause(ctx))
	}
	switch {
	case fail != nil:
		return storage.Key{}, fail
	case !ok:
		return storage.Key{}, fmt.Errorf("key by hash: %w", storage.ErrNotFound)
	}
	return k, nil
}

func (s *memStore) begin(op string) error {
	if s.before != nil {
		s.before(op)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

func (s *memStore) CreateKey(_ context.Context, k storage.Key, why storage.Audit) error {
	if err := s.begin("create"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.Revision = 1
	s.keys[k.ID], s.byHash[k.Hash] = k, k.ID
	s.audits = append(s.audits, why)
	return nil
}

func (s *memStore) Key(_ context.Context, id string) (storage.Key, error) {
	if err := s.begin("key"); err != nil {
		return storage.Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys[id]
	if !ok {
		return k, storage.ErrNotFound
	}
	return k, nil
}

func (s *memStore) UpdateKey(_ context.Context, k storage.Key, why storage.Audit) error {
	if err := s.begin("update"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[k.ID].Revision != k.Revision {
		return storage.ErrConflict
	}
	k.Revision++
	s.keys[k.ID] = k
	s.audits = append(s.audits, why)
	return nil
}

func (s *memStore) RevokeKey(_ context.Context, id string, at time.Time, why storage.Audit) (storage.Key, error) {
	if err := s.begin("revoke"); err != nil {
		return storage.Key{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys[id]
	if !ok {
		return k, storage.ErrNotFound
	}
	if k.RevokedAt.IsZero() {
		k.RevokedAt = at
		k.Revision++
		s.keys[id] = k
		s.audits = append(s.audits, why)
	}
	return k, nil
}

func (s *memStore) set(change func(*memStore)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *memStore) readCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads
}

// add keeps a key with that ID and returns its text.
func (s *memStore) add(t testing.TB, k storage.Key) string {
	t.Helper()
	secret, err := auth.Mint(nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Hash, k.Revision = secret.Hash(), 1
	s.set(func(s *memStore) { s.keys[k.ID], s.byHash[k.Hash] = k, k.ID })
	return secret.Reveal()
}

// change makes a change to a key in the store, as another process would.
func (s *memStore) change(id string, change func(*storage.Key)) {
	s.set(func(s *memStore) {
		k := s.keys[id]
		change(&k)
		k.Revision++
		s.keys[id] = k
	})
}

// stranger returns the text of a key that no store has.
func stranger(t testing.TB) string {
	t.Helper()
	secret, err := auth.Mint(nil)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

func newAuth(t testing.TB, store auth.KeySource, change func(*auth.Config, *auth.Deps)) *auth.Authenticator {
	t.Helper()
	cfg, deps := auth.DefaultConfig(), auth.Deps{Keys: store}
	if change != nil {
		change(&cfg, &deps)
	}
	a, err := auth.New(cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// patient is for tests outside of a bubble, where a busy machine is no fault.
func patient(c *auth.Config, _ *auth.Deps) { c.LookupTimeout = time.Minute }

// start runs an authenticator until the test ends.
func start(t testing.TB, a *auth.Authenticator) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func request(key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	return r
}
