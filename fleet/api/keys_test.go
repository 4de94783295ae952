package api_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

const secret = "llmgw_canary"

// keeper answers every call, or fails each in the same way.
type keeper struct{ err error }

func (k keeper) CreateKey(_ context.Context, req *apipb.CreateKeyRequest) (*apipb.CreateKeyResponse, error) {
	return &apipb.CreateKeyResponse{Key: &apipb.Key{Id: "key_1", Name: req.GetName(), Limits: req.GetLimits()}, Secret: secret}, k.err
}

func (k keeper) ListKeys(context.Context, *apipb.ListKeysRequest) (*apipb.ListKeysResponse, error) {
	return &apipb.ListKeysResponse{}, k.err
}

func (k keeper) GetKey(_ context.Context, req *apipb.GetKeyRequest) (*apipb.GetKeyResponse, error) {
	return &apipb.GetKeyResponse{Key: &apipb.Key{Id: req.GetId()}}, k.err
}

func (k keeper) UpdateKey(context.Context, *apipb.UpdateKeyRequest) (*apipb.UpdateKeyResponse, error) {
	return &apipb.UpdateKeyResponse{}, k.err
}

func (k keeper) RevokeKey(context.Context, *apipb.RevokeKeyRequest) (*apipb.RevokeKeyResponse, error) {
	return &apipb.RevokeKeyResponse{}, k.err
}

func (k keeper) RotateKey(context.Context, *apipb.RotateKeyRequest) (*apipb.RotateKeyResponse, error) {
	return &apipb.RotateKeyResponse{Secret: secret}, k.err
}

func (k keeper) CreateKeyLink(context.Context, *apipb.CreateKeyLinkRequest) (*apipb.CreateKeyLinkResponse, error) {
	return &apipb.CreateKeyLinkResponse{Url: "https://llm.example/link/" + secret}, k.err
}

func (k keeper) RevokeKeyLink(context.Context, *apipb.RevokeKeyLinkRequest) (*apipb.RevokeKeyLinkResponse, error) {
	return &apipb.RevokeKeyLinkResponse{}, k.err
}

func (k keeper) DescribeStore(context.Context, *apipb.DescribeStoreRequest) (*apipb.DescribeStoreResponse, error) {
	return &apipb.DescribeStoreResponse{Dsn: "sqlite:/x"}, k.err
}

func (k keeper) GetLimits(context.Context, *apipb.GetLimitsRequest) (*apipb.GetLimitsResponse, error) {
	return &apipb.GetLimitsResponse{}, k.err
}

func (k keeper) ListUsage(context.Context, *apipb.ListUsageRequest) (*apipb.ListUsageResponse, error) {
	return &apipb.ListUsageResponse{}, k.err
}

func (k keeper) ListUsageSums(context.Context, *apipb.ListUsageSumsRequest) (*apipb.ListUsageSumsResponse, error) {
	return &apipb.ListUsageSumsResponse{}, k.err
}

func (k keeper) ListUsers(context.Context, *apipb.ListUsersRequest) (*apipb.ListUsersResponse, error) {
	return &apipb.ListUsersResponse{}, k.err
}

func (k keeper) ApproveUser(context.Context, *apipb.ApproveUserRequest) (*apipb.ApproveUserResponse, error) {
	return &apipb.ApproveUserResponse{}, k.err
}

func (k keeper) SuspendUser(context.Context, *apipb.SuspendUserRequest) (*apipb.SuspendUserResponse, error) {
	return &apipb.SuspendUserResponse{}, k.err
}

func (k keeper) SetUserAdmin(context.Context, *apipb.SetUserAdminRequest) (*apipb.SetUserAdminResponse, error) {
	return &apipb.SetUserAdminResponse{}, k.err
}

func (k keeper) ResetUser(context.Context, *apipb.ResetUserRequest) (*apipb.ResetUserResponse, error) {
	return &apipb.ResetUserResponse{Url: "https://llm.example/reset/" + secret}, k.err
}

// calls are all calls of the services about keys and users, each with a request that is
// good.
func calls(ctx context.Context, c *api.Client) map[string]func() error {
	ask := func(_ any, err error) error { return err }
	day, who := apipb.UsageGrain_USAGE_GRAIN_DAY, "ada@example.org"
	return map[string]func() error{
		"CreateKey":     func() error { return ask(c.Keys.CreateKey(ctx, &apipb.CreateKeyRequest{Name: "n"})) },
		"ListKeys":      func() error { return ask(c.Keys.ListKeys(ctx, &apipb.ListKeysRequest{})) },
		"GetKey":        func() error { return ask(c.Keys.GetKey(ctx, &apipb.GetKeyRequest{Id: "key_1"})) },
		"UpdateKey":     func() error { return ask(c.Keys.UpdateKey(ctx, &apipb.UpdateKeyRequest{Id: "key_1"})) },
		"RevokeKey":     func() error { return ask(c.Keys.RevokeKey(ctx, &apipb.RevokeKeyRequest{Id: "key_1"})) },
		"RotateKey":     func() error { return ask(c.Keys.RotateKey(ctx, &apipb.RotateKeyRequest{Id: "key_1"})) },
		"DescribeStore": func() error { return ask(c.Keys.DescribeStore(ctx, &apipb.DescribeStoreRequest{})) },
		"CreateKeyLink": func() error {
			return ask(c.Keys.CreateKeyLink(ctx, &apipb.CreateKeyLinkRequest{Key: &apipb.CreateKeyRequest{}, Life: durationpb.New(time.Hour)}))
		},
		"RevokeKeyLink": func() error { return ask(c.Keys.RevokeKeyLink(ctx, &apipb.RevokeKeyLinkRequest{Id: "link_1"})) },
		"ListUsers": func() error {
			return ask(c.Users.ListUsers(ctx, &apipb.ListUsersRequest{State: apipb.UserState_USER_STATE_PENDING}))
		},
		"ApproveUser": func() error { return ask(c.Users.ApproveUser(ctx, &apipb.ApproveUserRequest{Address: who})) },
		"SuspendUser": func() error { return ask(c.Users.SuspendUser(ctx, &apipb.SuspendUserRequest{Address: who})) },
		"SetUserAdmin": func() error {
			return ask(c.Users.SetUserAdmin(ctx, &apipb.SetUserAdminRequest{Address: who, Admin: true}))
		},
		"ResetUser":     func() error { return ask(c.Users.ResetUser(ctx, &apipb.ResetUserRequest{Address: who})) },
		"GetLimits":     func() error { return ask(c.Limits.GetLimits(ctx, &apipb.GetLimitsRequest{KeyId: "key_1"})) },
		"ListUsage":     func() error { return ask(c.Usage.ListUsage(ctx, &apipb.ListUsageRequest{})) },
		"ListUsageSums": func() error { return ask(c.Usage.ListUsageSums(ctx, &apipb.ListUsageSumsRequest{Grain: day})) },
	}
}

func client(t *testing.T, deps api.Deps) *api.Client {
	t.Helper()
	c, err := api.NewClient(api.ClientConfig{URL: serve(t, deps)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every call answers as its interface does, with its errors by their class, and
// says what is missing where there is none.
func TestServicesOfKeys(t *testing.T) {
	for name, tt := range map[string]struct {
		there bool
		err   error
		code  connect.Code
		text  string // in the error
	}{
		"answered":     {there: true},
		"none":         {code: connect.CodeFailedPrecondition, text: "auth.enabled is false"},
		"invalid":      {there: true, err: api.Invalid(errors.New("name: no")), code: connect.CodeInvalidArgument, text: "name: no"},
		"not found":    {there: true, err: api.NotFound(errors.New("did you mean")), code: connect.CodeNotFound, text: "did you mean"},
		"precondition": {there: true, err: api.Precondition(errors.New("revoked")), code: connect.CodeFailedPrecondition, text: "revoked"},
		"away":         {there: true, err: api.Unavailable(errors.New("the store")), code: connect.CodeUnavailable, text: "the store"},
		"fault":        {there: true, err: errors.New("10.1.2.3 broke"), code: connect.CodeInternal, text: "a fault of the server"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			deps := api.Deps{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			if tt.there {
				deps.Keys, deps.Limits, deps.Usage, deps.Users = keeper{tt.err}, keeper{tt.err}, keeper{tt.err}, keeper{tt.err}
			}
			for call, do := range calls(t.Context(), client(t, deps)) {
				err := do()
				if tt.code == 0 && err == nil {
					continue
				}
				if connect.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "10.1.2.3") {
					t.Errorf("%s: %v; want %v with %q", call, err, tt.code, tt.text)
				}
			}
			if logged := strings.Contains(log.String(), "10.1.2.3"); logged != (tt.code == connect.CodeInternal) || strings.Contains(log.String(), secret) {
				t.Errorf("logged %q", log.String())
			}
		})
	}
}

func TestBadCallsOfKeys(t *testing.T) {
	deps := api.Deps{Keys: keeper{}, Limits: keeper{}, Usage: keeper{}, Users: keeper{}}
	c, ctx := client(t, deps), t.Context()
	ask := func(_ any, err error) error { return err }
	long := strings.Repeat("x", 2000)
	nested := &apipb.CreateKeyRequest{Limits: &apipb.KeyLimits{}}
	nested.Limits.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 999, protowire.VarintType), 1))
	for name, tt := range map[string]struct {
		err  error
		want string
	}{
		"no ID":                {ask(c.Keys.GetKey(ctx, &apipb.GetKeyRequest{})), "id is empty; want the ID of a key"},
		"an ID with space":     {ask(c.Keys.RevokeKey(ctx, &apipb.RevokeKeyRequest{Id: "a b"})), "id is no ID"},
		"a long ID":            {ask(c.Limits.GetLimits(ctx, &apipb.GetLimitsRequest{KeyId: long})), "key_id is no ID"},
		"a long actor":         {ask(c.Keys.CreateKey(ctx, &apipb.CreateKeyRequest{Actor: long})), "actor: want at most"},
		"a page":               {ask(c.Keys.ListKeys(ctx, &apipb.ListKeysRequest{PageSize: 501})), "page_size: 501; want at most 500"},
		"a token":              {ask(c.Usage.ListUsage(ctx, &apipb.ListUsageRequest{PageToken: long})), "page_token"},
		"an overlap":           {ask(c.Keys.RotateKey(ctx, &apipb.RotateKeyRequest{Id: "k", Overlap: &durationpb.Duration{Seconds: 1 << 50}})), "overlap"},
		"no grain":             {ask(c.Usage.ListUsageSums(ctx, &apipb.ListUsageSumsRequest{})), "USAGE_GRAIN_HOUR or USAGE_GRAIN_DAY"},
		"another filter":       {ask(c.Usage.ListUsage(ctx, &apipb.ListUsageRequest{Filter: &apipb.UsageFilter{Lineage: long}})), "filter.lineage"},
		"a filter":             {ask(c.Usage.ListUsageSums(ctx, &apipb.ListUsageSumsRequest{Grain: 1, Filter: &apipb.UsageFilter{Owner: long}})), "filter.owner"},
		"no key of a link":     {ask(c.Keys.CreateKeyLink(ctx, &apipb.CreateKeyLinkRequest{})), "key is absent; want"},
		"a link's actor":       {ask(c.Keys.CreateKeyLink(ctx, &apipb.CreateKeyLinkRequest{Key: &apipb.CreateKeyRequest{Actor: long}})), "actor: want at most"},
		"a link without life":  {ask(c.Keys.CreateKeyLink(ctx, &apipb.CreateKeyLinkRequest{Key: &apipb.CreateKeyRequest{}, Life: durationpb.New(0)})), "life: 0s; want 1s to 30 days"},
		"a link for ever":      {ask(c.Keys.CreateKeyLink(ctx, &apipb.CreateKeyLinkRequest{Key: &apipb.CreateKeyRequest{}, Life: durationpb.New(31 * 24 * time.Hour)})), "life: 744h0m0s; want 1s to 30 days"},
		"a life of nonsense":   {ask(c.Keys.CreateKeyLink(ctx, &apipb.CreateKeyLinkRequest{Key: &apipb.CreateKeyRequest{}, Life: &durationpb.Duration{Nanos: -1, Seconds: 1}})), "life: "},
		"a key's ID as link's": {ask(c.Keys.RevokeKeyLink(ctx, &apipb.RevokeKeyLinkRequest{Id: "key_1"})), "id is no ID of a link; want such as link_"},
		"no address":           {ask(c.Users.SuspendUser(ctx, &apipb.SuspendUserRequest{})), "address is empty; want"},
		"a long address":       {ask(c.Users.SetUserAdmin(ctx, &apipb.SetUserAdminRequest{Address: long})), "address is none; want at most 254 bytes"},
		"an address's newline": {ask(c.Users.ApproveUser(ctx, &apipb.ApproveUserRequest{Address: "a@b.c\nx"})), "address is none"},
		"a state":              {ask(c.Users.ListUsers(ctx, &apipb.ListUsersRequest{State: 9})), "state: 9; want USER_STATE_PENDING"},
		"a page of users":      {ask(c.Users.ListUsers(ctx, &apipb.ListUsersRequest{PageSize: 501})), "page_size: 501; want at most 500"},
		"a user's actor":       {ask(c.Users.ResetUser(ctx, &apipb.ResetUserRequest{Address: "a@b.c", Actor: long})), "actor: want at most"},
		"a newer client":       {ask(c.Keys.CreateKey(ctx, nested)), "KeyLimits has a field that this server does not know"},
	} {
		if connect.CodeOf(tt.err) != connect.CodeInvalidArgument || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", name, tt.err, tt.want)
		}
	}
}

// curl creates a key, and is told of a field that there is not.
func TestCreateKeyInJSON(t *testing.T) {
	url := serve(t, api.Deps{Keys: keeper{}}) + apipb.KeyServiceCreateKeyProcedure
	for body, want := range map[string]string{
		`{"name":"ci","limits":{"requests_per_minute":"60"}}`: `"secret":"` + secret + `"`,
		`{"name":"ci","rpm":60}`:                              `unknown field \"rpm\"`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, err = text.ReadFrom(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.ReplaceAll(text.String(), ": ", ":"), want) && !strings.Contains(text.String(), want) {
			t.Errorf("%s: %s; want %s", body, &text, want)
		}
	}
}

// Go's protobuf prints a marked field as any other, and the API prints no message;
// tools that redact go by the mark.
func TestSecretIsMarked(t *testing.T) {
	for m, field := range map[proto.Message]protoreflect.Name{
		&apipb.CreateKeyResponse{}: "secret", &apipb.RotateKeyResponse{}: "secret", &apipb.CreateKeyLinkResponse{}: "url", &apipb.ResetUserResponse{}: "url",
	} {
		f := m.ProtoReflect().Descriptor().Fields().ByName(field)
		if o, ok := f.Options().(*descriptorpb.FieldOptions); !ok || !o.GetDebugRedact() {
			t.Errorf("%s is not marked debug_redact", f.FullName())
		}
	}
}
