package account

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/storage"
)

// NewLink is a one-time link that was made. Whoever has the token can open it.
type NewLink struct {
	ID        string // to take it back by; no secret
	Token     string // for the link's URL: 43 characters of base64url; it is in no store
	ExpiresAt time.Time
	// Warnings say what is legal and perhaps not what was meant.
	Warnings []string
}

// LinkInfo is what somebody may know of a link before it is opened.
type LinkInfo struct {
	Kind      storage.LinkKind
	ExpiresAt time.Time
}

// mostSpecBytes is what stores take of a link's Spec.
const mostSpecBytes = 64 << 10

// KeyLink makes a link that makes a key when it is opened, so that the key is in the
// hands of nobody but whoever opens it. spec is checked as a key's is, and again when
// the link is opened, by which time models that are gone are no fault; how long the key
// lasts counts from then. life is 0 for Config.LinkLife, else within LeastLinkLife and
// MostLinkLife. What cannot be is an ErrInvalid.
func (s *Service) KeyLink(ctx context.Context, spec auth.Spec, life time.Duration, by auth.By) (NewLink, error) {
	k, warnings, err := s.deps.Issuer.Check(spec)
	if err != nil {
		return NewLink{}, err
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return NewLink{}, fmt.Errorf("account: link: %w", err)
	}
	if len(text) > mostSpecBytes {
		return NewLink{}, fmt.Errorf("%w: the key of a link has %d bytes in JSON; want at most %d", ErrInvalid, len(text), mostSpecBytes)
	}
	out, err := s.newLink(ctx, storage.Link{Kind: storage.LinkKey, Spec: text}, life, by)
	if err != nil {
		return NewLink{}, err
	}
	out.Warnings = warnings
	if _, err := time.Parse(time.RFC3339, spec.Expires); err == nil && k.ExpiresAt.Before(out.ExpiresAt) {
		out.Warnings = append(out.Warnings, "the key ends before the link does, so that the link may come to make none")
	}
	return out, nil
}

func (s *Service) newLink(ctx context.Context, l storage.Link, life time.Duration, by auth.By) (NewLink, error) {
	life = cmp.Or(life, s.cfg.LinkLife)
	if life < LeastLinkLife || life > MostLinkLife {
		return NewLink{}, fmt.Errorf("%w: a link that is good for %v; want %v to %v", ErrInvalid, life, LeastLinkLife, MostLinkLife)
	}
	token, err := s.newToken()
	if err != nil {
		return NewLink{}, err
	}
	if l.ID, err = s.newID("link_"); err != nil {
		return NewLink{}, err
	}
	l.Hash, _ = hashOf(token)
	l.CreatedAt = s.now()
	l.ExpiresAt = l.CreatedAt.Add(life)
	why, err := s.audit("link.create", l.ID, nil, linkInfo(l), by)
	if err != nil {
		return NewLink{}, err
	}
	if err := again(ctx, func() error { return s.deps.Store.CreateLink(ctx, l, why) }); err != nil {
		return NewLink{}, fmt.Errorf("create link %s: %w", l.ID, err)
	}
	s.deps.Logger.InfoContext(ctx, "a one-time link was made", "link", l.ID, "kind", l.Kind.String(), "actor", by.Actor)
	return NewLink{ID: l.ID, Token: token, ExpiresAt: l.ExpiresAt}, nil
}

// auditedLink is what an audit row has of a link.
type auditedLink struct {
	ID        string          `json:"id"`
	Kind      string          `json:"kind"`
	Account   string          `json:"account,omitempty"`
	Spec      json.RawMessage `json:"spec,omitempty"`
	ExpiresAt time.Time       `json:"expires_at"`
	UsedAt    time.Time       `json:"used_at,omitzero"`
}

func linkInfo(l storage.Link) auditedLink {
	return auditedLink{ID: l.ID, Kind: l.Kind.String(), Account: l.Account, Spec: bytes.Clone(l.Spec), ExpiresAt: l.ExpiresAt, UsedAt: l.UsedAt}
}

// RevokeLink takes a link back and returns it as it is then, without what it is found
// by. One that was opened stays so, and Key is what it made. storage.ErrNotFound:
// there is none of that ID.
func (s *Service) RevokeLink(ctx context.Context, id string, by auth.By) (storage.Link, error) {
	why, err := s.audit("link.revoke", id, nil, nil, by)
	if err != nil {
		return storage.Link{}, err
	}
	var l storage.Link
	at := s.now()
	err = again(ctx, func() (err error) {
		l, err = s.deps.Store.RevokeLink(ctx, id, at, why)
		return err
	})
	if err != nil {
		return storage.Link{}, fmt.Errorf("revoke link: %w", err)
	}
	s.deps.Logger.InfoContext(ctx, "a one-time link was taken back", "link", id, "actor", by.Actor)
	l.Hash, l.Spec = storage.TokenHash{}, nil
	return l, nil
}

// Link says what a link does. It changes nothing, so that a program which looks at
// links before people do uses none up. Errors: ErrNoLink, ErrLinkUsed.
func (s *Service) Link(ctx context.Context, token string) (LinkInfo, error) {
	l, _, err := s.link(ctx, token)
	if err != nil {
		return LinkInfo{}, err
	}
	return LinkInfo{Kind: l.Kind, ExpiresAt: l.ExpiresAt}, nil
}

// link returns a link that can be opened.
func (s *Service) link(ctx context.Context, token string) (storage.Link, storage.TokenHash, error) {
	hash, ok := hashOf(token)
	if !ok {
		return storage.Link{}, hash, ErrNoLink
	}
	l, err := s.deps.Store.Link(ctx, hash)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return storage.Link{}, hash, ErrNoLink
	case err != nil:
		return storage.Link{}, hash, fmt.Errorf("link: %w", err)
	case !l.UsedAt.IsZero() || !s.now().Before(l.ExpiresAt):
		return storage.Link{}, hash, ErrLinkUsed
	}
	return l, hash, nil
}

// OpenKeyLink makes the key of a link and uses the link up, in one step. Of two that
// open it at once one gets a key and the other ErrLinkUsed. ErrInvalid: the key cannot
// be any more, such as because its end has passed; the link is as it was. With another
// error it is not known whether it was used. By's actor may be empty.
func (s *Service) OpenKeyLink(ctx context.Context, token string, by auth.By) (auth.Issued, error) {
	l, hash, err := s.link(ctx, token)
	if err != nil {
		return auth.Issued{}, err
	}
	if l.Kind != storage.LinkKey {
		return auth.Issued{}, ErrNoLink
	}
	spec, err := auth.DecodeSpec(bytes.NewReader(l.Spec))
	if err != nil {
		return auth.Issued{}, fmt.Errorf("link %s: %w", l.ID, err)
	}
	spec.AllowUnknownModels = true
	by.Actor = cmp.Or(by.Actor, "link:"+l.ID)
	at := s.now()
	issued, err := s.deps.Issuer.CreateIn(ctx, spec, auth.Custody{
		Keep: func(ctx context.Context, k storage.Key, why storage.Audit) error {
			err := s.deps.Store.RedeemKeyLink(ctx, hash, at, k, why)
			if errors.Is(err, storage.ErrUnavailable) && s.redeemed(ctx, hash, k.ID) {
				err = nil
			}
			return err
		},
		Once: true,
	}, by)
	switch {
	case errors.Is(err, ErrInvalid):
		s.deps.Logger.ErrorContext(ctx, "a one-time link was opened whose key cannot be made any more; make another link", "link", l.ID, "err", err)
		return auth.Issued{}, err
	case errors.Is(err, storage.ErrConflict):
		return auth.Issued{}, ErrLinkUsed
	case errors.Is(err, storage.ErrNotFound):
		return auth.Issued{}, ErrNoLink
	case err != nil:
		return auth.Issued{}, fmt.Errorf("link %s: %w", l.ID, err)
	}
	// Who made the link was warned; whoever opens it does not know the fleet.
	issued.Warnings = nil
	s.metrics.links.Add(1)
	s.deps.Logger.InfoContext(ctx, "a one-time link made a key", "link", l.ID, "key", issued.Key.ID)
	return issued, nil
}

// redeemed reports whether a link is known to have made that key. What was done is
// often done although its answer was lost.
func (s *Service) redeemed(ctx context.Context, hash storage.TokenHash, key string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWait)
	defer cancel()
	l, err := s.deps.Store.Link(ctx, hash)
	return err == nil && l.Key == key && key != ""
}

// OpenResetLink gives the account of a link another password, ends its sessions and
// uses the link up, in one step. Nobody is signed in by it. Errors: an [*InvalidError]
// of the password, ErrNoLink, ErrLinkUsed, ErrBusy. By's actor may be empty.
func (s *Service) OpenResetLink(ctx context.Context, token, typed string, by auth.By) error {
	typed, err := normal(typed)
	if err != nil {
		return err
	}
	l, hash, err := s.link(ctx, token)
	if err != nil {
		return err
	}
	if l.Kind != storage.LinkReset {
		return ErrNoLink
	}
	slot, err := s.enter()
	if err != nil {
		return err
	}
	defer slot.Leave()
	kept, err := slot.Hash(ctx, typed)
	if err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	by.Actor = cmp.Or(by.Actor, "link:"+l.ID)
	why, err := s.audit("account.password", l.Account, nil, nil, by)
	if err != nil {
		return err
	}
	a, err := s.deps.Store.RedeemResetLink(ctx, hash, s.now(), kept, why)
	switch {
	case errors.Is(err, storage.ErrConflict):
		return ErrLinkUsed
	case errors.Is(err, storage.ErrNotFound):
		return ErrNoLink
	case err != nil:
		return fmt.Errorf("reset: %w", err)
	}
	s.metrics.links.Add(1)
	s.deps.Logger.InfoContext(ctx, "a password was set by a one-time link", "link", l.ID, "account", a.ID)
	// Who has the new password need not wait for those who guessed at the old one.
	if err := again(ctx, func() error { return s.deps.Store.ForgiveAttempts(ctx, bucketOf(a.Address)) }); err != nil {
		s.deps.Logger.WarnContext(ctx, "attempts to sign in could not be forgotten", "account", a.ID, "err", err)
	}
	return nil
}
