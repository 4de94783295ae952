package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Users shows the people who sign in on the pages, lets them in and keeps them out.
// Its methods answer as UserService's of that name, with errors as those of [Keys].
type Users interface {
	ListUsers(ctx context.Context, req *apipb.ListUsersRequest) (*apipb.ListUsersResponse, error)
	ApproveUser(ctx context.Context, req *apipb.ApproveUserRequest) (*apipb.ApproveUserResponse, error)
	SuspendUser(ctx context.Context, req *apipb.SuspendUserRequest) (*apipb.SuspendUserResponse, error)
	SetUserAdmin(ctx context.Context, req *apipb.SetUserAdminRequest) (*apipb.SetUserAdminResponse, error)
	ResetUser(ctx context.Context, req *apipb.ResetUserRequest) (*apipb.ResetUserResponse, error)
}

// maxAddressBytes bounds an e-mail address, as RFC 5321 does.
const maxAddressBytes = 254

var errNoUsers = errors.New("this server knows no users: auth.enabled is false in its configuration")

// users is UserService.
type users struct{ *service }

// goodAddress refuses what can be nobody's address. Whose it is says the store.
func goodAddress(address string) error {
	switch {
	case address == "":
		return errors.New("address is empty; want what the user signed up with, such as ada@example.org")
	case len(address) > maxAddressBytes || !utf8.ValidString(address) || strings.ContainsFunc(address, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("address is none; want at most %d bytes of printable text, such as ada@example.org", maxAddressBytes)
	}
	return nil
}

func goodUserState(s apipb.UserState) error {
	if _, known := apipb.UserState_name[int32(s)]; !known {
		return fmt.Errorf("state: %d; want USER_STATE_PENDING, USER_STATE_APPROVED or USER_STATE_SUSPENDED, or leave it out for any", s)
	}
	return nil
}

// ListUsers implements apipb.UserServiceHandler.
func (s users) ListUsers(ctx context.Context, req *apipb.ListUsersRequest) (*apipb.ListUsersResponse, error) {
	return checked(ctx, s.service, "ListUsers", missing(s.deps.Users != nil, errNoUsers), req,
		func(ctx context.Context, req *apipb.ListUsersRequest) (*apipb.ListUsersResponse, error) {
			return s.deps.Users.ListUsers(ctx, req)
		}, goodUserState(req.GetState()), goodPage(req.GetPageToken(), req.GetPageSize()))
}

// ApproveUser implements apipb.UserServiceHandler.
func (s users) ApproveUser(ctx context.Context, req *apipb.ApproveUserRequest) (*apipb.ApproveUserResponse, error) {
	return checked(ctx, s.service, "ApproveUser", missing(s.deps.Users != nil, errNoUsers), req,
		func(ctx context.Context, req *apipb.ApproveUserRequest) (*apipb.ApproveUserResponse, error) {
			return s.deps.Users.ApproveUser(ctx, req)
		}, goodAddress(req.GetAddress()), goodActor(req.GetActor()))
}

// SuspendUser implements apipb.UserServiceHandler.
func (s users) SuspendUser(ctx context.Context, req *apipb.SuspendUserRequest) (*apipb.SuspendUserResponse, error) {
	return checked(ctx, s.service, "SuspendUser", missing(s.deps.Users != nil, errNoUsers), req,
		func(ctx context.Context, req *apipb.SuspendUserRequest) (*apipb.SuspendUserResponse, error) {
			return s.deps.Users.SuspendUser(ctx, req)
		}, goodAddress(req.GetAddress()), goodActor(req.GetActor()))
}

// SetUserAdmin implements apipb.UserServiceHandler.
func (s users) SetUserAdmin(ctx context.Context, req *apipb.SetUserAdminRequest) (*apipb.SetUserAdminResponse, error) {
	return checked(ctx, s.service, "SetUserAdmin", missing(s.deps.Users != nil, errNoUsers), req,
		func(ctx context.Context, req *apipb.SetUserAdminRequest) (*apipb.SetUserAdminResponse, error) {
			return s.deps.Users.SetUserAdmin(ctx, req)
		}, goodAddress(req.GetAddress()), goodActor(req.GetActor()))
}

// ResetUser implements apipb.UserServiceHandler.
func (s users) ResetUser(ctx context.Context, req *apipb.ResetUserRequest) (*apipb.ResetUserResponse, error) {
	return checked(ctx, s.service, "ResetUser", missing(s.deps.Users != nil, errNoUsers), req,
		func(ctx context.Context, req *apipb.ResetUserRequest) (*apipb.ResetUserResponse, error) {
			return s.deps.Users.ResetUser(ctx, req)
		}, goodAddress(req.GetAddress()), goodActor(req.GetActor()))
}
