package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// entry is a model of one replica as `llmgw ctl model add` takes it.
func entry(model string, maxRunning int) string {
	return fmt.Sprintf("name: %s\nsource: sim/%[1]s\nprofile: {engine: sim, tensor_parallel: 1, max_running: %d}\nscaling: {min: 1, max: 1}\n", model, maxRunning)
}

// What is added, changed and removed by llmgw ctl takes effect at once, though nothing
// is looked at but at a change: a model is placed, rolled under load, and ended when the
// streams that it has are whole, while new requests are told that there is no such
// model. All of it outlives a server that is killed, and no other model's requests
// fail.
func TestCatalog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.interval = "10m"
	token := w.write("token", "token-of-the-routers-here\n")
	s := w.server("routers: {token_file: " + token + "}\n")
	n := w.node(nodeOptions{id: "c1", servers: []string{"http://" + s.agents}, cards: 4, slim: true})
	n.start()
	r := w.follower("edge-1", fmt.Sprintf("servers: [\"http://%s\"], name: edge-1, file: %s, token_file: %s", s.agents, filepath.Join(w.dir, "edge-1.feed"), token))
	add := func(model string, maxRunning int) {
		t.Helper()
		w.ctl(s, "model", "add", "--replace", "-f", w.write(model+".yaml", entry(model, maxRunning)))
	}
	w.shows(s, "c1", `(?m)^state +ready`)
	begun := time.Now()
	add("comes", 8)
	r.serves(t, "comes", "added")
	placed := time.Since(begun)
	add("stays", 8)
	r.serves(t, "stays", "added")

	stays, comes := r.traffic(t, "stays", 1), r.traffic(t, "comes", 2)
	was := w.inState(s, "comes", "READY")[0]
	add("comes", 9)
	until(t, "another one has taken its place", func() bool {
		rows, known := w.rows(s, "comes")
		return known && len(rows) == 1 && rows[0].ID != was.ID && rows[0].State == "REPLICA_STATE_READY"
	})
	comes.more(t, 10)
	if whole, failed := comes.end(); len(failed) > 0 {
		t.Errorf("while its profile was rolled %d streams were whole; failed: %v", whole, failed)
	}

	const long = 400 // tokens, some seconds
	under := make(chan result, 4)
	for range cap(under) {
		first := make(chan struct{})
		go func() {
			under <- streamed(t.Context(), http.DefaultClient, r.client, "comes", long, func() { close(first) })
		}()
		<-first
	}
	w.ctl(s, "model", "remove", "comes")
	until(t, "the model is not known any more", func() bool {
		one := streamed(t.Context(), http.DefaultClient, r.client, "comes", 1, nil)
		if one.err != nil && (one.status != http.StatusNotFound || !strings.Contains(one.err.Error(), "model_not_found")) {
			t.Fatalf("a request for a model that is removed: %v", one.err)
		}
		return one.err != nil
	})
	if len(under) > 0 {
		t.Error("a stream was over before the model was gone; the test shows nothing")
	}
	for range cap(under) {
		if one := <-under; one.err != nil {
			t.Errorf("a stream that was under way: %v", one.err)
		}
	}
	until(t, "nothing of it is left", func() bool { rows, known := w.rows(s, "comes"); return known && len(rows) == 0 })
	if running := n.engines(t); len(running) != 1 {
		t.Errorf("engines %v run; want that of the model that stays", running)
	}

	started := len(n.started(t))
	s.kill(syscall.SIGKILL)
	s.start()
	s.serving(t)
	until(t, "the model that stays is ready", func() bool { return len(w.inState(s, "stays", "READY")) == 1 })
	stays.more(t, 10)
	if whole, failed := stays.end(); len(failed) > 0 {
		t.Errorf("of the model that stays %d streams were whole; failed: %v", whole, failed)
	}
	names := strings.Fields(w.ctl(s, "model", "list"))
	if !slices.Contains(names, "stays") || slices.Contains(names, "comes") {
		t.Errorf("after a restart the models are %q", names)
	}
	if one := streamed(t.Context(), http.DefaultClient, r.client, "comes", 1, nil); one.status != http.StatusNotFound {
		t.Errorf("after a restart a model that was removed answers %d: %v", one.status, one.err)
	}
	if n := len(n.started(t)); n != started || started != 3 {
		t.Errorf("%d engines were started, %d after a restart; want 3 and none", started, n-started)
	}
	t.Logf("a model that was added answered after %v", placed.Round(time.Millisecond))
}
