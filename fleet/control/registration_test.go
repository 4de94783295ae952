package control_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

func TestRegistrationIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		h := hello("n1")
		h.Labels = map[string]string{"rack": "r7"}
		h.Engines = []*fleetpb.EngineOffer{{Engine: "vllm", Executable: "/opt/vllm"}, {Engine: "sglang", Problem: "no such file"}}
		h.Inventory = &fleetpb.Inventory{
			Gpus:    []*fleetpb.GPU{{Uuid: "GPU-1", MemoryBytes: new(uint64(80 << 30))}},
			Fabrics: []*fleetpb.Fabric{{Name: "ib-a", RateGbps: 400, Devices: []string{"mlx5_0"}}},
		}
		h.State = &fleetpb.NodeState{MemoryAvailableBytes: new(uint64(5))}
		h.Tombstones = []*fleetpb.Tombstone{{Replica: "old", Rank: 1, Generation: 9}}
		h.At = timestamppb.New(time.Now().Add(-time.Minute))
		a := w.dial(h)
		n, ok := w.plane.Node("n1")
		if !ok {
			t.Fatal("no node")
		}
		if got := n.Hardware(); len(got.GPUs) != 1 || got.Fabrics[0].Name != "ib-a" || got.Fabrics[0].RateGbps != 400 || !got.State.MemoryAvailableBytes.Is(5) {
			t.Errorf("hardware %+v", got)
		}
		if n.Labels["rack"] != "r7" || n.Engines[0].Executable != "/opt/vllm" || n.Engines[1].Problem != "no such file" ||
			n.Ports != (control.PortRange{First: 20000, Last: 20999}) || n.Address != "10.0.0.1" || n.Remote == "" || !n.Heard.Equal(time.Now()) {
			t.Errorf("node %+v", n)
		}
		if got := n.Tombstones[engines.ShardID{Replica: "old", Rank: 1}]; got != 9 {
			t.Errorf("tombstone %d", got)
		}
		if !n.Skew.Is(-time.Minute) {
			t.Errorf("skew %v", n.Skew)
		}

		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Inventory{Inventory: &fleetpb.Inventory{}}})
		if n, _ := w.plane.Node("n1"); len(n.Inventory.GPUs) != 0 || n.Labels["rack"] != "r7" {
			t.Errorf("after the card was taken out: %+v", n.Inventory)
		}
		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: &fleetpb.Heartbeat{
			Sequence: 1, At: timestamppb.Now(), Strangers: []*fleetpb.PortHeld{{Port: 20003, Pid: new(int32(77)), Command: "nc"}},
		}}})
		if n, _ := w.plane.Node("n1"); len(n.Strangers) != 1 || !n.Strangers[0].PID.Is(77) || !n.Skew.Is(0) {
			t.Errorf("strangers %+v, skew %v", n.Strangers, n.Skew)
		}
		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Goodbye{Goodbye: &fleetpb.Goodbye{Reason: "upgrade"}}})
		a.hangUp()
		if n, _ := w.plane.Node("n1"); n.Connected || n.Goodbye != "the agent ended: upgrade" || n.State != control.Ready {
			t.Errorf("after it ended: %+v", n)
		}
		w.dial(hello("n0"))
		if got := w.plane.Nodes(); len(got) != 2 || got[0].ID != "n0" || got[1].ID != "n1" {
			t.Errorf("nodes %+v", got)
		}
	})
}

// A node is told what holds where its own configuration says nothing, and says by
// which address and ports it then goes; that is shown, watched and kept, and the
// shards that run stay where they are.
func TestNodesAreToldDefaultsAndMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := control.DefaultConfig()
		cfg.MgmtInterface, cfg.PortRange = "bond0", []int{30000, 30099}
		j := newJournal()
		w := newWorld(t, cfg, control.Deps{Journal: j})
		h := hello("n1")
		running := shard("r1", 1, 1, fleetpb.ShardState_SHARD_STATE_READY)
		running.Address, running.Ports = "10.0.0.1:20000", map[string]uint32{"http": 20000}
		h.Shards = []*fleetpb.ShardStatus{running}
		a := w.dial(h)
		if got := a.wantWelcome(); got.GetMgmtInterface() != "bond0" || got.GetPortRange().GetFirst() != 30000 || got.GetPortRange().GetLast() != 30099 {
			t.Errorf("it is told %v", got)
		}
		time.Sleep(6 * time.Second)
		watcher := w.plane.Watch()
		defer watcher.Close()
		watcher.Take()
		move := func(address string, first, last uint32) {
			a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Reach{Reach: &fleetpb.Reach{
				Address: address, Ports: &fleetpb.PortRange{First: first, Last: last},
			}}})
		}
		move("10.0.0.1", 20000, 20999)
		if c, some := watcher.Take(); some {
			t.Errorf("what is known is a change: %+v", c)
		}
		move("10.7.0.1", 30000, 30099)
		n, _ := w.plane.Node("n1")
		if n.Address != "10.7.0.1" || n.Ports != (control.PortRange{First: 30000, Last: 30099}) || n.Shards[0].Address != "10.0.0.1:20000" || n.AgentVersion != "1.2.3" {
			t.Errorf("node %+v", n)
		}
		if c, some := watcher.Take(); !some || len(c.List) != 1 || c.List[0].Node != "n1" || c.List[0].Shard.Replica != "" {
			t.Errorf("changes %+v", c)
		}
		time.Sleep(6 * time.Second)
		if known, saves := j.saved("n1"); known.Address != "10.7.0.1" || known.Ports.First != 30000 || saves != 2 {
			t.Errorf("saved %d times: %+v", saves, known)
		}
		move("10.7.0.1", 0, 9)
		a.wantRefusal(connect.CodeInvalidArgument, "port_first 0, port_last 9")
		a = w.dial(h)
		move(strings.Repeat("x", 300), 1, 2)
		a.wantRefusal(connect.CodeInvalidArgument, "address has 300 bytes; want at most 256")
		a = w.dial(h)
		move("fe80::1", 1, 2)
		a.wantRefusal(connect.CodeInvalidArgument, "address: fe80::1 is link-local")
		a = w.dial(h)
		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Reach{}})
		a.wantRefusal(connect.CodeInvalidArgument, "port_first 0, port_last 0")
	})
}

func TestHelloThatCannotBeIsRefused(t *testing.T) {
	long := strings.Repeat("x", 300)
	cases := []struct {
		name   string
		change func(h *fleetpb.Hello)
		code   connect.Code
		want   string
	}{
		{"id", func(h *fleetpb.Hello) { h.Node = "a/b" }, connect.CodeInvalidArgument, `node: engines: not an id: "a/b" has '/'`},
		{"instance", func(h *fleetpb.Hello) { h.Instance = "" }, connect.CodeInvalidArgument, `instance ""`},
		{"boot", func(h *fleetpb.Hello) { h.Boot = long }, connect.CodeInvalidArgument, "boot has 300 bytes; want at most 256"},
		{"address", func(h *fleetpb.Hello) { h.Address = "0.0.0.0" }, connect.CodeInvalidArgument, "address: 0.0.0.0 is no node's; set address, or mgmt_interface"},
		{"ports", func(h *fleetpb.Hello) { h.PortFirst = 70000 }, connect.CodeInvalidArgument, "port_first 70000"},
		{"clock", func(h *fleetpb.Hello) { h.At.Nanos = -1 }, connect.CodeInvalidArgument, "at: "},
		{"label", func(h *fleetpb.Hello) { h.Labels = map[string]string{"a": strings.Repeat(long, 4)} }, connect.CodeInvalidArgument, `label "a" has 1201 bytes`},
		{"labels", func(h *fleetpb.Hello) {
			h.Engines = make([]*fleetpb.EngineOffer, 129)
			for i := range h.Engines {
				h.Engines[i] = new(fleetpb.EngineOffer)
			}
		}, connect.CodeInvalidArgument, "0 labels and 129 engines"},
		{"inventory's size", func(h *fleetpb.Hello) {
			h.Inventory = &fleetpb.Inventory{Warnings: []*fleetpb.Warning{{Problem: strings.Repeat(long, 2000)}}}
		}, connect.CodeInvalidArgument, "the inventory has"},
		{"inventory", func(h *fleetpb.Hello) { h.Inventory = &fleetpb.Inventory{Links: []*fleetpb.LinkRow{{}}} }, connect.CodeInvalidArgument, "inventory.links"},
		{"shards", func(h *fleetpb.Hello) {
			for i := range uint32(513) {
				h.Shards = append(h.Shards, &fleetpb.ShardStatus{Replica: "r", Rank: i})
			}
		}, connect.CodeInvalidArgument, "513 shards; want at most 512 (max_shards_per_node)"},
		{"shard twice", func(h *fleetpb.Hello) {
			h.Shards = []*fleetpb.ShardStatus{{Replica: "r"}, {Replica: "r", Generation: 2}}
		}, connect.CodeInvalidArgument, "shard r/0 is there twice"},
		{"shard's port", func(h *fleetpb.Hello) {
			h.Shards = []*fleetpb.ShardStatus{{Replica: "r", Ports: map[string]uint32{"http": 0}}}
		}, connect.CodeInvalidArgument, "status of r/0: not a message of the protocol: ports"},
		{"tombstone", func(h *fleetpb.Hello) { h.Tombstones = []*fleetpb.Tombstone{{}} }, connect.CodeInvalidArgument, "tombstone: "},
		{"protocol", func(h *fleetpb.Hello) { h.ProtocolLeast, h.ProtocolMost = 2, 3 }, connect.CodeFailedPrecondition, "the agent speaks versions 2 to 3 of the protocol, and this control plane speaks 1"},
		{"cluster", func(h *fleetpb.Hello) { h.Cluster = new("c2") }, connect.CodeFailedPrecondition, `the node belongs to cluster "c2", and this is the control plane of cluster "c1"`},
		{"term", func(h *fleetpb.Hello) { h.Term = 8 }, connect.CodeUnavailable, "the node has heard of term 8, and this control plane has term 7"},
		{"size", func(h *fleetpb.Hello) { h.AgentVersion = strings.Repeat(long, 15000) }, connect.CodeResourceExhausted, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				auth := leader()
				w := newWorld(t, control.DefaultConfig(), control.Deps{Authority: auth})
				h := hello("n1")
				c.change(h)
				w.dial(h).wantRefusal(c.code, c.want)
				if got := w.plane.Nodes(); len(got) != 0 {
					t.Errorf("nodes %+v", got)
				}
				if want := max(h.GetTerm(), 7); auth.outranked("n1") != want && h.GetTerm() != 0 {
					t.Errorf("the authority was told of term %d", auth.outranked("n1"))
				}
			})
		})
	}
}

func TestMessagesThatCannotBeEndTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		m    *fleetpb.ConnectRequest
		want string
	}{
		"a second Hello": {&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: &fleetpb.Hello{}}}, "a second Hello"},
		"status":         {&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Status{Status: &fleetpb.ShardStatus{Replica: "-"}}}, "status of -/0"},
		"answer's status": {&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Answer{Answer: &fleetpb.Answer{
			Status: &fleetpb.ShardStatus{Replica: "r", Pid: new(int32(0))},
		}}}, "pid"},
		"heartbeat's time": {&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: &fleetpb.Heartbeat{
			At: &timestamppb.Timestamp{Nanos: -1},
		}}}, "heartbeat: at"},
		"inventory": {&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Inventory{Inventory: &fleetpb.Inventory{Links: []*fleetpb.LinkRow{{}}}}}, "inventory.links"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, control.DefaultConfig(), control.Deps{})
				a := w.dial(hello("n1"))
				a.send(c.m)
				a.wantRefusal(connect.CodeInvalidArgument, c.want)
				if n, _ := w.plane.Node("n1"); n.Connected {
					t.Error("the node is connected")
				}
			})
		})
	}
}

func TestWhatANewerAgentSaysIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		a := w.dial(hello("n1"))
		a.send(new(fleetpb.ConnectRequest)) // a kind of message that this version does not know
		if beat := a.heartbeat(); beat.GetSequence() != 1 {
			t.Errorf("beat %v, %v", beat, a.refusal())
		}
	})
}

func TestFirstMessageIsHelloAndComesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		a := w.open()
		a.heartbeat()
		a.wantRefusal(connect.CodeInvalidArgument, "the first message is no Hello")
		b := w.open()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if b.refusal() != nil {
			t.Fatalf("too early: %v", b.refusal())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.wantRefusal(connect.CodeDeadlineExceeded, "no Hello came within 10s")
	})
}

func TestStreamsThatDoNotRegisterAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := control.DefaultConfig()
		cfg.MaxUnregistered = 2
		w := newWorld(t, cfg, control.Deps{})
		w.open()
		w.open()
		synctest.Wait()
		w.dial(hello("n1")).wantRefusal(connect.CodeUnavailable, "2 agents register already")
		time.Sleep(11 * time.Second) // they are gone
		w.dial(hello("n1")).wantWelcome()
		w.dial(hello("n2")).wantWelcome()
		w.dial(hello("n3")).wantWelcome()
	})
}

func TestTheNewerStreamOfAnAgentTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		h := hello("n1")
		h.Shards = []*fleetpb.ShardStatus{shard("r1", 1, 9, fleetpb.ShardState_SHARD_STATE_READY), shard("r2", 1, 1, fleetpb.ShardState_SHARD_STATE_READY)}
		old := w.dial(h)
		h = hello("n1")
		h.Run = "run-2"
		h.Shards = []*fleetpb.ShardStatus{shard("r1", 1, 1, fleetpb.ShardState_SHARD_STATE_FAILED)} // revisions count anew
		newer := w.dial(h)
		newer.wantWelcome()
		old.wantRefusal(connect.CodeAborted, "a newer stream of node n1 took over")
		n, _ := w.plane.Node("n1")
		if !n.Connected || n.Run != "run-2" || len(n.Shards) != 1 || n.Shards[0].State != engines.ShardFailed {
			t.Errorf("node %+v", n)
		}
	})
}

func TestTwoMachinesWithOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		first := w.dial(hello("n1"))
		clone := hello("n1")
		clone.Instance = "another"
		w.dial(clone).wantRefusal(connect.CodeAlreadyExists, "another agent has the node's id n1: the agent at ")
		first.heartbeat()
		if n, _ := w.plane.Node("n1"); !n.Connected || n.Instance != "instance-n1" {
			t.Errorf("node %+v", n)
		}
		first.hangUp()
		w.dial(clone).wantRefusal(connect.CodeAlreadyExists, "give one of them another id")
		time.Sleep(16 * time.Second)
		w.dial(clone).wantWelcome()
		if n, _ := w.plane.Node("n1"); n.Instance != "another" {
			t.Errorf("node %+v", n)
		}
		w.dial(hello("n1")).wantRefusal(connect.CodeAlreadyExists, "")
	})
}

// A shard may say addresses of its node's alone: one that the node told, or told
// before, and those of its interfaces. Any other is kept from everyone but people,
// until the node has it.
func TestAddressesOfShardsAreTheirNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(t, control.DefaultConfig(), control.Deps{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		h := hello("n1")
		h.Inventory = &fleetpb.Inventory{Interfaces: []*fleetpb.NetInterface{{Name: "eth1", Addresses: []*fleetpb.NetAddress{{Prefix: "10.8.0.1/24"}, {Prefix: "fd00::1/64"}}}}}
		at := func(replica, address string, revision uint64) *fleetpb.ShardStatus {
			s := shard(replica, 1, revision, fleetpb.ShardState_SHARD_STATE_READY)
			s.Address = address
			return s
		}
		h.Shards = []*fleetpb.ShardStatus{
			at("own", "10.0.0.1:20000", 1), at("eth1", "10.8.0.1:20001", 1), at("six", "[fd00::1]:20002", 1), at("silent", "", 1),
			at("metadata", "169.254.169.254:80", 1), at("nonsense", "10.0.0.1", 1), at("port", "10.0.0.1:0", 1), at("name", "localhost:9090", 1), at("later", "10.7.0.1:20003", 1),
		}
		a := w.dial(h)
		want := func(addresses map[string]string, strange map[string]string) {
			t.Helper()
			n, _ := w.plane.Node("n1")
			got := map[string]string{}
			for _, s := range n.Shards {
				got[s.ID.Replica] = s.Address
			}
			if diff := cmp.Diff(addresses, got); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
			got = map[string]string{}
			for id, address := range n.Strange {
				got[id.Replica] = address
			}
			if diff := cmp.Diff(strange, got); diff != "" {
				t.Errorf("strange ones (-want +got):\n%s", diff)
			}
		}
		addresses := map[string]string{
			"own": "10.0.0.1:20000", "eth1": "10.8.0.1:20001", "six": "[fd00::1]:20002", "silent": "", "metadata": "", "nonsense": "", "port": "", "name": "", "later": "",
		}
		strange := map[string]string{
			"metadata": "169.254.169.254:80", "nonsense": "10.0.0.1", "port": "10.0.0.1:0", "name": "localhost:9090", "later": "10.7.0.1:20003",
		}
		want(addresses, strange)
		if n := strings.Count(log.String(), "none of its node's; no router is told of it"); n != len(strange) ||
			!strings.Contains(log.String(), "replica=metadata rank=0 address=169.254.169.254:80") {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		// It says one later, and the same again: one more line.
		log.Reset()
		for revision := range uint64(2) {
			a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Status{Status: at("own", "10.9.0.1:20000", revision+2)}})
		}
		addresses["own"], strange["own"] = "", "10.9.0.1:20000"
		want(addresses, strange)
		if n := strings.Count(log.String(), "no router is told"); n != 1 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		// It moves to where one of them is, and where it was is still its own.
		watcher := w.plane.Watch()
		defer watcher.Close()
		watcher.Take()
		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Reach{Reach: &fleetpb.Reach{Address: "10.7.0.1", Ports: &fleetpb.PortRange{First: 1, Last: 9}}}})
		a.send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Status{Status: at("own", "10.0.0.1:20000", 4)}})
		addresses["own"], addresses["later"] = "10.0.0.1:20000", "10.7.0.1:20003"
		delete(strange, "own")
		delete(strange, "later")
		want(addresses, strange)
		changes, _ := watcher.Take()
		if !slices.ContainsFunc(changes.List, func(c control.Change) bool { return c.Shard.Replica == "later" && c.Status.Address == "10.7.0.1:20003" }) {
			t.Errorf("nobody is told that one may be used: %+v", changes)
		}
		// What a new registration does not have is forgotten.
		h.Address, h.Run, h.Shards = "10.7.0.1", "run-2", []*fleetpb.ShardStatus{at("own", "10.0.0.1:20000", 1)}
		w.dial(h)
		want(map[string]string{"own": "10.0.0.1:20000"}, map[string]string{})
	})
}
