package server

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/storage"
)

// A key that is changed or revoked by a control plane is so at its routers long before
// they ask the store again.
func TestRouterHearsOfRevokedKeys(t *testing.T) {
	cfg := keyed(t)
	token := filepath.Join(t.TempDir(), "token")
	write(t, token, []byte("a-token-of-routers"))
	cfg.Routers.TokenFile = token
	plane := startWith(t, cfg.WithControlPlane("127.0.0.1:0"), gatewayModule())

	own := cfg
	own.Router, own.Gateway.Models = true, nil
	own.Routers.TokenFile = ""
	own.Follow.Servers, own.Follow.TokenFile, own.Follow.File = []string{"http://" + plane.Agents}, token, ""
	own.Auth.CacheTTL = time.Hour
	router := startWith(t, own, gatewayModule())

	st := opened(t, cfg.Store.DSN)
	id, text := mint(t, st, auth.Spec{})
	url := "http://" + router.Client + "/v1/chat/completions"
	if status, body := ask(t, "POST", url, text); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	eventually(t, "the control plane has its store", func() bool {
		status, _ := ask(t, "GET", "http://"+plane.Client+"/v1/models", text)
		return status == 200
	})
	c, err := api.NewClient(api.ClientConfig{URL: "http://" + plane.Admin})
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"elsewhere/*", "*"} {
		if _, err := c.Keys.UpdateKey(t.Context(), &apipb.UpdateKeyRequest{Id: id, Models: &apipb.KeyModels{Models: []string{pattern}}}); err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"elsewhere/*": 404, "*": 200}[pattern]
		eventually(t, "the router knows the key as it is", func() bool {
			status, _ := ask(t, "POST", url, text)
			return status == want
		})
	}
	// The keys of somebody who is suspended are refused there, and taken again.
	now := time.Now().UTC().Truncate(time.Microsecond)
	ada := storage.Account{ID: "acc_1", Address: "ada@example.org", Password: "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaA", State: storage.AccountPending, CreatedAt: now}
	if err := st.CreateAccount(t.Context(), ada, 10, storage.Audit{ID: "audit_1", At: now, Actor: "test", Action: "account.create", Target: ada.ID}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Users.ApproveUser(t.Context(), &apipb.ApproveUserRequest{Address: ada.Address}); err != nil {
		t.Fatal(err)
	}
	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: st})
	if err != nil {
		t.Fatal(err)
	}
	issued, err := issuer.CreateIn(t.Context(), auth.Spec{}, auth.Custody{Account: ada.ID, Keep: st.CreateKey}, auth.By{Actor: ada.ID})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{200, 401, 200} {
		if want == 401 {
			_, err = c.Users.SuspendUser(t.Context(), &apipb.SuspendUserRequest{Address: ada.Address})
		} else if status, _ := ask(t, "POST", url, issued.Secret.Reveal()); status == 401 {
			_, err = c.Users.ApproveUser(t.Context(), &apipb.ApproveUserRequest{Address: ada.Address})
		}
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the router knows whether the user may", func() bool {
			status, _ := ask(t, "POST", url, issued.Secret.Reveal())
			return status == want
		})
	}
	for path, want := range map[string]int{"/": 200, "/login": 200, "/admin/": 404} {
		if status, _ := get(t, "http://"+router.Client+path); status != want {
			t.Errorf("%s of the router: %d; want %d", path, status, want)
		}
	}
	if _, err := c.Keys.RevokeKey(t.Context(), &apipb.RevokeKeyRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the router refuses the key", func() bool {
		status, _ := ask(t, "POST", url, text)
		return status == 401
	})
}
