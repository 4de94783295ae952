package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// server is `llmgw server` as the control plane that users run.
type server struct {
	*program
	agents, admin string // host:port
	dir           string
}

// server starts a server that agents dial, with further keys of server.yaml.
func (w *world) server(more string) *server {
	w.t.Helper()
	s := &server{
		agents: fmt.Sprintf("127.0.0.1:%d", freePort(w.t)), admin: fmt.Sprintf("127.0.0.1:%d", freePort(w.t)), dir: w.dir,
	}
	s.program = w.program("server", binary(w.t, "llmgw"), "server", "-c", w.write("server.yaml", fmt.Sprintf(`
listen: 127.0.0.1:0
agent_listen: %s
admin_listen: %s
log: {format: json}
auth: {enabled: false}
store: {dsn: "sqlite:%s/server.db"}
shutdown: {grace: 0s, drain: 1s}
control: {%sheartbeat: 200ms, unreachable_after: 2s, lost_after: %s, tick: 200ms, journal_interval: 200ms, interval: %s}
%s`, s.agents, s.admin, w.dir, w.control, cmp.Or(w.lostAfter, "60s"), cmp.Or(w.interval, "500ms"), more)))
	s.start()
	s.serving(w.t)
	return s
}

// run runs llmgw in the world's directory and returns what it prints.
func (w *world) run(args ...string) (string, error) {
	w.t.Helper()
	cmd := exec.Command(binary(w.t, "llmgw"), args...) //nolint:gosec,noctx // it asks and returns
	cmd.Dir = w.dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ctl runs a verb of llmgw ctl against the server.
func (w *world) ctl(s *server, args ...string) string {
	w.t.Helper()
	out, err := w.run(append([]string{"ctl"}, append(args, "--admin", "http://"+s.admin)...)...)
	if err != nil {
		w.t.Errorf("llmgw ctl %q: %v\n%s", args, err, out)
	}
	return out
}

// shows waits until `llmgw ctl nodes` shows the node so.
func (w *world) shows(s *server, node, pattern string) {
	w.t.Helper()
	want := regexp.MustCompile(pattern)
	eventually(w.t, func() string {
		out, err := w.run("ctl", "nodes", node, "--admin", "http://"+s.admin)
		if err == nil && want.MatchString(out) {
			return ""
		}
		return fmt.Sprintf("llmgw ctl nodes %s does not show %q: %v\n%s", node, pattern, err, out)
	})
}

// A server and agents prove themselves by certificates that llmgw ctl cert made. A
// node with another's certificate is refused, and so is one of another authority:
// both sides say so in one line with what is claimed and what is proven, the pauses
// of who is refused grow, and the others are not concerned. Operators see the
// nodes and take them out by llmgw ctl, and all of it outlives the server.
func TestServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{
		{"init", "prod"},
		{"server", "cp-1", "--host", "127.0.0.1", "--out", "."},
		{"node", "gpu-1", "--out", "."},
		{"node", "gpu-2", "--out", "."},
		{"init", "prod", "--ca", "elsewhere"},
		{"node", "gpu-3", "--ca", "elsewhere", "--out", "."},
	} {
		if out, err := w.run(append([]string{"ctl", "cert"}, args...)...); err != nil {
			t.Fatalf("llmgw ctl cert %q: %v\n%s", args, err, out)
		}
	}
	file := func(name string) string { return filepath.Join(w.dir, name) }
	s := w.server(fmt.Sprintf("agent_tls: {cert_file: %s, key_file: %s, ca_file: %s}", file("cp-1.crt"), file("cp-1.key"), file("ca/ca.crt")))
	agent := func(id, certificate string) *node {
		n := w.node(nodeOptions{id: id, servers: []string{"https://" + s.agents}, cards: 1, more: fmt.Sprintf(
			"log: {level: debug}\ntls: {cert_file: %s, key_file: %s, ca_file: %s}\n", file(certificate+".crt"), file(certificate+".key"), file("ca/ca.crt"))})
		n.start()
		return n
	}
	agent("gpu-1", "gpu-1")
	agent("gpu-2", "gpu-2")
	impostor := agent("gpu-4", "gpu-1")
	stranger := agent("gpu-3", "gpu-3")
	w.shows(s, "gpu-1", `(?m)^state +ready`)
	w.shows(s, "gpu-2", `(?m)^state +ready`)

	refused := []string{"refuses this node", "claimed_node=gpu-4", `certificate="node gpu-1 of cluster prod`, "permission_denied"}
	until(t, "the impostor was refused four times", func() bool { return impostor.said(refused...) >= 4 })
	if n := impostor.said(append([]string{"level=ERROR"}, refused...)...); n != 1 {
		t.Errorf("the impostor's log says it in %d lines; want 1, and the rest for those who debug", n)
	}
	if s.said(`"msg":"agent refused"`, `"node":"gpu-4"`, `\"gpu-1\"`, `"reason":"identity"`) == 0 {
		t.Errorf("the server does not say who was refused:\n%s", s.tail())
	}
	barred := []string{"refuses this node", "claimed_node=gpu-3", `certificate="node gpu-3 of cluster prod`, "unknown certificate authority"}
	until(t, "the stranger was refused four times", func() bool { return stranger.said(barred...) >= 4 })
	if n := stranger.said(append([]string{"level=ERROR"}, barred...)...); n != 1 {
		t.Errorf("the stranger's log says it in %d lines; want 1", n)
	}
	for _, n := range []*node{impostor, stranger} {
		for i, pause := range pauses(t, n, "refuses this node") {
			// Each is drawn from the upper half of a bound that doubles, up to 2s.
			if least := min(25*time.Millisecond<<i, time.Second) - time.Millisecond; pause < least || pause > 2*time.Second {
				t.Errorf("%s: pause %d is %v; want %v or more, and at most 2s", n.id, i, pause, least)
			}
		}
	}
	until(t, "the server's log says so, too", func() bool { return s.said(`"level":"WARN"`, "certificate signed by unknown authority") > 0 })
	nodes := w.ctl(s, "nodes")
	if strings.Contains(nodes, "gpu-3") || strings.Contains(nodes, "gpu-4") {
		t.Errorf("who was refused is shown as a node:\n%s", nodes)
	}

	w.ctl(s, "cordon", "gpu-1", "--reason", "a fan is loud")
	w.ctl(s, "drain", "gpu-2")
	w.shows(s, "gpu-1", `(?m)^target +cordoned.*a fan is loud`)
	w.shows(s, "gpu-2", `(?m)^target +drained`)
	s.kill(syscall.SIGKILL)
	s.start()
	s.serving(t)
	w.shows(s, "gpu-1", `(?m)^state +ready(.|\n)*^target +cordoned.*a fan is loud`)
	w.shows(s, "gpu-2", `(?m)^state +ready(.|\n)*^target +drained`)
	w.ctl(s, "uncordon", "gpu-1")
	w.shows(s, "gpu-1", `(?m)^target +active`)
	s.kill(syscall.SIGTERM)
}

// pauses are those that an agent told in lines with a text, in order.
func pauses(t *testing.T, n *node, with string) []time.Duration {
	t.Helper()
	var out []time.Duration
	for line := range strings.Lines(text(n.log)) {
		if !strings.Contains(line, with) {
			continue
		}
		_, after, _ := strings.Cut(line, "again_in=")
		d, err := time.ParseDuration(strings.TrimSpace(after))
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		out = append(out, d)
	}
	return out
}

// A node whose clock is ten minutes off is taken as any other, and shown for what
// it is.
func TestClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.server("")
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	ctx, cancel := context.WithCancel(t.Context())
	client := fleetpb.NewAgentServiceClient(&http.Client{Transport: transport}, "http://"+s.agents)
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(cancel)
	ahead := func() *timestamppb.Timestamp { return timestamppb.New(time.Now().Add(10 * time.Minute)) }
	register := func() error {
		stream, err := client.Connect(ctx)
		if err != nil {
			return err
		}
		err = stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: &fleetpb.Hello{
			ProtocolLeast: 1, ProtocolMost: 1, Node: "early", Instance: "a", Run: "b", Address: "10.0.0.1", PortFirst: 20000, PortLast: 20999, At: ahead(),
		}}})
		if err == nil {
			_, err = stream.Receive()
		}
		if err == nil {
			err = stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: &fleetpb.Heartbeat{Sequence: 1, At: ahead()}}})
		}
		return err
	}
	eventually(t, func() string {
		if err := register(); err != nil {
			return err.Error()
		}
		return ""
	})
	w.shows(s, "early", `its clock is 10m0s ahead of this one's; set it by NTP`)
}
