package gatewayapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/auth/limit"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/router/gateway"
	"github.com/llmgw/llmgw/storage"
)

// KeyStore is what Keys needs of a store. See [storage.Store] for its promises.
type KeyStore interface {
	auth.KeyStore
	ListKeys(ctx context.Context, q storage.KeyQuery) (keys []storage.Key, next string, err error)
	Budget(ctx context.Context, b storage.BudgetPeriod) (storage.BudgetState, error)
}

// KeysDeps are the collaborators of Keys.
type KeysDeps struct {
	Store  KeyStore     // required
	Issuer *auth.Issuer // makes and ends keys; required. The caller runs it
	// Tells says that who is told of what Issuer changes refuses a key at once.
	Tells bool
	// Accounts makes links; nil: there are none. Pages is where they are opened; nil:
	// nowhere, and none is made.
	Accounts *account.Service
	Pages    *Pages
	// Where is where the store is, without what is secret in that.
	Where string
	Now   func() time.Time // nil is time.Now
}

// Keys is the keys of a store as [api.Keys].
type Keys struct {
	deps  KeysDeps
	zones limit.Zones
}

var _ api.Keys = (*Keys)(nil)

// NewKeys returns Keys.
func NewKeys(deps KeysDeps) (*Keys, error) {
	if deps.Store == nil || deps.Issuer == nil {
		return nil, errors.New("gatewayapi: KeysDeps needs Store and Issuer: where keys are kept, and who makes them")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Keys{deps: deps}, nil
}

func by(actor string) auth.By { return auth.By{Actor: cmp.Or(actor, "api")} }

// keySpec is what a new key shall be.
func keySpec(req *apipb.CreateKeyRequest) auth.Spec {
	spec := auth.Spec{
		Name: req.GetName(), Owner: req.GetOwner(), AllowUnknownModels: req.GetAllowUnknownModels(), Band: req.GetBand(),
		Budget: req.GetBudget(), Expires: req.GetExpires(), MayExplain: req.GetMayExplain(), Tags: req.GetTags(),
	}
	// The protocol cannot tell an empty list from none, and auth refuses that one.
	if len(req.GetModels()) > 0 {
		spec.Models = req.GetModels()
	}
	if l := req.GetLimits(); l != nil {
		spec.Limits = storage.Limits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Concurrency: l.Concurrency}
	}
	return spec
}

// CreateKey implements api.Keys.
func (s *Keys) CreateKey(ctx context.Context, req *apipb.CreateKeyRequest) (*apipb.CreateKeyResponse, error) {
	issued, err := s.deps.Issuer.Create(ctx, keySpec(req), by(req.GetActor()))
	if err != nil {
		return nil, changeError(err)
	}
	return &apipb.CreateKeyResponse{Key: s.key(&issued.Key), Secret: issued.Secret.Reveal(), Warnings: issued.Warnings}, nil
}

// ListKeys implements api.Keys.
func (s *Keys) ListKeys(ctx context.Context, req *apipb.ListKeysRequest) (*apipb.ListKeysResponse, error) {
	q := storage.KeyQuery{Owner: req.GetOwner(), Page: page(req.GetPageToken(), req.GetPageSize())}
	if req.GetUsableOnly() {
		q.Usable = s.deps.Now()
	}
	list, next, err := s.deps.Store.ListKeys(ctx, q)
	if err != nil {
		return nil, storeError(err)
	}
	out := &apipb.ListKeysResponse{NextPageToken: next}
	for i := range list {
		out.Keys = append(out.Keys, s.key(&list[i]))
	}
	return out, nil
}

// GetKey implements api.Keys.
func (s *Keys) GetKey(ctx context.Context, req *apipb.GetKeyRequest) (*apipb.GetKeyResponse, error) {
	k, err := s.find(ctx, req.GetId())
	if err != nil {
		return nil, err
	}
	out := &apipb.GetKeyResponse{Key: s.key(&k)}
	if k.Budget == nil {
		return out, nil
	}
	sub, err := gateway.LimitSubject(auth.NewIdentity(k), &s.zones)
	if err != nil {
		return nil, err
	}
	start, end := sub.Budget.Around(s.deps.Now())
	state, err := s.deps.Store.Budget(ctx, storage.BudgetPeriod{KeyID: sub.ID, Period: k.Budget.Period, Start: start})
	if err != nil {
		return nil, storeError(err)
	}
	out.Budget = &apipb.KeyBudget{
		LimitNanos: k.Budget.Nanos, SpentNanos: state.SpentNanos, GrantedNanos: state.GrantedNanos,
		Start: stamp(start), End: stamp(end),
	}
	return out, nil
}

// UpdateKey implements api.Keys.
func (s *Keys) UpdateKey(ctx context.Context, req *apipb.UpdateKeyRequest) (*apipb.UpdateKeyResponse, error) {
	if _, err := s.find(ctx, req.GetId()); err != nil {
		return nil, err
	}
	what := auth.Change{
		Revision: req.GetRevision(), Name: req.Name, Owner: req.Owner, Band: req.Band, Budget: req.Budget, Expires: req.Expires, MayExplain: req.MayExplain,
		AllowUnknownModels: req.GetAllowUnknownModels(), SetTags: req.GetSetTags(), RemoveTags: req.GetRemoveTags(),
	}
	if req.GetModels() != nil {
		what.Models = new(req.GetModels().GetModels())
	}
	if l := req.GetLimits(); l != nil {
		what.Limits = storage.Limits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Concurrency: l.Concurrency}
	}
	k, warnings, err := s.deps.Issuer.Update(ctx, req.GetId(), what, by(req.GetActor()))
	if errors.Is(err, storage.ErrConflict) && req.GetRevision() != 0 {
		return nil, api.Precondition(errors.New(plain(err) + "; look at the key again"))
	}
	if err != nil {
		return nil, changeError(err)
	}
	return &apipb.UpdateKeyResponse{Key: s.key(&k), Warnings: warnings}, nil
}

// RevokeKey implements api.Keys.
func (s *Keys) RevokeKey(ctx context.Context, req *apipb.RevokeKeyRequest) (*apipb.RevokeKeyResponse, error) {
	if _, err := s.find(ctx, req.GetId()); errors.Is(err, api.ErrNotFound) || errors.Is(err, api.ErrInvalid) {
		return nil, err
	}
	k, err := s.deps.Issuer.Revoke(ctx, req.GetId(), by(req.GetActor()))
	if errors.Is(err, auth.ErrKept) {
		return nil, api.Unavailable(errors.New("this server refuses the key from now on; the store does not answer, and will be told when it does, so that others hear of it then; if this server is started anew before, that is lost, and the key has to be revoked again: " + plain(err)))
	}
	if errors.Is(err, storage.ErrUnavailable) && s.deps.Tells {
		return nil, api.Unavailable(errors.New("this server refuses the key from now on, but the store does not answer, and whether others will hear of it is not known; revoke the key again when it does: " + plain(err)))
	}
	if err != nil {
		return nil, changeError(err)
	}
	return &apipb.RevokeKeyResponse{Key: s.key(&k)}, nil
}

// RotateKey implements api.Keys.
func (s *Keys) RotateKey(ctx context.Context, req *apipb.RotateKeyRequest) (*apipb.RotateKeyResponse, error) {
	if _, err := s.find(ctx, req.GetId()); err != nil {
		return nil, err
	}
	issued, err := s.deps.Issuer.Rotate(ctx, req.GetId(), auth.Rotation{Overlap: req.GetOverlap().AsDuration(), Expires: req.GetExpires()}, by(req.GetActor()))
	if err != nil && !errors.Is(err, auth.ErrHalfRotated) {
		return nil, changeError(err)
	}
	out := &apipb.RotateKeyResponse{Key: s.key(&issued.Key), Secret: issued.Secret.Reveal(), Warnings: issued.Warnings}
	if err != nil {
		out.OldNotEnded = new(err.Error())
	}
	// The new key is there, so that this is no reason to keep its secret.
	if old, err := s.deps.Store.Key(ctx, req.GetId()); err == nil {
		out.Old = s.key(&old)
	}
	return out, nil
}

// DescribeStore implements api.Keys.
func (s *Keys) DescribeStore(context.Context, *apipb.DescribeStoreRequest) (*apipb.DescribeStoreResponse, error) {
	return &apipb.DescribeStoreResponse{Dsn: s.deps.Where}, nil
}

// find returns a key, or an error with those that may have been meant.
func (s *Keys) find(ctx context.Context, id string) (storage.Key, error) {
	return findKey(ctx, s.deps.Store, id)
}

type keyLister interface {
	Key(ctx context.Context, id string) (storage.Key, error)
	ListKeys(ctx context.Context, q storage.KeyQuery) (keys []storage.Key, next string, err error)
}

// mostLooked bounds how many keys are looked at for what may have been meant.
const mostLooked = 20_000

func findKey(ctx context.Context, store keyLister, id string) (storage.Key, error) {
	if err := noSecret(id); err != nil {
		return storage.Key{}, err
	}
	k, err := store.Key(ctx, id)
	if !errors.Is(err, storage.ErrNotFound) {
		return k, storeError(err)
	}
	var meant []string
	q := storage.KeyQuery{}
	for looked := 0; looked < mostLooked && len(meant) < 3; {
		list, next, err := store.ListKeys(ctx, q)
		if err != nil {
			break // that there is no such key is known either way
		}
		for i := range list {
			if k := &list[i]; resembles(k, id) && len(meant) < 3 {
				meant = append(meant, fmt.Sprintf("%s (%s, name %q)", k.ID, k.Hint, k.Name))
			}
		}
		if looked += len(list); next == "" {
			break
		}
		q.After = next
	}
	text := fmt.Sprintf("there is no key %q; ", id)
	if len(meant) > 0 {
		text += "did you mean " + strings.Join(meant, " or ") + "?"
	} else {
		text += "llmgw keys list shows those that there are"
	}
	return k, api.NotFound(errors.New(text))
}

// noSecret refuses what may be a key itself where its ID is wanted.
func noSecret(id string) error {
	if strings.HasPrefix(id, secretPrefix) && !strings.Contains(id, "...") { // a hint has dots
		return api.Invalid(errors.New("that begins like a key itself and is not repeated here; want its ID, such as key_abcdefghijklmnopqrst; the list of keys shows it beside the key's first and last characters"))
	}
	return nil
}

// secretPrefix is what every key begins with, and no ID.
const secretPrefix = "llmgw_"

// resembles reports whether a key may have been meant by what is not its ID: by
// its name or hint, the beginning of its ID, or an ID with up to two wrong
// characters.
func resembles(k *storage.Key, id string) bool {
	if strings.EqualFold(k.Name, id) || k.Hint == id || len(id) >= 3 && strings.HasPrefix(strings.TrimPrefix(k.ID, "key_"), strings.TrimPrefix(id, "key_")) && id != "key_" {
		return true
	}
	if len(k.ID) != len(id) {
		return false
	}
	wrong := 0
	for i := range len(id) {
		if k.ID[i] != id[i] {
			wrong++
		}
	}
	return wrong <= 2
}

// key is what may be shown of a key.
func (s *Keys) key(k *storage.Key) *apipb.Key {
	out := &apipb.Key{
		Id: k.ID, Hint: k.Hint, Name: k.Name, Owner: k.Owner, Models: slices.Clone(k.Models), Band: k.Band, Tags: k.Tags,
		Limits:    &apipb.KeyLimits{RequestsPerMinute: k.Limits.RequestsPerMinute, TokensPerMinute: k.Limits.TokensPerMinute, Concurrency: k.Limits.Concurrency},
		CreatedAt: stamp(k.CreatedAt), ExpiresAt: stamp(k.ExpiresAt), RevokedAt: stamp(k.RevokedAt), Revision: k.Revision,
		Lineage: cmp.Or(k.Lineage, k.ID), MayExplain: k.MayExplain,
		State: apipb.KeyState_KEY_STATE_USABLE, Account: k.Account,
	}
	if k.Budget != nil {
		out.Budget = new(auth.FormatBudget(*k.Budget))
	}
	if k.Replaces != "" {
		out.Replaces = &k.Replaces
	}
	switch {
	case !k.RevokedAt.IsZero():
		out.State = apipb.KeyState_KEY_STATE_REVOKED
	case k.Suspended:
		out.State = apipb.KeyState_KEY_STATE_SUSPENDED
	case !k.Usable(s.deps.Now()):
		out.State = apipb.KeyState_KEY_STATE_EXPIRED
	}
	return out
}

// changeError is storeError of what was to change something.
func changeError(err error) error {
	if errors.Is(err, storage.ErrUnavailable) {
		return api.Unavailable(errors.New("the store does not answer, and whether something was changed is not known: " + plain(err)))
	}
	return storeError(err)
}

// storeError is an error of auth or a store in the API's terms.
func storeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, auth.ErrInvalid), errors.Is(err, storage.ErrInvalid):
		return api.Invalid(errors.New(plain(err)))
	case errors.Is(err, auth.ErrNotUsable):
		return api.Precondition(errors.New(plain(err)))
	case errors.Is(err, storage.ErrNotFound):
		return api.NotFound(errors.New(plain(err)))
	case errors.Is(err, storage.ErrConflict):
		return api.Unavailable(errors.New("others change it at the same time; try again"))
	case errors.Is(err, storage.ErrUnavailable):
		return api.Unavailable(errors.New("the store does not answer: " + plain(err)))
	}
	return err
}

// plain is an error's text for people: each fault once and in one line, without
// the names of packages.
func plain(err error) string {
	var parts []string
	for line := range strings.Lines(err.Error()) {
		for _, prefix := range []string{"auth: invalid: ", "storage: invalid record: ", "auth: ", "account: ", "storage: "} {
			line = strings.ReplaceAll(line, prefix, "")
		}
		parts = append(parts, strings.TrimSpace(line))
	}
	return strings.ReplaceAll(strings.Join(slices.Compact(parts), "; "), ":; ", ": ")
}

// page is a page of a list.
func page(token string, size uint32) storage.Page {
	return storage.Page{After: token, Limit: int(cmp.Or(size, api.MaxPage))}
}

// stamp is a time; zero is absent.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
