package control

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// typicalBeat is a heartbeat of a node with eight cards and as many shards.
func typicalBeat() *fleetpb.Heartbeat {
	m := &fleetpb.Heartbeat{At: timestamppb.Now(), State: &fleetpb.NodeState{MemoryAvailableBytes: new(uint64(1 << 40))}}
	for i := range uint32(8) {
		m.Shards = append(m.Shards, &fleetpb.ShardBrief{Replica: "chat-" + strconv.Itoa(int(i)), Generation: 3, Revision: 9, State: fleetpb.ShardState_SHARD_STATE_READY, Running: new(i), Waiting: new(uint32(0))})
		m.State.Gpus = append(m.State.Gpus, &fleetpb.GPUState{
			Gpu: fmt.Sprintf("GPU-4cdd4f5e-0b8f-4b1c-9d5f-00000000000%d", i), MemoryUsedBytes: new(uint64(70 << 30)), MemoryFreeBytes: new(uint64(10 << 30)),
			UtilizationRatio: new(0.9), TemperatureC: new(61.0), Corrected: new(uint64(0)), Uncorrected: new(uint64(0)),
			RemapPending: new(false), RemapFailed: new(false), Health: string(engines.Healthy),
		})
		m.State.Ports = append(m.State.Ports, &fleetpb.PortState{Device: "mlx5_" + strconv.Itoa(int(i)), Port: 1, State: "ACTIVE", Physical: "LinkUp", RateGbps: new(400.0)})
	}
	return m
}

// BenchmarkHeartbeat is one heartbeat of a node with eight cards, from the bytes
// of the message to its answer in the queue; without HTTP/2 and TLS.
func BenchmarkHeartbeat(b *testing.B) {
	p, err := New(DefaultConfig(), Deps{Authority: alwaysLeader{}})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	p.base, p.fleet = now, newFleet(p.cfg, now, now)
	st := &stream{plane: p}
	var shards []engines.ShardStatus
	for _, s := range typicalBeat().GetShards() {
		shards = append(shards, engines.ShardStatus{ID: engines.ShardID{Replica: s.GetReplica()}, Generation: 3, Revision: 9, State: engines.ShardReady})
	}
	st.node, _, err = p.fleet.register(now, &registration{id: "n1", shards: shards}, st)
	if err != nil {
		b.Fatal(err)
	}
	m := &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: typicalBeat()}}
	got := new(message)
	var sequence uint64
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		sequence++
		m.GetHeartbeat().Sequence = sequence
		for _, g := range m.GetHeartbeat().GetState().GetGpus() {
			g.TemperatureC = new(60 + float64(sequence%8))
		}
		data, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := (codec{}).Unmarshal(data, got); err != nil {
			b.Fatal(err)
		}
		if err := p.received(st, got); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStep is one judgement of every node's silence.
func BenchmarkStep(b *testing.B) {
	now := time.Now()
	f, nodes := many(b, now, 2000)
	b.Run("nodes=2000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			now = now.Add(time.Second)
			for i := range len(nodes) / 5 {
				nodes[i].hear(f.base, now)
			}
			f.step(now)
		}
	})
}

// BenchmarkNodes is one look at every node, each with eight shards of which one
// changes after it.
func BenchmarkNodes(b *testing.B) {
	now := time.Now()
	f, nodes := many(b, now, 2000)
	b.Run("nodes=2000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			for _, n := range nodes {
				_ = f.snapshot(n, now)
				n.own()[0].Running = new(1)
			}
		}
	})
}

func many(b *testing.B, now time.Time, count int) (*fleet, []*node) {
	b.Helper()
	f := newFleet(DefaultConfig(), now, now)
	nodes := make([]*node, count)
	for i := range nodes {
		reg := &registration{id: "n" + strconv.Itoa(i)}
		for j := range 8 {
			reg.shards = append(reg.shards, engines.ShardStatus{ID: engines.ShardID{Replica: "r" + strconv.Itoa(j)}})
		}
		var err error
		if nodes[i], _, err = f.register(now, reg, new(stream)); err != nil {
			b.Fatal(err)
		}
	}
	f.changes = nil
	return f, nodes
}
