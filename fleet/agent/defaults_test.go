package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/agent"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// wired is hardware with interfaces, of which it tells the preferred one's address.
type wired struct {
	still
	addresses map[string]string // by interface
}

func (w wired) Advertise(_ context.Context, preferred string) (agent.Advertised, error) {
	if address, ok := w.addresses[preferred]; ok {
		return agent.Advertised{Address: address, Interface: preferred}, nil
	}
	out := agent.Advertised{Address: "127.0.0.1", Interface: "lo"}
	if preferred != "" {
		out.Instead = fmt.Sprintf("there is no interface %q", preferred)
	}
	return out, nil
}

// says makes a plane's welcomes say what holds where a node's configuration says
// nothing.
func says(netInterface string, first, last int) func(*fleetpb.Welcome) {
	return func(w *fleetpb.Welcome) {
		w.MgmtInterface, w.PortRange = &netInterface, &fleetpb.PortRange{First: uint32(first), Last: uint32(last)}
	}
}

// moved waits until the node said that it is reached so.
func (p *plane) moved(t *testing.T, address string, first, last int) {
	t.Helper()
	want := reach(address, first, last)
	p.until(t, "it is reached at "+want, func() bool {
		return len(p.moves) > 0 && reachOf(p.moves[len(p.moves)-1]) == want
	})
}

func reach(address string, first, last int) string {
	return fmt.Sprintf("%s %d-%d", address, first, last)
}

func reachOf(r *fleetpb.Reach) string {
	return reach(r.GetAddress(), int(r.GetPorts().GetFirst()), int(r.GetPorts().GetLast()))
}

// helloOf is how a Hello says that the node is reached.
func helloOf(h *fleetpb.Hello) string {
	return reach(h.GetAddress(), int(h.GetPortFirst()), int(h.GetPortLast()))
}

// open is a configuration that leaves address and ports open, and a range for it that
// no other test uses.
func open(t *testing.T, p *plane) (cfg agent.Config, first, last int) {
	t.Helper()
	cfg = testConfig(t, p.url)
	first, last = cfg.Ports.First, cfg.Ports.Last
	cfg.Address, cfg.Ports = "", agent.DefaultConfig().Ports
	return cfg, first, last
}

// serves starts a shard and returns its status once it serves.
func serves(t *testing.T, p *plane, replica string) engines.ShardStatus {
	t.Helper()
	wish := spec(replica, 1)
	p.order(t, start(wish))
	return p.reaches(t, wish.ID, 1, engines.ShardReady)
}

// What a node's configuration leaves open, the control plane says, also while shards
// run: they stay where they are, and who comes then goes by what was said last. An
// agent that starts anew goes by it before it has heard anybody.
func TestControlPlaneSaysWhatIsLeftOpen(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg, first, last := open(t, p)
	half := first + portsPerTest/2
	deps := testDeps(t)
	deps.Hardware = wired{addresses: map[string]string{"one": "127.0.0.2", "two": "127.0.0.3"}}
	p.also = says("one", first, half-1)
	n := run(t, cfg, deps)
	p.moved(t, "127.0.0.2", first, half-1)
	if got := helloOf(p.hello(0)); got != reach("127.0.0.1", 20000, 20999) {
		t.Errorf("before it heard anything: %s", got)
	}
	old := serves(t, p, "m-1")
	if want := net.JoinHostPort("127.0.0.2", fmt.Sprint(old.Ports[engines.PortHTTP])); old.Address != want || old.Ports[engines.PortHTTP] < first || old.Ports[engines.PortHTTP] >= half {
		t.Errorf("the first: %+v", old)
	}

	p.change(func() { p.also = says("two", half, last) })
	p.end()
	p.moved(t, "127.0.0.3", half, last)
	young := serves(t, p, "m-2")
	if want := net.JoinHostPort("127.0.0.3", fmt.Sprint(young.Ports[engines.PortHTTP])); young.Address != want || young.Ports[engines.PortHTTP] < half || young.Ports[engines.PortHTTP] > last {
		t.Errorf("the second: %+v", young)
	}
	n.stop(t)

	p.change(func() { p.also = nil }) // a control plane of an older version
	count := len(p.hellos)
	run(t, n.cfg, n.deps)
	p.until(t, "it registers again", func() bool { return len(p.hellos) == count+1 && p.current != nil })
	h := p.hello(-1)
	if got := helloOf(h); got != reach("127.0.0.3", half, last) {
		t.Errorf("before it heard anybody: %s", got)
	}
	var at []string
	for _, s := range h.GetShards() {
		at = append(at, s.GetAddress())
	}
	if want := []string{old.Address, young.Address}; !slices.Equal(at, want) {
		t.Errorf("what runs is at %q; want %q", at, want)
	}
	third := serves(t, p, "m-3")
	if port := third.Ports[engines.PortHTTP]; !strings.HasPrefix(third.Address, "127.0.0.3:") || port < half || port > last {
		t.Errorf("the third: %+v", third)
	}
}

// What a node's configuration says counts, whatever the control plane says; of a range
// of which one end is written, the other is no control plane's either.
func TestWrittenConfigurationCounts(t *testing.T) {
	t.Parallel()
	for _, ports := range []agent.Ports{{First: 24000, Last: 24001}, {First: 20500}, {Last: 20600}} {
		p := newPlane(t)
		p.also, p.heartbeat = says("one", 30000, 30999), 50*time.Millisecond
		cfg := testConfig(t, p.url) // which has an address
		cfg.Ports = ports
		deps := testDeps(t)
		deps.Hardware = wired{addresses: map[string]string{"one": "127.0.0.2"}}
		n := run(t, cfg, deps)
		p.until(t, "heartbeats", func() bool { return len(p.beats) > 1 })
		want := reach("127.0.0.1", max(ports.First, 20000), ports.Last)
		if ports.Last == 0 {
			want = reach("127.0.0.1", ports.First, 20999)
		}
		p.change(func() {
			if len(p.moves) > 0 || helloOf(p.hellos[0]) != want {
				t.Errorf("%+v: %s, and then %v; want %s", ports, helloOf(p.hellos[0]), p.moves, want)
			}
		})
		n.stop(t)
	}
}

// A node that lacks the interface that the control plane names tells another address,
// and says so for as long as that is so.
func TestInterfaceOfTheControlPlaneIsAbsent(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	cfg, first, last := open(t, p)
	p.also = says("ib9", first, last)
	deps := testDeps(t)
	deps.Hardware = wired{}
	run(t, cfg, deps)
	p.until(t, "it says so", func() bool {
		return len(p.beats) > 0 && slices.ContainsFunc(p.beats[len(p.beats)-1].GetState().GetProblems(), func(w *fleetpb.Warning) bool {
			return w.GetPart() == "network" && strings.Contains(w.GetProblem(), `"ib9"`) && strings.Contains(w.GetAdvice(), "mgmt_interface")
		})
	})
	if s := serves(t, p, "m-1"); !strings.HasPrefix(s.Address, "127.0.0.1:") {
		t.Errorf("%+v", s)
	}
	p.change(func() { p.also = says("", first, last) }) // nothing is said; what was said holds
	p.end()
	p.until(t, "another stream", func() bool { return p.streams == 2 && p.current != nil })
	p.change(func() { p.beats = nil })
	p.until(t, "heartbeats", func() bool { return len(p.beats) > 0 && len(p.beats[0].GetState().GetProblems()) == 1 })
}

// What a control plane says that cannot be is left out, and the rest counts.
func TestNonsenseOfTheControlPlane(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		also func(*fleetpb.Welcome)
		want string // "": nothing changes
		says string
	}{
		{says("one", 0, 5), reach("127.0.0.2", 20000, 20999), "port_range is 0 to 5"},
		{says("one", 5, 4), reach("127.0.0.2", 20000, 20999), "port_range is 5 to 4"},
		{says("one", 5, 65536), reach("127.0.0.2", 20000, 20999), "port_range is 5 to 65536"},
		{says(strings.Repeat("x", 65), 30000, 30001), reach("127.0.0.1", 30000, 30001), "mgmt_interface has 65 bytes"},
	} {
		p := newPlane(t)
		p.also = tt.also
		cfg, _, _ := open(t, p)
		deps := testDeps(t)
		deps.Hardware = wired{addresses: map[string]string{"one": "127.0.0.2"}}
		var log text
		deps.Logger = slog.New(slog.NewTextHandler(&log, nil))
		n := run(t, cfg, deps)
		p.until(t, tt.want, func() bool { return len(p.moves) > 0 && reachOf(p.moves[len(p.moves)-1]) == tt.want })
		if !strings.Contains(log.String(), tt.says) {
			t.Errorf("%q is not in the log: %s", tt.says, log.String())
		}
		n.stop(t)
	}
}
