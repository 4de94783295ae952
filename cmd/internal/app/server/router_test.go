package server

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
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

	id, text := mint(t, opened(t, cfg.Store.DSN), auth.Spec{})
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
	if _, err := c.Keys.RevokeKey(t.Context(), &apipb.RevokeKeyRequest{Id: id}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the router refuses the key", func() bool {
		status, _ := ask(t, "POST", url, text)
		return status == 401
	})
}
