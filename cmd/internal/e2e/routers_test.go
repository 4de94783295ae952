package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// follower starts a router of its own process, which has its models and engines
// the control planes that follow says, alone.
func (w *world) follower(name, follow string) *router {
	w.t.Helper()
	at := fmt.Sprintf("127.0.0.1:%d", freePort(w.t))
	r := &router{client: "http://" + at, program: w.program(name, binary(w.t, "llmgw"), "server", "--role", "router", "-c", w.write(name+".yaml", fmt.Sprintf(`
listen: %s
admin_listen: 127.0.0.1:0
log: {format: json}
shutdown: {grace: 0s, drain: 1s}
auth: {enabled: false}
follow: {reconnect: {delay: 50ms, max_delay: 300ms, refused_max_delay: 2s}, %s}
`, at, follow)))}
	r.start()
	r.serving(w.t)
	return r
}

// serves waits until a router answers, by whatever it knows.
func (r *router) serves(t *testing.T, model, when string) {
	t.Helper()
	eventually(t, func() string {
		if err := stream(t.Context(), http.DefaultClient, r.client, model, 5, nil); err != nil {
			return fmt.Sprintf("%s: %s: %v", r.name, when, err)
		}
		return ""
	})
}

const routedModel = `
models:
  - {name: small, source: sim/small, profile: {engine: sim, tensor_parallel: 1}, scaling: {min: 1, max: 1}}
`

// A router that knows nothing but where its control plane is serves what the
// control plane has placed; and goes on while that is dead, also after a start of its
// own, without a failed request. One with another token is let in nowhere.
func TestRouter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token, wrong := w.write("token", "token-of-the-routers-here\n"), w.write("wrong", "another-token-of-routers")
	s := w.server(routedModel + "routers: {token_file: " + token + "}\n")
	w.node(nodeOptions{id: "a1", servers: []string{"http://" + s.agents}, cards: 1, slim: true}).start()
	follow := func(name, token string) *router {
		return w.follower(name, fmt.Sprintf("servers: [\"http://%s\"], name: %s, file: %s, token_file: %s",
			s.agents, name, filepath.Join(w.dir, name+".feed"), token))
	}
	r := follow("edge-1", token)
	stranger := follow("edge-2", wrong)
	r.serves(t, "small", "at first")
	until(t, "the stranger is refused", func() bool { return stranger.said("unauthenticated") > 0 })
	if err := stream(t.Context(), http.DefaultClient, stranger.client, "small", 1, nil); err == nil {
		t.Error("a router that was refused serves")
	}

	load := r.traffic(t, "small", 2)
	s.kill(syscall.SIGKILL)
	answered := func(when string) {
		t.Helper()
		for range 20 {
			if err := stream(t.Context(), http.DefaultClient, r.client, "small", 20, nil); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
	}
	answered("without a control plane")
	if whole, failed := load.end(); len(failed) > 0 || whole == 0 {
		t.Errorf("while the control plane was killed: %d whole, failed: %v", whole, failed)
	}

	// The replica's name stands in the copy as it is.
	until(t, "the copy is whole", func() bool { return strings.Contains(text(filepath.Join(w.dir, "edge-1.feed")), "small-") })
	r.kill(syscall.SIGKILL)
	r.start()
	r.serving(t)
	answered("from its copy")

	load = r.traffic(t, "small", 2)
	s.start()
	s.serving(t)
	until(t, "it follows again", func() bool { return r.said(`"msg":"following the feed"`) >= 2 })
	answered("with a control plane again")
	if whole, failed := load.end(); len(failed) > 0 || whole == 0 {
		t.Errorf("while the control plane came back: %d whole, failed: %v", whole, failed)
	}
	r.kill(syscall.SIGTERM)
}

// Where agents prove themselves by certificates, routers do: one with a node's
// certificate does not start.
func TestRouterCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{
		{"init", "prod"},
		{"server", "cp-1", "--host", "127.0.0.1", "--out", "."},
		{"node", "a1", "--out", "."},
		{"router", "edge-1", "--out", "."},
	} {
		if out, err := w.run(append([]string{"ctl", "cert"}, args...)...); err != nil {
			t.Fatalf("llmgw ctl cert %q: %v\n%s", args, err, out)
		}
	}
	files := func(name string) string {
		return fmt.Sprintf("{cert_file: %[1]s/%[2]s.crt, key_file: %[1]s/%[2]s.key, ca_file: %[1]s/ca/ca.crt}", w.dir, name)
	}
	s := w.server(routedModel + "agent_tls: " + files("cp-1"))
	w.node(nodeOptions{id: "a1", servers: []string{"https://" + s.agents}, cards: 1, slim: true, more: "tls: " + files("a1")}).start()
	follow := func(certificate string) string {
		return fmt.Sprintf("servers: [\"https://%s\"], file: \"%s/edge-1.feed\", tls: %s", s.agents, w.dir, files(certificate))
	}
	w.follower("edge-1", follow("edge-1")).serves(t, "small", "with a certificate")

	impostor := w.program("impostor", binary(t, "llmgw"), "server", "--role", "router", "-c", w.write("impostor.yaml",
		"listen: 127.0.0.1:0\nadmin_listen: 127.0.0.1:0\nauth: {enabled: false}\nfollow: {"+follow("a1")+"}\n"))
	impostor.start()
	select {
	case <-impostor.ended:
	case <-t.Context().Done():
		t.Fatal(context.Cause(t.Context()))
	}
	if impostor.said("a1.crt is the certificate of a node") == 0 {
		t.Errorf("it does not say why it does not start:\n%s", impostor.tail())
	}
}
