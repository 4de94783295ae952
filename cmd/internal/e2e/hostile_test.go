package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

// What machines and people do to agents is survived, and said where it is seen.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := &hostile{w, w.plane()}
	t.Run("two machines with one id", h.twins)
	t.Run("state that is cut off", h.cutOff)
	t.Run("state of another boot", h.otherBoot)
	t.Run("a driver that hangs", h.wedged)
	if namespaces() {
		t.Run("a disk that is full", h.full)
	}
}

type hostile struct {
	*world
	p *plane
}

// begin makes the helpers fail the running test, and starts an agent.
func (h *hostile) begin(t *testing.T, o nodeOptions) *node {
	t.Helper()
	h.t, h.p.t = t, t
	o.servers = []string{"http://" + h.p.agents}
	n := h.node(o)
	n.start()
	return n
}

func (h *hostile) ready(n *node, replica string, generation uint64) engines.ShardStatus {
	h.t.Helper()
	wish := spec(replica, generation)
	h.p.done(order{Node: n.id, Start: &wish})
	return h.p.awaitShard(n.id, replica, generation, engines.ShardReady)
}

// The first keeps its place, and the second is told what to do; when the first is
// gone, the second takes over.
func (h *hostile) twins(t *testing.T) {
	first := h.begin(t, nodeOptions{id: "twin"})
	was := h.p.awaitNode("twin", "connected", func(v view) bool { return v.Connected })
	second := h.begin(t, nodeOptions{id: "twin", state: filepath.Join(h.dir, "twin2.state")})
	until(t, "the second is told", func() bool {
		return second.said("refuses this node", "already_exists", "another agent has the node's id", "give one of them another id") > 0
	})
	until(t, "the control plane says so", func() bool { return h.p.said("agent refused", "node=twin", "reason=clash") > 0 })
	if now, _ := h.p.node("twin"); now.Instance != was.Instance || !now.Connected {
		t.Errorf("the first is %+v; it was %+v", now, was)
	}
	first.kill(syscall.SIGKILL)
	h.p.awaitNode("twin", "the second", func(v view) bool { return v.Connected && v.Instance != was.Instance })
	second.kill(syscall.SIGTERM)
}

// What was ordered is known from the shards' directories: engines are adopted, what
// is older stays barred, and it is shown that something was lost.
func (h *hostile) cutOff(t *testing.T) {
	n := h.begin(t, nodeOptions{id: "cut"})
	was := h.ready(n, "m", 3)
	n.kill(syscall.SIGKILL)
	for _, name := range []string{"state", "state.previous"} {
		path := filepath.Join(n.state, name)
		if err := os.Truncate(path, int64(len(text(path))/2)); err != nil {
			t.Fatal(err)
		}
	}
	n.start()
	shown := h.p.awaitNode("cut", "connected with what it lost", func(v view) bool {
		return v.Connected && v.shard("m", 3).State == engines.ShardReady && problem(v, "state", "checksum") != ""
	})
	if now := shown.shard("m", 3); now.PID != was.PID || now.Start != was.Start {
		t.Errorf("the engine is %+v; it was %+v", now, was)
	}
	older := spec("m", 2)
	if out := h.p.order(order{Node: "cut", Start: &older}); !strings.Contains(out.Err, "it has heard of generation 3") {
		t.Errorf("an older generation: %+v", out)
	}
	h.p.done(order{Node: "cut", Stop: &control.Stop{Shard: was.ID, Generation: 3}})
	h.p.awaitShard("cut", "m", 3, engines.ShardStopped)
	if got := n.started(t); len(got) != 1 {
		t.Errorf("engines were started %d times: %v", len(got), got)
	}
	n.kill(syscall.SIGTERM)
}

// problem returns what a node says of a part of itself, if it has the text.
func problem(v view, part, text string) string {
	for _, p := range v.Reading.Problems {
		if p.Part == part && strings.Contains(p.Problem, text) {
			return p.Problem
		}
	}
	return ""
}

// After a restart of the machine nothing of what is recorded runs, and whoever has
// the numbers of its processes now is left alone.
func (h *hostile) otherBoot(t *testing.T) {
	n := h.begin(t, nodeOptions{id: "rebooted"})
	was := h.ready(n, "m", 1)
	n.kill(syscall.SIGKILL)
	if err := syscall.Kill(was.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	bystander := h.program("bystander", "/bin/sleep", "600")
	bystander.start()
	record := filepath.Join(n.state, "shards", "m.0", "run", "shard.json")
	boot := regexp.MustCompile(regexp.QuoteMeta(h.boot(t)))
	pid := regexp.MustCompile(fmt.Sprintf(`("pid": *)%d\b`, was.PID))
	for _, path := range []string{record, filepath.Join(n.state, "state")} {
		changed := boot.ReplaceAllString(text(path), "11111111-2222-3333-4444-555555555555")
		if changed == text(path) {
			t.Fatalf("%s names no boot: %s", path, changed)
		}
		changed = pid.ReplaceAllString(changed, fmt.Sprintf("${1}%d", bystander.cmd.Process.Pid))
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n.start()
	s := h.p.awaitShard("rebooted", "m", 1, engines.ShardFailed)
	if s.PID != 0 || !strings.Contains(s.Reason, "the machine was started anew") {
		t.Errorf("the shard is %+v", s)
	}
	h.p.done(order{Node: "rebooted", Stop: &control.Stop{Shard: s.ID, Generation: 1}})
	h.ready(n, "m", 2)
	if err := bystander.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process of somebody else's was ended: %v", err)
	}
	n.kill(syscall.SIGTERM)
}

// boot is the machine's, as its kernel names it.
func (h *hostile) boot(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(text("/proc/sys/kernel/random/boot_id"))
}

// A node whose nvidia-smi never answers registers, lives, says so and serves.
func (h *hostile) wedged(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{Hostname: "wedged"})
	if err := os.RemoveAll(filepath.Join(m.Root, "commands", "nvidia-smi")); err != nil {
		t.Fatal(err)
	}
	m.Script("nvidia-smi", "exec sleep 600")
	n := h.begin(t, nodeOptions{id: "wedged", root: m.Root})
	h.p.awaitNode("wedged", "connected, saying so", func(v view) bool { return v.Connected && wedgedProblem(v) != "" })
	s := h.ready(n, "m", 1)
	if err := stream(t.Context(), http.DefaultClient, "http://"+s.Address, "m", 20, nil); err != nil {
		t.Error(err)
	}
	began := time.Now()
	n.kill(syscall.SIGTERM)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the agent took %v to end", took)
	}
}

func wedgedProblem(v view) string {
	for _, p := range v.Reading.Problems {
		if strings.Contains(p.Part+p.Problem, "nvidia-smi") {
			return p.Problem
		}
	}
	return ""
}

// On a full disk nothing new is done, and it is said why; what runs runs on, and
// when there is room again the same order is done.
func (h *hostile) full(t *testing.T) {
	disk := filepath.Join(h.dir, "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	n := h.begin(t, nodeOptions{
		id: "full", state: filepath.Join(disk, "state"),
		wrap: []string{"unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=256k tmpfs " + disk + ` && exec "$@"`, "sh"},
	})
	was := h.ready(n, "m", 1)
	// The disk is the agent's alone; it is reached through it.
	filler := fmt.Sprintf("/proc/%d/root%s/filler", n.cmd.Process.Pid, disk)
	f, err := os.Create(filler) //nolint:gosec // the test's own
	if err != nil {
		t.Fatal(err)
	}
	for size := 4096; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	_ = f.Close()
	wish := spec("m-2", 1)
	var out outcome
	if err := h.p.ask("/order", order{Node: "full", Start: &wish}, &out); err != nil || !out.Again || !strings.Contains(out.Err, "no space left") {
		t.Errorf("an order on a full disk: %+v, %v", out, err)
	}
	h.p.awaitNode("full", "connected, saying that its disk is full", func(v view) bool {
		return v.Connected && problem(v, "state", "no space left") != "" && v.shard("m", 1).State == engines.ShardReady
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	h.ready(n, "m-2", 1)
	now := h.p.awaitNode("full", "well again", func(v view) bool { return v.Connected && problem(v, "state", "") == "" }).shard("m", 1)
	if now.PID != was.PID || now.State != engines.ShardReady {
		t.Errorf("the engine is %+v; it was %+v", now, was)
	}
}
