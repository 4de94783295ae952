package convert_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// sameHeartbeat compares what a reader has read with what the generated code reads
// of the same bytes, and reports whether the reader has read them.
func sameHeartbeat(t interface {
	Helper()
	Fatalf(string, ...any)
}, r *convert.HeartbeatReader, data []byte,
) bool {
	t.Helper()
	got := r.Read(data)
	if got == nil {
		return false
	}
	var m fleetpb.ConnectRequest
	if err := proto.Unmarshal(data, &m); err != nil {
		t.Fatalf("it reads what the generated code does not: %v", err)
	}
	if m.GetHeartbeat() == nil {
		t.Fatalf("it reads a heartbeat where the generated code reads %T", m.GetMessage())
	}
	want, err := convert.HeartbeatFromWire(m.GetHeartbeat())
	if err != nil {
		t.Fatalf("it reads what is refused: %v", err)
	}
	read := *got
	if len(read.Shards) == 0 {
		read.Shards = nil // it keeps the memory
	}
	if diff := cmp.Diff(want, &read, opts, protocmp.Transform()); diff != "" {
		t.Fatalf("it reads otherwise than the generated code (-want +got):\n%s", diff)
	}
	return true
}

var opts = cmp.Exporter(func(t reflect.Type) bool { return strings.HasPrefix(t.Name(), "Opt[") })

// FuzzHeartbeatBytes: whatever came before, and whatever comes.
func FuzzHeartbeatBytes(f *testing.F) {
	first, second := fullBeat(), fullBeat()
	second.State.Gpus[1].TemperatureC = new(44.0)
	second.State.Gpus[0].Health = "excluded"
	second.Shards[0].Running = nil
	f.Add(bytesOf(f, first), bytesOf(f, second))
	f.Add(bytesOf(f, second), bytesOf(f, &fleetpb.Heartbeat{Sequence: 9}))
	f.Add(bytesOf(f, &fleetpb.Heartbeat{}), append(bytesOf(f, second), bytesOf(f, first)...)) // merged
	for _, odd := range oddBeats() {
		f.Add(bytesOf(f, first), odd)
	}
	f.Fuzz(func(t *testing.T, before, data []byte) {
		var r convert.HeartbeatReader
		sameHeartbeat(t, &r, before)
		sameHeartbeat(t, &r, data)
	})
}

// What agents send is read without the generated code.
func TestHeartbeatBytes(t *testing.T) {
	var r convert.HeartbeatReader
	beat := fullBeat()
	for sequence := range uint64(4) {
		beat.Sequence = sequence
		beat.State.Gpus[0].TemperatureC = new(float64(sequence / 2))
		if data := bytesOf(t, beat); !sameHeartbeat(t, &r, data) {
			t.Fatalf("heartbeat %d is left to the generated code", sequence)
		}
	}
	for name, odd := range oddBeats() {
		if sameHeartbeat(t, &r, odd) {
			t.Errorf("%s: is not left to the generated code", name)
		}
		if !sameHeartbeat(t, &r, bytesOf(t, beat)) {
			t.Errorf("%s: the next heartbeat is left to the generated code", name)
		}
	}
}

// Any heartbeat is read like the generated code reads it, whatever the one before
// was.
func TestHeartbeatsInARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r convert.HeartbeatReader
		beat := fullBeat()
		for range rapid.IntRange(1, 8).Draw(t, "heartbeats") {
			switch rapid.IntRange(0, 9).Draw(t, "change") {
			case 0:
				beat.State = nil
			case 1:
				beat = fullBeat()
			case 2:
				beat.Shards = slices.Clip(append(beat.Shards[:0:0], beat.Shards[:rapid.IntRange(0, len(beat.Shards)).Draw(t, "shards")]...))
			case 3:
				beat.Strangers = nil
			default:
				set(t, beat.ProtoReflect())
			}
			if !sameHeartbeat(t, &r, bytesOf(t, beat)) {
				t.Fatalf("it is left to the generated code: %v", beat)
			}
		}
	})
}

// set changes one field of a message, or of one in it, to something that agents may
// send.
func set(t *rapid.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	field := fields.Get(rapid.IntRange(0, fields.Len()-1).Draw(t, "field"))
	switch {
	case field.IsList() && field.Kind() == protoreflect.MessageKind:
		list := m.Mutable(field).List()
		switch at := rapid.IntRange(-2, list.Len()-1).Draw(t, "row"); {
		case at == -2:
			list.Append(list.NewElement())
		case at == -1:
			list.Truncate(list.Len() / 2)
		default:
			set(t, list.Get(at).Message())
		}
	case field.IsList():
		m.Mutable(field).List().Append(value(t, field.Kind()))
	case field.Kind() == protoreflect.MessageKind:
		switch field.Message().FullName() {
		case "google.protobuf.Timestamp":
			m.Set(field, protoreflect.ValueOfMessage(timestamppb.New(time.Unix(rapid.Int64Range(0, 1<<36-1).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))).ProtoReflect()))
		case "google.protobuf.Duration":
			m.Set(field, protoreflect.ValueOfMessage(durationpb.New(time.Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "ns"))).ProtoReflect()))
		default:
			set(t, m.Mutable(field).Message())
		}
	case rapid.Bool().Draw(t, "clear"):
		m.Clear(field)
	default:
		m.Set(field, value(t, field.Kind()))
	}
}

func value(t *rapid.T, kind protoreflect.Kind) protoreflect.Value {
	switch kind {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, "text"))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "truth"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)})).Draw(t, "measure"))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "number"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "number"))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "number"))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "number"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.Int32Range(-1, 20).Draw(t, "enum")))
	}
	panic(kind.String() + ": no field of a heartbeat has it")
}

// A list that did not change is the list of the heartbeat before, and one that did
// leaves that as it was.
func TestHeartbeatKeepsLists(t *testing.T) {
	var r convert.HeartbeatReader
	beat := fullBeat()
	first := r.Read(bytesOf(t, beat)).State
	want := cmp.Diff(engines.NodeState{}, first, opts)
	second := r.Read(bytesOf(t, beat)).State
	if &first.GPUs[0] != &second.GPUs[0] || &first.Ports[0] != &second.Ports[0] || &first.Fabrics[0] != &second.Fabrics[0] || &first.Problems[0] != &second.Problems[0] {
		t.Error("lists that did not change were made anew")
	}
	beat.State.Gpus[1].MemoryUsedBytes = new(uint64(7))
	third := r.Read(bytesOf(t, beat)).State
	if !third.GPUs[1].MemoryUsedBytes.Is(7) || &first.Ports[0] != &third.Ports[0] {
		t.Errorf("read %+v", third)
	}
	if cmp.Diff(engines.NodeState{}, first, opts) != want {
		t.Error("what was read first has changed")
	}
}

// A heartbeat in which every card changed costs one list.
func TestHeartbeatAllocs(t *testing.T) {
	var r convert.HeartbeatReader
	beat := fullBeat()
	beat.Strangers, beat.State.GpusAge, beat.State.PortsAge, beat.State.Fabrics[1].Reasons = nil, nil, nil, nil
	for _, g := range beat.GetState().GetGpus() {
		g.Foreign, g.HealthReasons = nil, nil
	}
	data := [2][]byte{bytesOf(t, beat)}
	for _, g := range beat.GetState().GetGpus() {
		g.TemperatureC = new(77.0)
	}
	data[1] = bytesOf(t, beat)
	n := 0
	read := func() {
		n++
		if r.Read(data[n%2]) == nil {
			t.Fatal("it is left to the generated code")
		}
	}
	if got := testing.AllocsPerRun(100, read); got > 1 {
		t.Errorf("%v objects of a heartbeat; want 1", got)
	}
}

// fullBeat has every field.
func fullBeat() *fleetpb.Heartbeat {
	m := &fleetpb.Heartbeat{
		Sequence: 7, At: timestamppb.New(time.Unix(1_800_000_000, 5)),
		State: &fleetpb.NodeState{
			MemoryAvailableBytes: new(uint64(1 << 40)), GpusAge: durationpb.New(time.Second), PortsAge: durationpb.New(time.Minute),
			Fabrics:  []*fleetpb.FabricState{{Name: "ib-a", Verdict: "confirmed"}, {Name: "ib-b", Verdict: "contradicted", Reasons: []string{"a port is down", ""}}},
			Problems: []*fleetpb.Warning{{Part: "gpus", Problem: "slow", Advice: "wait"}},
		},
		Strangers: []*fleetpb.PortHeld{{Port: 20001, Pid: new(int32(4)), Command: "nc"}, {}},
	}
	for i := range uint32(3) {
		m.Shards = append(m.Shards, &fleetpb.ShardBrief{Replica: "chat", Rank: i, Generation: 3, Revision: uint64(i), State: fleetpb.ShardState_SHARD_STATE_READY, Running: new(i), Waiting: new(uint32(0))})
		m.State.Gpus = append(m.State.Gpus, &fleetpb.GPUState{
			Gpu: "GPU-4cdd4f5e", MemoryUsedBytes: new(uint64(70 << 30)), MemoryFreeBytes: new(uint64(0)), UtilizationRatio: new(0.9), TemperatureC: new(61.0),
			Corrected: new(uint64(i)), Uncorrected: new(uint64(2)), RemapPending: new(false), RemapFailed: new(true), Health: "healthy",
			Foreign:       []*fleetpb.GPUProcess{{Pid: 9, Name: "x", MemoryBytes: new(uint64(5))}, {}},
			HealthReasons: []*fleetpb.HealthReason{{Kind: "xid", Action: "excluded", Detail: "79", Ends: "by a reset"}},
		})
		m.State.Ports = append(m.State.Ports, &fleetpb.PortState{
			Device: "mlx5_0", Port: int64(i), State: "ACTIVE", Physical: "LinkUp", RateGbps: new(400.0), GidPrefix: "fe80", LinkDowned: new(uint64(1)), SymbolErrors: new(uint64(2)),
		})
	}
	return m
}

// oddBeats are messages that are no heartbeat as agents write it.
func oddBeats() map[string][]byte {
	state := func(m *fleetpb.NodeState) []byte {
		data, _ := proto.Marshal(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: &fleetpb.Heartbeat{State: m}}})
		return data
	}
	at := func(m *timestamppb.Timestamp) []byte {
		data, _ := proto.Marshal(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: &fleetpb.Heartbeat{At: m}}})
		return data
	}
	beat := func(fields ...[]byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), slices.Concat(fields...))
	}
	part := func(number protowire.Number, data []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), data)
	}
	var rows []byte
	for range 1025 {
		rows = append(rows, part(4, nil)...)
	}
	return map[string][]byte{
		"nothing":                     nil,
		"another message":             part(3, part(1, []byte("r"))),
		"a heartbeat in two parts":    slices.Concat(beat(), beat()),
		"a heartbeat and a status":    slices.Concat(beat(), part(3, nil)),
		"cut off":                     beat()[:1],
		"a state in two parts":        beat(part(3, nil), part(3, nil)),
		"a time in two parts":         beat(part(2, nil), part(2, nil)),
		"a group":                     beat([]byte{0x0b, 0x0c}),
		"text where a number belongs": beat(part(1, []byte("7"))),
		"a field without a number":    beat([]byte{0, 0}),
		"text that is no UTF-8":       beat(part(3, part(2, part(1, []byte{0xff})))),
		"rows without end":            beat(rows),
		"a long time ago":             at(&timestamppb.Timestamp{Seconds: -1}),
		"no time":                     at(&timestamppb.Timestamp{Nanos: -1}),
		"a negative age":              state(&fleetpb.NodeState{GpusAge: &durationpb.Duration{Seconds: -1}}),
		"an age that is none":         state(&fleetpb.NodeState{PortsAge: &durationpb.Duration{Seconds: math.MaxInt64}}),
	}
}

func bytesOf(t interface{ Fatal(...any) }, m *fleetpb.Heartbeat) []byte {
	data, err := proto.Marshal(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: m}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}
