package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/storage"
)

// UserStore is what Users reads beside what its accounts change. See [storage.Store]
// for its promises.
type UserStore interface {
	AccountByAddress(ctx context.Context, address string) (storage.Account, error)
	ListAccounts(ctx context.Context, q storage.AccountQuery, now time.Time) (list []storage.AccountListing, next string, err error)
	ListKeys(ctx context.Context, q storage.KeyQuery) (keys []storage.Key, next string, err error)
}

// UsersDeps are the collaborators of Users.
type UsersDeps struct {
	Accounts *account.Service // required
	Store    UserStore        // required
	// Pages is where links are opened; nil: nowhere, and none is made.
	Pages *Pages
	Now   func() time.Time // nil is time.Now
}

// Users is the accounts of a store as [api.Users].
type Users struct{ deps UsersDeps }

var _ api.Users = (*Users)(nil)

// NewUsers returns Users.
func NewUsers(deps UsersDeps) (*Users, error) {
	if deps.Accounts == nil || deps.Store == nil {
		return nil, errors.New("gatewayapi: UsersDeps needs Accounts and Store: who changes accounts, and where they are kept")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Users{deps}, nil
}

// ListUsers implements api.Users.
func (s *Users) ListUsers(ctx context.Context, req *apipb.ListUsersRequest) (*apipb.ListUsersResponse, error) {
	list, next, err := s.deps.Accounts.List(ctx, storage.AccountQuery{
		State: storage.AccountState(req.GetState()), Page: page(req.GetPageToken(), req.GetPageSize()), //nolint:gosec // one of the four, by the handler
	})
	if err != nil {
		return nil, storeError(err)
	}
	out := &apipb.ListUsersResponse{NextPageToken: next}
	for i := range list {
		out.Users = append(out.Users, user(&list[i].Account, list[i].Keys))
	}
	return out, nil
}

// ApproveUser implements api.Users.
func (s *Users) ApproveUser(ctx context.Context, req *apipb.ApproveUserRequest) (*apipb.ApproveUserResponse, error) {
	before, err := s.find(ctx, req.GetAddress())
	if err != nil {
		return nil, err
	}
	g := account.Grant{AllowUnknownModels: req.GetAllowUnknownModels(), Band: req.Band, Budget: req.Budget}
	if req.GetModels() != nil {
		g.Models = new(req.GetModels().GetModels())
	}
	if l := req.GetLimits(); l != nil {
		g.Limits = storage.Limits{RequestsPerMinute: l.RequestsPerMinute, TokensPerMinute: l.TokensPerMinute, Concurrency: l.Concurrency}
	}
	if req.Keys != nil {
		g.Keys = new(int(req.GetKeys()))
	}
	if before.State == storage.AccountApproved && req.Models == nil && req.Band == nil && req.Limits == nil && req.Budget == nil && req.Keys == nil {
		return nil, api.Precondition(fmt.Errorf("%s is approved already; to change what they may use say what, such as a budget", before.Address))
	}
	changed, err := s.deps.Accounts.Approve(ctx, before.Address, g, by(req.GetActor()))
	if err != nil {
		return nil, changeError(err)
	}
	out := &apipb.ApproveUserResponse{User: user(&changed.Account, changed.Keys), Warnings: changed.Warnings}
	if changed.Ended > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of their keys were revoked, since nothing is left of the models that those might use", changed.Ended))
	}
	return out, nil
}

// SuspendUser implements api.Users.
func (s *Users) SuspendUser(ctx context.Context, req *apipb.SuspendUserRequest) (*apipb.SuspendUserResponse, error) {
	before, err := s.find(ctx, req.GetAddress())
	if err != nil {
		return nil, err
	}
	changed, err := s.deps.Accounts.Suspend(ctx, before.Address, by(req.GetActor()))
	if err != nil {
		return nil, changeError(err)
	}
	return &apipb.SuspendUserResponse{User: user(&changed.Account, 0)}, nil // none is good for anything
}

// SetUserAdmin implements api.Users.
func (s *Users) SetUserAdmin(ctx context.Context, req *apipb.SetUserAdminRequest) (*apipb.SetUserAdminResponse, error) {
	before, err := s.find(ctx, req.GetAddress())
	if err != nil {
		return nil, err
	}
	if before.Admin == req.GetAdmin() {
		what := "does not have the flag"
		if before.Admin {
			what = "has the flag already"
		}
		return nil, api.Precondition(fmt.Errorf("%s %s", before.Address, what))
	}
	changed, err := s.deps.Accounts.SetAdmin(ctx, before.Address, req.GetAdmin(), by(req.GetActor()))
	if err != nil {
		return nil, changeError(err)
	}
	keys, err := s.keys(ctx, changed.Account.ID)
	if err != nil {
		return nil, changeError(err)
	}
	return &apipb.SetUserAdminResponse{User: user(&changed.Account, keys)}, nil
}

// ResetUser implements api.Users.
func (s *Users) ResetUser(ctx context.Context, req *apipb.ResetUserRequest) (*apipb.ResetUserResponse, error) {
	if s.deps.Pages == nil {
		return nil, api.Precondition(errNoPages)
	}
	before, err := s.find(ctx, req.GetAddress())
	if err != nil {
		return nil, err
	}
	made, err := s.deps.Accounts.Reset(ctx, before.Address, by(req.GetActor()))
	if err != nil {
		return nil, changeError(err)
	}
	url, warnings := s.deps.Pages.link("/reset/", &made)
	if before.State != storage.AccountApproved {
		warnings = append(warnings, fmt.Sprintf("%s is %s, and cannot sign in with the new password either", before.Address, before.State))
	}
	return &apipb.ResetUserResponse{Link: &apipb.Link{Id: made.ID, ExpiresAt: stamp(made.ExpiresAt)}, Url: url, Warnings: warnings}, nil
}

// keys counts an account's keys that are good for something.
func (s *Users) keys(ctx context.Context, id string) (n int, err error) {
	for q := (storage.KeyQuery{Account: id, Usable: s.deps.Now(), Page: page("", 0)}); ; {
		list, next, err := s.deps.Store.ListKeys(ctx, q)
		if n += len(list); err != nil || next == "" {
			return n, err
		}
		q.After = next
	}
}

// find returns the account of an address, or an error with those that may have been
// meant.
func (s *Users) find(ctx context.Context, text string) (storage.Account, error) {
	if err := noSecret(text); err != nil {
		return storage.Account{}, err
	}
	address, err := account.ParseAddress(text)
	if err != nil {
		return storage.Account{}, storeError(err)
	}
	a, err := s.deps.Store.AccountByAddress(ctx, address)
	if !errors.Is(err, storage.ErrNotFound) {
		return a, storeError(err)
	}
	var meant []string
	q := storage.AccountQuery{}
	for looked := 0; looked < mostLooked && len(meant) < 3; {
		list, next, err := s.deps.Store.ListAccounts(ctx, q, s.deps.Now())
		if err != nil {
			break // that there is none is known either way
		}
		for i := range list {
			if have := list[i].Address; resemblesAddress(have, address) && len(meant) < 3 {
				meant = append(meant, have)
			}
		}
		if looked += len(list); next == "" {
			break
		}
		q.After = next
	}
	said := fmt.Sprintf("nobody has signed up with %s; ", address)
	if len(meant) > 0 {
		said += "did you mean " + strings.Join(meant, " or ") + "?"
	} else {
		said += "llmgw users list shows who has"
	}
	return a, api.NotFound(errors.New(said))
}

// resemblesAddress reports whether an address may have been meant by another one: with
// the same name at another domain, or with up to two other characters.
func resemblesAddress(have, meant string) bool {
	local, _, _ := strings.Cut(have, "@")
	other, _, _ := strings.Cut(meant, "@")
	if local == other {
		return true
	}
	if len(have) != len(meant) {
		return false
	}
	wrong := 0
	for i := range len(have) {
		if have[i] != meant[i] {
			wrong++
		}
	}
	return wrong <= 2
}

// user is what may be shown of an account. The protocol's states have the numbers of
// the store's; a test says so.
func user(a *storage.Account, keys int) *apipb.User {
	allowed := &a.Allowance
	out := &apipb.User{
		Id: a.ID, Address: a.Address, State: apipb.UserState(a.State), Admin: a.Admin, Keys: uint32(max(keys, 0)), //nolint:gosec // at most 10000
		CreatedAt: stamp(a.CreatedAt), ApprovedAt: stamp(a.ApprovedAt), SignedInAt: stamp(a.SignedInAt), Revision: a.Revision,
		Allowance: &apipb.UserAllowance{
			Models: allowed.Models, Band: allowed.Band, Keys: uint32(max(allowed.Keys, 0)), //nolint:gosec // at most 10000
			Limits: &apipb.KeyLimits{
				RequestsPerMinute: allowed.Limits.RequestsPerMinute, TokensPerMinute: allowed.Limits.TokensPerMinute, Concurrency: allowed.Limits.Concurrency,
			},
		},
	}
	if allowed.Budget != nil {
		out.Allowance.Budget = new(auth.FormatBudget(*allowed.Budget))
	}
	return out
}
