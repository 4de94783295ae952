package control

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// Whatever an agent says, it is taken or refused; and what is taken can be shown,
// kept and answered.
func FuzzMessages(f *testing.F) {
	for _, m := range []*fleetpb.ConnectRequest{
		{Message: &fleetpb.ConnectRequest_Hello{Hello: &fleetpb.Hello{
			Node: "n1", Instance: "i", Run: "r", PortFirst: 1, PortLast: 9,
			Inventory:  &fleetpb.Inventory{Gpus: []*fleetpb.GPU{{}}, Links: []*fleetpb.LinkRow{{To: []string{"X"}}}, Interfaces: []*fleetpb.NetInterface{{Addresses: []*fleetpb.NetAddress{{Prefix: "::1/128"}}}}},
			State:      &fleetpb.NodeState{Gpus: []*fleetpb.GPUState{{Gpu: "index:0"}}},
			Shards:     []*fleetpb.ShardStatus{{Replica: "r1", Generation: 2, Lines: []string{"a", "b"}}},
			Tombstones: []*fleetpb.Tombstone{{Replica: "r0", Generation: 1}},
			Engines:    []*fleetpb.EngineOffer{{Engine: "vllm", Executable: "/opt/vllm"}},
		}}},
		{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: &fleetpb.Heartbeat{Sequence: 1, Shards: []*fleetpb.ShardBrief{{Replica: "r1", Generation: 3}}, Strangers: []*fleetpb.PortHeld{{Port: 1}}}}},
		{Message: &fleetpb.ConnectRequest_Status{Status: &fleetpb.ShardStatus{Replica: "r1", Generation: 3, Revision: 1}}},
		{Message: &fleetpb.ConnectRequest_Answer{Answer: &fleetpb.Answer{Command: 1, Status: &fleetpb.ShardStatus{Replica: "r1"}}}},
	} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	now := start()
	f.Fuzz(func(t *testing.T, data []byte) {
		m := new(message)
		if (codec{}).Unmarshal(data, m) != nil {
			return
		}
		p, err := New(DefaultConfig(), Deps{Authority: alwaysLeader{}})
		if err != nil {
			t.Fatal(err)
		}
		p.base, p.fleet, p.level = now, newFleet(p.cfg, now, now), Leader
		reg := &registration{id: "n0"}
		if h := m.GetHello(); h != nil {
			reg, err = p.cfg.register(h, "here")
			if err != nil && !errors.Is(err, errInvalid) {
				t.Fatalf("error %v", err)
			}
			if err != nil {
				return
			}
		}
		st := &stream{plane: p, wire: new(wire), stopped: make(chan struct{})}
		n, _, err := p.fleet.register(now, reg, st)
		if err != nil {
			t.Fatal(err)
		}
		st.node = n
		if m.GetHello() == nil {
			_ = p.received(st, m)
		}
		p.fleet.step(now.Add(time.Second))
		node := p.fleet.snapshot(n, now)
		if len(node.Shards) > p.cfg.MaxShardsPerNode || node.ID != reg.id {
			t.Fatalf("node %+v", node)
		}
		for _, s := range node.Shards {
			if got, found := node.Shard(s.ID); !found || got.Generation != s.Generation {
				t.Fatalf("shard %v is not found", s.ID)
			}
		}
		_ = reg.known(now)
	})
}

type alwaysLeader struct{}

func (alwaysLeader) Mandate() Mandate         { return Mandate{Level: Leader, Cluster: "c", Term: 1} }
func (alwaysLeader) Outranked(string, uint64) {}
