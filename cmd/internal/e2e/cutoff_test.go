package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cutOff is two routers that follow one control plane, one of them through a gate,
// and machines on which models change places.
type cutOff struct {
	*world
	server  *server
	gate    *gate
	edge    *router // behind the gate
	routers []*router
	at      map[string]string // the seat of alpha and of beta
	kills   []time.Time       // of edge, by SIGKILL

	whole, short int
}

// everyModel are those of the test. Each engine answers to the names of all of them,
// with the one that it has.
var everyModel = []string{"alpha", "beta", "nomad", "late"}

// wanderer is an entry of a model that runs on some machines, and so often. Its
// engine finishes what it has when it is told to end.
func wanderer(model string, replicas int, nodes ...string) string {
	return fmt.Sprintf("  - name: %s\n    source: sim/%[1]s\n    profile: {engine: sim, tensor_parallel: 1, options: {shutdown_timeout: 10s}}\n"+
		"    placement: {nodes: [%s]}\n    scaling: {min: %d, max: %[3]d}\n", model, strings.Join(nodes, ", "), replicas)
}

func newCutOff(t *testing.T) *cutOff {
	w := newWorld(t)
	w.lostAfter = "4s"
	// A router that cannot be told keeps no engine for longer than the grace, and
	// each engine ends under its requests.
	w.control = "drain_grace: 2s, base_backoff: 300ms, max_backoff: 2s, "
	token := w.write("token", "token-of-the-routers-here\n")
	c := &cutOff{world: w, server: w.server("routers: {token_file: " + token + "}\n"), at: map[string]string{"alpha": "p", "beta": "q"}}
	// One replica of alpha and of beta stays; there is no room beside them. The other
	// machines have a card and a port each.
	for id, ports := range map[string]int{"stays": 2, "p": 1, "q": 1, "u": 1, "v": 1, "w": 1} {
		w.node(nodeOptions{
			id: id, servers: []string{"http://" + c.server.agents}, cards: ports, slim: true, ports: ports, rest: "50ms",
			aliases: everyModel,
		}).start()
	}
	until(t, "models can be added", func() bool { return c.server.said("this control plane leads") > 0 })
	c.add(wanderer("alpha", 1, "stays"), wanderer("beta", 1, "stays"), wanderer("nomad", 1, "u", "v"))
	c.settle("alpha", 1)
	c.settle("beta", 1)
	c.settle("nomad", 1)
	c.take()
	c.gate = newGate(t, c.server.agents)
	follow := func(name, control string) *router {
		return w.follower(name, fmt.Sprintf("servers: [\"http://%s\"], name: %s, file: %s, token_file: %s", control, name, filepath.Join(w.dir, name+".feed"), token))
	}
	c.edge = follow("edge-1", c.gate.address())
	c.routers = []*router{c.edge, follow("edge-2", c.server.agents)}
	return c
}

// add adds or replaces models.
func (c *cutOff) add(entries ...string) {
	c.t.Helper()
	c.ctl(c.server, "model", "add", "--replace", "-f", c.write("models.yaml", "models:\n"+strings.Join(entries, "")))
}

// settle waits until a model has so many replicas, all ready, and nothing else is
// left of it: for as long as the kernel keeps a port after its connections were closed,
// and then some.
func (c *cutOff) settle(model string, replicas int) {
	c.t.Helper()
	eventuallyIn(c.t, 2*patience, func() string {
		rows, _ := c.rows(c.server, model)
		if len(rows) == replicas && len(c.inState(c.server, model, "READY")) == replicas {
			return ""
		}
		return fmt.Sprintf("%s has not %d replicas that are ready, but %+v", model, replicas, rows)
	})
}

// take has alpha and beta take the seats that are theirs.
func (c *cutOff) take() {
	c.t.Helper()
	c.add(wanderer("alpha", 2, "stays", c.at["alpha"]), wanderer("beta", 2, "stays", c.at["beta"]))
	c.settle("alpha", 2)
	c.settle("beta", 2)
}

// addresses are those of alpha's and beta's replicas on the seats.
func (c *cutOff) addresses() map[string]string {
	c.t.Helper()
	at := map[string]string{}
	for model, seat := range c.at {
		for _, r := range c.inState(c.server, model, "READY") {
			if r.nodes()[0] == seat {
				at[model] = r.Address
			}
		}
	}
	return at
}

// leave has alpha and beta leave the seats, and no other place.
func (c *cutOff) leave() {
	c.t.Helper()
	for _, seat := range c.at {
		c.ctl(c.server, "drain", seat)
	}
	c.add(wanderer("alpha", 1, "stays"), wanderer("beta", 1, "stays"))
	c.settle("alpha", 1)
	c.settle("beta", 1)
	for _, seat := range c.at {
		c.ctl(c.server, "uncordon", seat)
	}
}

// swap has alpha and beta take places that they have left, each where the other was
// before, at its very address.
func (c *cutOff) swap(before map[string]string) {
	c.t.Helper()
	c.at["alpha"], c.at["beta"] = c.at["beta"], c.at["alpha"]
	c.take()
	if after := c.addresses(); after["alpha"] == "" || after["alpha"] != before["beta"] || after["beta"] != before["alpha"] {
		c.t.Fatalf("alpha and beta are at %v; they were at %v, and should each be where the other was", after, before)
	}
}

// move has nomad move to another machine, and returns at which address it was.
func (c *cutOff) move() string {
	c.t.Helper()
	was := c.inState(c.server, "nomad", "READY")[0]
	c.ctl(c.server, "drain", was.nodes()[0])
	until(c.t, "nomad has moved", func() bool {
		rows, known := c.rows(c.server, "nomad")
		return known && len(rows) == 1 && rows[0].ID != was.ID && rows[0].State == "REPLICA_STATE_READY"
	})
	return was.Address
}

// squat has an engine of a model listen at an address, as one that was placed there
// would: the control plane could not have it there for a minute, until the kernel has
// forgotten the connections of the engine before. It has a secret of its own, and
// answers to every model's name.
func (c *cutOff) squat(model, address string) *program {
	c.t.Helper()
	args := []string{binary(c.t, "llmgw"), "sim", "serve", "--listen", address, "--model=" + model}
	for _, other := range everyModel {
		if other != model {
			args = append(args, "--alias="+other)
		}
	}
	p := c.program("squatter-"+model, args...)
	p.env = append(p.env, "LLMGW_SIM_API_KEY=another-secret")
	p.start()
	until(c.t, p.name+" listens", func() bool {
		resp, err := http.Get("http://" + address + "/health") //nolint:noctx // it answers or is not there
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return true
	})
	return p
}

// kill kills the router behind the gate.
func (c *cutOff) kill() {
	c.kills = append(c.kills, time.Now())
	c.edge.kill(syscall.SIGKILL)
}

// through begins traffic of clients that go to the other router where one does not
// answer, or has no replica.
func (c *cutOff) through(clients int, models ...string) *traffic {
	return trafficOf(c.t, clients, func(ctx context.Context, h *http.Client, n int) result {
		return through(ctx, h, c.routers, n, models[n/len(c.routers)%len(models)], 20)
	})
}

// ended ends traffic, none of which may have failed; but answers that a router was
// giving when it was killed end with it.
func (c *cutOff) ended(what string, load *traffic) {
	c.t.Helper()
	whole, failed := load.end()
	c.whole += whole
	for _, err := range failed {
		r, _ := errors.AsType[*result](err)
		if r.router == c.edge && r.tokens > 0 && errors.Is(err, errCut) && slices.ContainsFunc(c.kills, func(at time.Time) bool { return r.begun.Before(at) && !r.ended.Before(at) }) {
			c.short++
			continue
		}
		c.t.Errorf("%s: %v", what, err)
	}
	if whole == 0 {
		c.t.Errorf("%s: nothing was answered", what)
	}
}

// A router in a process of its own is cut off from its control plane, and killed and
// started anew from its copy. Meanwhile the replicas at addresses that it knows have
// moved, and engines of other models listen there, which answer to any model's name. The
// router serves what it knows and still runs, without a failed request and without an
// answer of another model. Of what has moved it says that it has it not; clients have it
// of a second router. When it is reconnected it has all of it. Of clients that have two
// routers none fails while these are ended one after the other, and of one that is killed
// those answers alone are cut that it was giving.
//
// With LLMGW_TEST_KILLS two models then change places by the control plane's hand,
// while the router runs and has requests at both, and with LLMGW_TEST_CUT, such as 10m,
// for as long.
func TestCutOff(t *testing.T) {
	t.Parallel()
	c := newCutOff(t)
	for _, r := range c.routers {
		for _, model := range []string{"alpha", "beta", "nomad"} {
			r.serves(t, model, "at first")
		}
	}
	known := c.addresses()
	until(t, "the copy is whole", func() bool { return c.copied("alpha", 2) && c.copied("beta", 2) && c.copied("nomad", 1) })
	all := c.through(4, "alpha", "beta", "nomad")
	all.more(t, 20)

	c.gate.cut()
	cut := time.Now()
	c.kill()
	c.leave()
	squatters := []*program{c.squat("late", c.move()), c.squat("beta", known["alpha"]), c.squat("alpha", known["beta"])}
	c.add(wanderer("late", 1, "w"))
	c.settle("late", 1)
	c.edge.start()
	admin := c.edge.serving(t)["admin_listen"]
	direct := map[string]*traffic{"alpha": c.edge.traffic(t, "alpha", 2), "beta": c.edge.traffic(t, "beta", 2)}
	for _, load := range direct {
		load.more(t, 50)
	}
	if n := c.edge.metric(t, admin, "llmgw_router_retries_total"); n == 0 {
		t.Error("the router that was cut off came to no engine of another model; the test shows nothing")
	}
	for range 10 {
		r := streamed(t.Context(), http.DefaultClient, c.edge.client, "nomad", 5, nil)
		if r.status != http.StatusServiceUnavailable || errors.Is(r.err, errWrongModel) {
			t.Errorf("of a model of which it knows no replica that runs the router says %d: %v", r.status, r.err)
		}
	}
	for _, p := range squatters {
		p.kill(syscall.SIGTERM)
	}
	swaps, lasts := 0, setting(t, "LLMGW_TEST_CUT", 0)
	for long := os.Getenv("LLMGW_TEST_KILLS") != "" || lasts > 0; long && swaps == 0 || time.Since(cut) < lasts; swaps++ {
		if swaps > 0 {
			known = c.addresses()
			c.leave()
		}
		c.swap(known)
		for _, load := range direct {
			load.more(t, 50)
		}
	}
	lasted := time.Since(cut)
	if c.edge.metric(t, admin, "llmgw_feed_connected") != 0 || c.edge.metric(t, admin, "llmgw_feed_unverified") != 1 {
		t.Error("the router was not cut off")
	}
	c.gate.join()
	until(t, "the router follows again", func() bool { return c.edge.metric(t, admin, "llmgw_feed_connected") == 1 })
	c.edge.serves(t, "nomad", "reconnected")
	c.edge.serves(t, "late", "reconnected")
	for model, load := range direct {
		c.ended(model+" of the router that was cut off", load)
	}

	for _, r := range c.routers {
		r.kill(syscall.SIGTERM)
		all.more(t, 20)
		r.start()
		r.serving(t)
		r.serves(t, "nomad", "started anew")
	}
	c.kill()
	all.more(t, 20)
	c.ended("of two routers", all)
	if c.short > 4*len(c.kills) {
		t.Errorf("%d answers were cut by the death of a router, of which each of 4 clients had one at most", c.short)
	}
	t.Logf("cut off for %v; models changed places %d times; %d answers whole, %d cut by the death of their router, none of a wrong model, none failed",
		lasted.Round(time.Second), swaps, c.whole, c.short)
}

// copied reports whether all of a model's replicas are in the copy of the router
// behind the gate, in which their names stand as they are.
func (c *cutOff) copied(model string, replicas int) bool {
	file := text(filepath.Join(c.dir, "edge-1.feed"))
	rows := c.inState(c.server, model, "READY")
	return len(rows) == replicas && !slices.ContainsFunc(rows, func(r replica) bool { return !strings.Contains(file, r.ID) })
}
