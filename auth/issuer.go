package auth

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// ErrHalfRotated says that a new key was made and the old one was not given an
// end.
var ErrHalfRotated = errors.New("auth: the old key was not ended")

// ErrNotUsable says that a key was revoked or has expired, and cannot be what
// was asked for.
var ErrNotUsable = errors.New("auth: the key is not usable")

// maxOverlap bounds how long an old key goes on after its rotation.
const maxOverlap = 365 * 24 * time.Hour

// KeyStore is what an Issuer keeps keys in. See [storage.Keys] for its promises.
type KeyStore interface {
	CreateKey(ctx context.Context, k storage.Key, why storage.Audit) error
	Key(ctx context.Context, id string) (storage.Key, error)
	UpdateKey(ctx context.Context, k storage.Key, why storage.Audit) error
	RevokeKey(ctx context.Context, id string, at time.Time, why storage.Audit) (storage.Key, error)
}

// Told is told of changes once the store has them; an [*Authenticator] is one.
type Told interface {
	Revoke(keyID string)
	Forget(keyID string)
}

// IssuerDeps are the issuer's collaborators.
type IssuerDeps struct {
	Keys   KeyStore         // required
	Bands  []string         // nil: what bands there are is not known, and any passes with a warning
	Models func() Models    // the catalog as it is; nil: lists are not checked, with a warning
	Told   Told             // nil: nobody; other processes notice within Config.CacheTTL
	Now    func() time.Time // nil is time.Now
	Random io.Reader        // nil is crypto/rand.Reader
	Logger *slog.Logger     // nil discards
}

// Issuer makes, rotates and ends keys. Every change leaves an audit row, without
// secrets. Its methods may be called concurrently and block for as long as the
// store does.
type Issuer struct {
	deps IssuerDeps
	wake chan struct{}

	mu      sync.Mutex
	running bool                      // guarded by mu
	kept    map[string]keptRevocation // by the key's ID; guarded by mu
}

// By says who asks for a change, for the audit row, which keeps what it may of it:
// see [storage.Audit.Tidy].
type By struct {
	Actor     string // such as cli:root@host, or a key's ID
	RequestID string // empty if none
}

// Issued is a new key.
type Issued struct {
	Secret Secret      // show it once
	Key    storage.Key // as it is kept; Revision is 1
	// Warnings say what is legal and perhaps not what was meant.
	Warnings []string
}

// NewIssuer returns an Issuer.
func NewIssuer(deps IssuerDeps) (*Issuer, error) {
	if deps.Keys == nil {
		return nil, errors.New("auth: IssuerDeps.Keys is nil; want where keys are kept")
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
	return &Issuer{deps: deps, wake: make(chan struct{}, 1), kept: make(map[string]keptRevocation)}, nil
}

// Create makes a key. It returns an error that wraps ErrInvalid, with every
// fault, if the key cannot be such, and one that wraps storage.ErrUnavailable if
// it is not known whether the key was kept; its secret is lost then, and whoever
// finds it in a list may revoke it.
func (s *Issuer) Create(ctx context.Context, spec Spec, by By) (Issued, error) {
	k, warnings, err := s.Check(spec)
	if err != nil {
		return Issued{}, err
	}
	return s.mint(ctx, k, warnings, "key.create", by, Custody{Keep: s.deps.Keys.CreateKey})
}

// mint makes a record a key and has it kept.
func (s *Issuer) mint(ctx context.Context, k storage.Key, warnings []string, action string, by By, in Custody) (Issued, error) {
	secret, err := Mint(s.deps.Random)
	if err != nil {
		return Issued{}, err
	}
	if k.ID, err = s.newID("key_"); err != nil {
		return Issued{}, err
	}
	k.Hash, k.Hint, k.Lineage, k.Revision = secret.Hash(), secret.Hint(), cmp.Or(k.Lineage, k.ID), 0
	why, err := s.audit(action, k.ID, nil, &k, by)
	if err != nil {
		return Issued{}, err
	}
	keep := func() error { return in.Keep(ctx, k, why) }
	if in.Once {
		err = keep()
	} else {
		err = again(ctx, keep)
	}
	if err != nil {
		return Issued{}, fmt.Errorf("create key %s: %w", k.ID, err)
	}
	k.Revision = 1
	return Issued{Secret: secret, Key: k, Warnings: warnings}, nil
}

// Rotation is how a key is replaced.
type Rotation struct {
	// Overlap is how long the old key goes on; 0 ends it at once. At most 365
	// days. A key that ends earlier by itself still does.
	Overlap time.Duration
	// Expires says when the new key ends, as [ParseExpiry] reads it. Empty: it
	// lives as long as the old one was meant to when it was made. It must be said
	// of a key that ends and was changed since it was made, as a rotation changes
	// it: how long that one was meant to live is not known any more.
	Expires string
}

// Rotate makes a key that is like another one, and gives that one an end. Both
// are of one lineage: what was counted of the old key's limits and budget counts
// for the new one, and while both are good they share it. It returns an error that wraps ErrNotUsable if the old key was revoked or has
// expired, and storage.ErrNotFound if there is none. With an error that wraps
// ErrHalfRotated the new key is there and is returned, and the old one goes on:
// revoke it when the new one is in use.
func (s *Issuer) Rotate(ctx context.Context, id string, how Rotation, by By) (Issued, error) {
	now := s.now()
	if how.Overlap < 0 || how.Overlap > maxOverlap {
		return Issued{}, fmt.Errorf("%w: overlap: %v; want 0 to %v", ErrInvalid, how.Overlap, maxOverlap)
	}
	old, err := s.deps.Keys.Key(ctx, id)
	if err != nil {
		return Issued{}, fmt.Errorf("rotate key: %w", err)
	}
	if !old.Usable(now) {
		return Issued{}, fmt.Errorf("rotate key %s: %w: %s", id, ErrNotUsable, whyNot(old))
	}
	k := old
	k.CreatedAt, k.Replaces, k.Lineage = now, old.ID, cmp.Or(old.Lineage, old.ID)
	switch {
	case how.Expires != "":
		if k.ExpiresAt, err = ParseExpiry(how.Expires, now); err != nil {
			return Issued{}, err
		}
	case old.ExpiresAt.IsZero():
	case old.Revision > 1:
		return Issued{}, fmt.Errorf("%w: expires: key %s was changed since it was made, as by a rotation, and ends %s; say when the new one is to end, such as 90d or never",
			ErrInvalid, id, old.ExpiresAt.Format(time.RFC3339))
	default:
		k.ExpiresAt = now.Add(old.ExpiresAt.Sub(old.CreatedAt))
	}
	issued, err := s.mint(ctx, k, nil, "key.rotate", by, Custody{Keep: s.deps.Keys.CreateKey})
	if err != nil {
		return Issued{}, err
	}
	if err := s.endAfter(ctx, old, now, how.Overlap, by); err != nil {
		return issued, fmt.Errorf("rotate key %s: %w: %w", id, ErrHalfRotated, err)
	}
	return issued, nil
}

// whyNot says why a key is not usable, and what to do.
func whyNot(k storage.Key) string {
	if k.Suspended {
		return "its account may do nothing now; approve that"
	}
	return "it was revoked or has expired; make a new one"
}

// endAfter gives a key an end, unless it has an earlier one.
func (s *Issuer) endAfter(ctx context.Context, k storage.Key, now time.Time, overlap time.Duration, by By) error {
	if overlap == 0 {
		_, err := s.Revoke(ctx, k.ID, by)
		return err
	}
	end := now.Add(overlap)
	for range 4 {
		if !k.Usable(now) || !k.ExpiresAt.IsZero() && !k.ExpiresAt.After(end) {
			return nil
		}
		after := k
		after.ExpiresAt = end
		why, err := s.audit("key.rotate", k.ID, &k, &after, by)
		if err != nil {
			return err
		}
		err = again(ctx, func() error { return s.deps.Keys.UpdateKey(ctx, after, why) })
		if err == nil {
			if s.deps.Told != nil {
				s.deps.Told.Forget(k.ID)
			}
			return nil
		}
		if !errors.Is(err, storage.ErrConflict) {
			return err
		}
		if k, err = s.deps.Keys.Key(ctx, k.ID); err != nil {
			return err
		}
	}
	return storage.ErrConflict
}

// Revoke ends a key and returns it as it is then; one that was revoked before is
// no error. It returns an error that wraps storage.ErrNotFound if there is none.
// With one that wraps storage.ErrUnavailable the process that is told refuses
// the key from then on, and it is not known whether the store has it: revoke it
// again, unless the error wraps ErrKept, too.
func (s *Issuer) Revoke(ctx context.Context, id string, by By) (storage.Key, error) {
	at := s.now()
	k, err := s.revoke(ctx, id, at, by)
	if s.deps.Told != nil && (err == nil || errors.Is(err, storage.ErrUnavailable)) {
		s.deps.Told.Revoke(id)
	}
	if errors.Is(err, storage.ErrUnavailable) && s.deps.Told != nil && s.keep(id, keptRevocation{at, by}) {
		err = fmt.Errorf("%w: %w", ErrKept, err)
	}
	if err != nil {
		return storage.Key{}, fmt.Errorf("revoke key: %w", err)
	}
	s.forgetKept(id)
	return k, nil
}

func (s *Issuer) revoke(ctx context.Context, id string, at time.Time, by By) (storage.Key, error) {
	before, err := s.deps.Keys.Key(ctx, id)
	if err != nil {
		return storage.Key{}, err
	}
	return s.revokeBy(ctx, before, at, func(ctx context.Context, at time.Time, why storage.Audit) (storage.Key, error) {
		return s.deps.Keys.RevokeKey(ctx, id, at, why)
	}, by)
}

func (s *Issuer) revokeBy(ctx context.Context, before storage.Key, at time.Time,
	end func(context.Context, time.Time, storage.Audit) (storage.Key, error), by By,
) (k storage.Key, err error) {
	after := before
	if after.RevokedAt.IsZero() {
		after.RevokedAt = at
	}
	why, err := s.audit("key.revoke", before.ID, &before, &after, by)
	if err != nil {
		return storage.Key{}, err
	}
	err = again(ctx, func() (err error) {
		k, err = end(ctx, at, why)
		return err
	})
	return k, err
}

// KeyInfo is what may be shown of a key, in listings and audit rows.
type KeyInfo struct {
	ID     string            `json:"id"`
	Hint   string            `json:"hint,omitempty"`
	Name   string            `json:"name,omitempty"`
	Owner  string            `json:"owner,omitempty"`
	Models []string          `json:"models"` // null is every model
	Band   string            `json:"band,omitempty"`
	Tags   map[string]string `json:"tags,omitempty"`
	storage.Limits
	Budget     string    `json:"budget,omitempty"` // as ParseBudget reads it
	MayExplain bool      `json:"may_explain,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	Replaces   string    `json:"replaces,omitempty"`
	Lineage    string    `json:"lineage,omitempty"` // empty: the key's own ID
	Account    string    `json:"account,omitempty"` // empty: an operator's key
	Suspended  bool      `json:"suspended,omitempty"`
	Revision   int64     `json:"revision,omitempty"`
}

// Info returns what may be shown of a key: all but what it is found by.
func Info(k storage.Key) KeyInfo {
	i := KeyInfo{
		ID: k.ID, Hint: k.Hint, Name: k.Name, Owner: k.Owner, Models: k.Models, Band: k.Band, Tags: k.Tags, Limits: k.Limits,
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt, Replaces: k.Replaces, Revision: k.Revision,
		MayExplain: k.MayExplain, Account: k.Account, Suspended: k.Suspended,
	}
	if k.Lineage != k.ID {
		i.Lineage = k.Lineage
	}
	if k.Budget != nil {
		i.Budget = FormatBudget(*k.Budget)
	}
	return i
}

func (s *Issuer) audit(action, target string, before, after *storage.Key, by By) (storage.Audit, error) {
	id, err := s.newID("audit_")
	if err != nil {
		return storage.Audit{}, err
	}
	a := storage.Audit{ID: id, At: s.now(), Actor: by.Actor, Action: action, Target: target, RequestID: by.RequestID}
	a.Tidy() // whoever calls may have it from outside
	for _, side := range []struct {
		key *storage.Key
		out *json.RawMessage
	}{{before, &a.Before}, {after, &a.After}} {
		if side.key == nil {
			continue
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false) // it would make six bytes of one
		if err := e.Encode(Info(*side.key)); err != nil {
			return storage.Audit{}, fmt.Errorf("auth: audit row: %w", err)
		}
		*side.out = bytes.TrimSpace(text.Bytes())
	}
	return a, nil
}

// newID makes an identity of 100 random bits that nobody needs to keep secret.
func (s *Issuer) newID(prefix string) (string, error) {
	var b [15]byte
	if _, err := io.ReadFull(s.deps.Random, b[:]); err != nil {
		return "", fmt.Errorf("auth: read randomness: %w", err)
	}
	return prefix + strings.ToLower(base32.StdEncoding.EncodeToString(b[:]))[:20], nil
}

// now is the time as stores keep it.
func (s *Issuer) now() time.Time { return s.deps.Now().UTC().Truncate(time.Microsecond) }

// again calls f once more if the store could not be asked: its calls may be
// repeated, and a connection that was lost is often there at the second.
func again(ctx context.Context, f func() error) error {
	err := f()
	if errors.Is(err, storage.ErrUnavailable) && ctx.Err() == nil {
		err = f()
	}
	return err
}
