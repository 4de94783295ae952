package account

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account/password"
	"github.com/llmgw/llmgw/storage"
)

// Store is what a Service keeps people in and reads their keys and usage from. See
// [storage.Accounts], [storage.Keys] and [storage.UsageLog] for its promises.
type Store interface {
	storage.Accounts
	Key(ctx context.Context, id string) (storage.Key, error)
	ListKeys(ctx context.Context, q storage.KeyQuery) (keys []storage.Key, next string, err error)
	ListRollups(ctx context.Context, q storage.RollupQuery) (sums []storage.Rollup, next string, err error)
}

// Deps are the service's collaborators.
type Deps struct {
	Store  Store        // required
	Issuer *auth.Issuer // makes and ends keys; required
	// Told is told of keys whose account may do nothing any more, or something again;
	// nil: nobody, and they are noticed within cache_ttl.
	Told       auth.Told
	Now        func() time.Time      // nil is time.Now
	Random     io.Reader             // nil is crypto/rand.Reader
	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil leaves metrics unregistered

	// What follows tests have less of. cost is what a hash costs; zero is
	// password.DefaultParams. settle is how long a sign-up takes after its hash.
	cost   password.Params
	settle time.Duration
}

// Service is what people and operators do with accounts. Its methods may be called
// concurrently and block for as long as the store does. Where the store cannot be
// asked they return an error that wraps storage.ErrUnavailable.
type Service struct {
	cfg     Config
	deps    Deps
	hasher  *password.Hasher
	metrics metrics
	notices notices
	touched touched
}

// New returns a Service. It starts no goroutine; call Run.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Store == nil || deps.Issuer == nil {
		return nil, errors.New("account: Deps needs Store and Issuer: where accounts are kept, and who makes keys")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Random == nil {
		deps.Random = rand.Reader
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.cost == (password.Params{}) {
		deps.cost = password.DefaultParams()
	}
	deps.settle = cmp.Or(deps.settle, settle)
	hasher, err := password.New(password.Config{AtOnce: cfg.MaxHashes, Waiting: cfg.MaxWaiting, Params: deps.cost}, deps.Random)
	if err != nil {
		return nil, err
	}
	s := &Service{cfg: cfg, deps: deps, hasher: hasher}
	if deps.Registerer != nil {
		if err := deps.Registerer.Register(newCollector(s)); err != nil {
			return nil, fmt.Errorf("account: register metrics: %w", err)
		}
	}
	return s, nil
}

// now is the time as stores keep it.
func (s *Service) now() time.Time { return s.deps.Now().UTC().Truncate(time.Microsecond) }

// bucketBits is how much of an address's hash attempts are counted by. There are a
// million buckets, so that a store need keep no more rows, whatever is typed. Two
// addresses are of one bucket once in a million times, and then share their waits.
const bucketBits = 20

// bucketOf is the bucket of an address. In logs it stands for an address of which it
// is not known whether it has an account.
func bucketOf(address string) uint32 {
	sum := sha256.Sum256([]byte(address))
	return binary.BigEndian.Uint32(sum[:4]) >> (32 - bucketBits)
}

// again calls f once more if the store could not be asked: what may be repeated is
// often done at the second try.
func again(ctx context.Context, f func() error) error {
	err := f()
	if errors.Is(err, storage.ErrUnavailable) && ctx.Err() == nil {
		err = f()
	}
	return err
}
