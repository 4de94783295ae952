package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Two models that can sleep and one card: each is put to sleep when nobody uses it and
// gives its card to the other, also while the agent is killed and comes back; the
// first request for one that sleeps wakes the process that it was and is served. A load
// takes much longer than to wake, also where the agent has just been started: one that
// is as quick to load is not put to sleep.
func TestModelsThatSleep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lostAfter = "4s, residence: 0s"
	const model = "  - {name: %s, source: sim/%[1]s, profile: {engine: sim, sleep: true, options: {load_time: 4s, wake_time: 200ms}}, scaling: {max: 1, idle_timeout: 1s}}\n"
	s := w.server("on_demand: {wait: 10s}\nmodels:\n" + fmt.Sprintf(model, "a") + fmt.Sprintf(model, "b"))
	url := "http://" + s.serving(t)["listen"]
	n := w.node(nodeOptions{id: "n1", servers: []string{"http://" + s.agents}, cards: 1, slim: true})
	n.start()
	until(t, "the node is there", func() bool { return strings.Contains(w.ctl(s, "nodes"), "n1") })
	engines := func() (pids []int) {
		for _, st := range n.started(t) {
			pids = append(pids, st.pid)
		}
		return pids
	}
	sleeps := func(model string) {
		t.Helper()
		until(t, model+" sleeps", func() bool { return len(w.shards(s, model, "sleeping")) == 1 })
	}
	askUntil(t, url, "a")
	first := engines()
	if len(first) != 1 {
		t.Fatalf("engines %v were started", first)
	}
	sleeps("a")
	askUntil(t, url, "b")
	sleeps("b")
	both := engines()
	if len(both) != 2 || both[0] != first[0] {
		t.Fatalf("engines %v were started; want %v and one more", both, first)
	}
	n.kill(syscall.SIGKILL)
	n.start()
	for _, model := range []string{"a", "b"} {
		askUntil(t, url, model)
		sleeps(model)
	}
	if now := engines(); !slices.Equal(now, both) {
		t.Errorf("engines %v were started; want %v: one that sleeps is woken", now, both)
	}
	var running []int
	for _, model := range []string{"a", "b"} {
		for id := range w.shards(s, model, "sleeping") {
			running = append(running, n.running(t, id)...)
		}
	}
	for _, pid := range both {
		if !slices.Contains(running, pid) {
			t.Errorf("process %d is gone; %v run", pid, running)
		}
	}
}
