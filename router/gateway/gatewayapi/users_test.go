package gatewayapi_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/sqlite"
)

// signUp keeps a pending account.
func signUp(t *testing.T, st *sqlite.Store, id, address string) {
	t.Helper()
	a := storage.Account{ID: id, Address: address, Password: "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA", State: storage.AccountPending, CreatedAt: start}
	if err := st.CreateAccount(t.Context(), a, 10, storage.Audit{ID: "audit_" + id, At: start, Actor: "test", Action: "account.create", Target: id}); err != nil {
		t.Fatal(err)
	}
}

// keyOf makes a key of an approved account, as the pages do.
func keyOf(t *testing.T, st *sqlite.Store, of string) string {
	t.Helper()
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: st, Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	issued, err := issuer.CreateIn(t.Context(), auth.Spec{}, auth.Custody{Account: of, Keep: st.CreateKey}, auth.By{Actor: of})
	if err != nil {
		t.Fatal(err)
	}
	return issued.Key.ID
}

// A user's whole life as operators see it.
func TestUsers(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	var heard told
	k := newKeys(t, parts{Store: st, Bands: []string{"gold"}, Told: &heard})
	signUp(t, st, "acc_1", "ada@example.org")
	signUp(t, st, "acc_2", "bob@example.org")
	pending, err := k.ListUsers(ctx, &apipb.ListUsersRequest{State: apipb.UserState_USER_STATE_PENDING, PageSize: 1})
	if err != nil || len(pending.GetUsers()) != 1 || pending.GetUsers()[0].GetAddress() != "ada@example.org" || pending.GetNextPageToken() == "" {
		t.Fatalf("%v, %v", pending, err)
	}

	approved, err := k.ApproveUser(ctx, &apipb.ApproveUserRequest{
		Address: " Ada@Example.org", Band: new("gold"), Limits: &apipb.KeyLimits{RequestsPerMinute: new(int64(60))}, Budget: new("1.50/day"), Actor: "cli:root@host",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &apipb.User{
		Id: "acc_1", Address: "ada@example.org", State: apipb.UserState_USER_STATE_APPROVED, CreatedAt: timestamppb.New(start), ApprovedAt: timestamppb.New(start), Revision: 2,
		Allowance: &apipb.UserAllowance{Band: "gold", Limits: &apipb.KeyLimits{RequestsPerMinute: new(int64(60))}, Budget: new("1.50/day"), Keys: 10},
	}
	if diff := cmp.Diff(want, approved.GetUser(), protocmp.Transform()); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
	if _, err := k.ApproveUser(ctx, &apipb.ApproveUserRequest{Address: "ada@example.org"}); !errors.Is(err, api.ErrPrecondition) || !strings.Contains(err.Error(), "is approved already") {
		t.Errorf("approved twice: %v", err)
	}

	// What is not said stays, and keys are changed with their account.
	id := keyOf(t, st, "acc_1")
	again, err := k.ApproveUser(ctx, &apipb.ApproveUserRequest{Address: "ada@example.org", Band: new(""), Limits: &apipb.KeyLimits{Concurrency: new(int64(4))}, Keys: new(uint32(2))})
	if err != nil {
		t.Fatal(err)
	}
	want.Allowance.Band, want.Allowance.Limits.Concurrency, want.Allowance.Keys, want.Keys, want.Revision = "", new(int64(4)), 2, 1, 3
	if diff := cmp.Diff(want, again.GetUser(), protocmp.Transform()); diff != "" {
		t.Errorf("approved again (-want +got):\n%s", diff)
	}
	key, err := k.GetKey(ctx, &apipb.GetKeyRequest{Id: id})
	if err != nil || key.GetKey().GetAccount() != "acc_1" || key.GetKey().GetLineage() != "acc_1" || key.GetKey().GetBudget() != "1.50/day" || key.GetKey().GetLimits().GetConcurrency() != 4 {
		t.Errorf("its key: %v, %v", key, err)
	}

	heard.forgotten = nil
	if _, err := k.SuspendUser(ctx, &apipb.SuspendUserRequest{Address: "ada@example.org"}); err != nil {
		t.Fatal(err)
	}
	key, err = k.GetKey(ctx, &apipb.GetKeyRequest{Id: id})
	if err != nil || key.GetKey().GetState() != apipb.KeyState_KEY_STATE_SUSPENDED || !slices.Contains(heard.forgotten, id) || len(heard.revoked) > 0 {
		t.Errorf("its key while it is suspended: %v, %v; told %v", key, err, heard)
	}
	suspended, err := k.SuspendUser(ctx, &apipb.SuspendUserRequest{Address: "ada@example.org"})
	if err != nil || suspended.GetUser().GetState() != apipb.UserState_USER_STATE_SUSPENDED {
		t.Errorf("suspended twice: %v, %v", suspended, err)
	}
	back, err := k.ApproveUser(ctx, &apipb.ApproveUserRequest{Address: "ada@example.org"})
	if err != nil || back.GetUser().GetState() != apipb.UserState_USER_STATE_APPROVED || back.GetUser().GetKeys() != 1 || back.GetUser().GetAllowance().GetKeys() != 2 {
		t.Errorf("let in again: %v, %v", back, err)
	}

	admin, err := k.SetUserAdmin(ctx, &apipb.SetUserAdminRequest{Address: "ada@example.org", Admin: true})
	if err != nil || !admin.GetUser().GetAdmin() || admin.GetUser().GetKeys() != 1 {
		t.Errorf("admin: %v, %v", admin, err)
	}
	for may, want := range map[bool]string{true: "has the flag already", false: ""} {
		_, err := k.SetUserAdmin(ctx, &apipb.SetUserAdminRequest{Address: "ada@example.org", Admin: may})
		if errors.Is(err, api.ErrPrecondition) != (want != "") || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("admin %t: %v", may, err)
		}
		if may {
			continue
		}
		if _, err := k.SetUserAdmin(ctx, &apipb.SetUserAdminRequest{Address: "ada@example.org"}); !errors.Is(err, api.ErrPrecondition) {
			t.Errorf("no admin twice: %v", err)
		}
		if _, err := k.SetUserAdmin(ctx, &apipb.SetUserAdminRequest{Address: "ada@example.org", Admin: true}); err != nil {
			t.Error(err)
		}
	}
}

func TestUnknownUsers(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	k := newKeys(t, parts{Store: st})
	signUp(t, st, "acc_1", "ada@example.org")
	for address, want := range map[string]string{
		"ada@example.com":    "nobody has signed up with ada@example.com; did you mean ada@example.org?",
		"adb@exmaple.org":    "nobody has signed up with adb@exmaple.org; llmgw users list shows who has",
		"ida@example.org":    "did you mean ada@example.org?",
		"zoe@nowhere.net":    "llmgw users list shows who has",
		"ada":                "address: is not an e-mail address; want one such as ada@example.org",
		"llmgw_" + "x@y.org": "begins like a key itself",
	} {
		_, suspend := k.SuspendUser(ctx, &apipb.SuspendUserRequest{Address: address})
		_, approve := k.ApproveUser(ctx, &apipb.ApproveUserRequest{Address: address})
		_, admin := k.SetUserAdmin(ctx, &apipb.SetUserAdminRequest{Address: address})
		for _, err := range []error{suspend, approve, admin} {
			if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, api.ErrNotFound) && !errors.Is(err, api.ErrInvalid) {
				t.Errorf("%s: %v; want %q", address, err, want)
			}
		}
	}
	if _, err := k.ApproveUser(ctx, &apipb.ApproveUserRequest{
		Address: "ada@example.org", Limits: &apipb.KeyLimits{RequestsPerMinute: new(int64(-1))}, Budget: new("1/year"), Keys: new(uint32(10_001)),
	}); !errors.Is(err, api.ErrInvalid) || strings.Count(err.Error(), ";") < 2 {
		t.Errorf("a bad allowance: %v", err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.SuspendUser(ctx, &apipb.SuspendUserRequest{Address: "ada@example.org"}); !errors.Is(err, api.ErrUnavailable) {
		t.Errorf("without its store: %v", err)
	}
}

// A link is made, opened once, taken back, and refused where nobody could open it.
func TestLinks(t *testing.T) {
	st, ctx := openStore(t), t.Context()
	known := true
	pages := &gatewayapi.Pages{URL: func() (string, bool) { return "https://llm.example", known }}
	k := newKeys(t, parts{Store: st, Pages: pages})
	signUp(t, st, "acc_1", "ada@example.org")
	req := &apipb.CreateKeyLinkRequest{Key: &apipb.CreateKeyRequest{Name: "ci", Expires: "90d"}, Life: durationpb.New(time.Hour)}
	made, err := k.CreateKeyLink(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	token, ok := strings.CutPrefix(made.GetUrl(), "https://llm.example/link/")
	if !ok || len(token) != 43 || len(made.GetWarnings()) > 0 || !made.GetLink().GetExpiresAt().AsTime().Equal(start.Add(time.Hour)) || !strings.HasPrefix(made.GetLink().GetId(), "link_") {
		t.Errorf("%v", made)
	}
	back, err := k.RevokeKeyLink(ctx, &apipb.RevokeKeyLinkRequest{Id: made.GetLink().GetId()})
	if err != nil || !back.GetLink().GetUsedAt().AsTime().Equal(start) || back.GetLink().GetKeyId() != "" {
		t.Errorf("%v, %v", back, err)
	}
	if _, err := k.RevokeKeyLink(ctx, &apipb.RevokeKeyLinkRequest{Id: "link_none"}); !errors.Is(err, api.ErrNotFound) || !strings.Contains(err.Error(), `there is no link "link_none"`) {
		t.Errorf("one that there is not: %v", err)
	}

	known = false
	reset, err := k.ResetUser(ctx, &apipb.ResetUserRequest{Address: "ada@example.org"})
	if err != nil || !strings.HasPrefix(reset.GetUrl(), "https://llm.example/reset/") || !reset.GetLink().GetExpiresAt().AsTime().Equal(start.Add(account.DefaultConfig().LinkLife)) {
		t.Fatalf("%v, %v", reset, err)
	}
	if w := strings.Join(reset.GetWarnings(), "\n"); !strings.Contains(w, "portal.public_url is not set") || !strings.Contains(w, "ada@example.org is pending") {
		t.Errorf("warnings %q", w)
	}
	bad := proto.CloneOf(req)
	bad.Key.Budget, bad.Life = "1/year", durationpb.New(time.Second)
	if _, err := k.CreateKeyLink(ctx, bad); !errors.Is(err, api.ErrInvalid) {
		t.Errorf("a key that cannot be: %v", err)
	}

	closed := newKeys(t, parts{Store: st})
	_, link := closed.CreateKeyLink(ctx, req)
	_, password := closed.ResetUser(ctx, &apipb.ResetUserRequest{Address: "ada@example.org"})
	for _, err := range []error{link, password} {
		if !errors.Is(err, api.ErrPrecondition) || !strings.Contains(err.Error(), "portal.enabled is false") {
			t.Errorf("without pages: %v", err)
		}
	}
}

// The protocol's states have the store's numbers.
func TestUserStates(t *testing.T) {
	for mine, theirs := range map[apipb.UserState]storage.AccountState{
		apipb.UserState_USER_STATE_PENDING: storage.AccountPending, apipb.UserState_USER_STATE_APPROVED: storage.AccountApproved,
		apipb.UserState_USER_STATE_SUSPENDED: storage.AccountSuspended,
	} {
		if int(mine) != int(theirs) || !strings.EqualFold(mine.String(), "user_state_"+theirs.String()) {
			t.Errorf("%v is %v", mine, theirs)
		}
	}
}
