package convert_test

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// overWire marshals and unmarshals a message, as a stream does.
func overWire[M proto.Message](t *rapid.T, m, into M) M {
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func ids() *rapid.Generator[engines.ShardID] {
	return rapid.Custom(func(t *rapid.T) engines.ShardID {
		return engines.ShardID{
			Replica: rapid.StringMatching(`[a-zA-Z0-9]([a-z.-]{0,8}[a-z0-9])?`).Draw(t, "replica"),
			Rank:    rapid.IntRange(0, 65535).Draw(t, "rank"),
		}
	})
}

func moments() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		if rapid.Bool().Draw(t, "zero") {
			return time.Time{}
		}
		return time.Unix(0, rapid.Int64Range(1, 1<<61).Draw(t, "nanoseconds")).UTC()
	})
}

func portMaps() *rapid.Generator[map[string]int] {
	return rapid.Map(rapid.MapOfN(rapid.StringMatching(`[a-z]{1,5}`), rapid.IntRange(1, 65535), 0, 3), nilIfEmpty)
}

func texts() *rapid.Generator[map[string]string] {
	return rapid.Map(rapid.MapOfN(rapid.String(), rapid.String(), 0, 3), nilIfEmpty)
}

func nilIfEmpty[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}

func lists() *rapid.Generator[[]string] {
	return rapid.Custom(func(t *rapid.T) []string {
		list := rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "list")
		if len(list) == 0 {
			return nil
		}
		return list
	})
}

func spans() *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(0, math.MaxInt64), func(n int64) time.Duration { return time.Duration(n) })
}

func specs() *rapid.Generator[engines.ShardSpec] {
	return rapid.Custom(func(t *rapid.T) engines.ShardSpec {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		number := func(name string) int { return rapid.Int().Draw(t, name) } // wrong ones too
		flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
		return engines.ShardSpec{
			ID:         ids().Draw(t, "id"),
			Generation: rapid.Uint64().Draw(t, "generation"),
			Profile: engines.Profile{
				Engine: engines.Name(text("engine")), Executable: text("executable"), Mode: text("mode"),
				Model: text("model"), Revision: text("revision"), ServedNames: lists().Draw(t, "served"),
				Task: engines.Task(text("task")), Ranks: number("ranks"), TensorParallel: number("tensor"),
				PipelineParallel: number("pipeline"), DataParallel: number("data"), ExpertParallel: flag("expert"),
				CPU: flag("cpu"), ContextTokens: number("context"), MaxRunning: number("running"),
				MemoryRatio: rapid.Float64().Draw(t, "ratio"), DType: text("dtype"), KVCacheDType: text("kv dtype"),
				Quantization: text("quantization"), PriorityScheduling: flag("priority"), KVEvents: flag("kv events"), Sleep: flag("sleep"),
				Options: texts().Draw(t, "options"), ExtraArgs: lists().Draw(t, "args"), Env: texts().Draw(t, "env"),
				LoadTimeout: spans().Draw(t, "load"), StopGrace: spans().Draw(t, "grace"),
			},
			Cards: lists().Draw(t, "cards"), Fabric: text("fabric"), Leader: text("leader"),
			LeaderPorts: portMaps().Draw(t, "leader ports"), Ports: portMaps().Draw(t, "ports"), Secret: text("secret"),
		}
	})
}

func statuses() *rapid.Generator[engines.ShardStatus] {
	return rapid.Custom(func(t *rapid.T) engines.ShardStatus {
		text := func(name string) string { return rapid.String().Draw(t, name) }
		count := func(name string) *int {
			return rapid.Ptr(rapid.IntRange(0, 1<<31-1), true).Draw(t, name)
		}
		return engines.ShardStatus{
			ID: ids().Draw(t, "id"), Generation: rapid.Uint64().Draw(t, "generation"), Revision: rapid.Uint64().Draw(t, "revision"),
			State:      engines.ShardState(rapid.IntRange(0, int(engines.ShardSleeping)).Draw(t, "state")), //nolint:gosec // in range
			Since:      moments().Draw(t, "since"),
			Phase:      engines.Phase(rapid.IntRange(0, int(engines.PhaseFailed)).Draw(t, "phase")), //nolint:gosec // in range
			PhaseSince: moments().Draw(t, "phase since"),
			Start:      text("start"), Command: text("command"), PID: rapid.IntRange(0, 1<<22).Draw(t, "pid"),
			Address: text("address"), Ports: portMaps().Draw(t, "ports"), Adopted: rapid.Bool().Draw(t, "adopted"),
			Running: count("running"), Waiting: count("waiting"),
			Reason: text("reason"), Advice: text("advice"), Exit: text("exit"), Lines: lists().Draw(t, "lines"), MemoryHeld: text("held"), Cards: lists().Draw(t, "cards"),
		}
	})
}

func TestSpecSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := specs().Draw(t, "spec")
		got, err := convert.SpecFromWire(overWire(t, convert.SpecToWire(want), &fleetpb.ShardSpec{}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("(-sent +got):\n%s", diff)
		}
	})
}

func TestStatusSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := statuses().Draw(t, "status")
		got, err := convert.StatusFromWire(overWire(t, convert.StatusToWire(want), &fleetpb.ShardStatus{}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-sent +got):\n%s", diff)
		}
		brief := convert.BriefToWire(want)
		if brief.GetReplica() != want.ID.Replica || int(brief.GetRank()) != want.ID.Rank || brief.GetGeneration() != want.Generation ||
			brief.GetRevision() != want.Revision || convert.StateFromWire(brief.GetState()) != want.State {
			t.Fatalf("brief %v of %+v", brief, want)
		}
	})
}

// A field that is added to the vocabulary and forgotten here is seen: every field
// of the generators' values is set in one of a few.
func TestEveryFieldIsDrawn(t *testing.T) {
	for name, draw := range map[string]func(seed int) reflect.Value{
		"spec":   func(seed int) reflect.Value { return reflect.ValueOf(specs().Example(seed)) },
		"status": func(seed int) reflect.Value { return reflect.ValueOf(statuses().Example(seed)) },
	} {
		unset := map[string]bool{}
		fieldsOf(draw(0).Type(), "", func(path string, _ []int) { unset[path] = true }, nil)
		for seed := range 50 {
			v := draw(seed)
			fieldsOf(v.Type(), "", func(path string, index []int) {
				if !v.FieldByIndex(index).IsZero() {
					delete(unset, path)
				}
			}, nil)
		}
		if len(unset) > 0 {
			t.Errorf("%s: no value ever has %v", name, unset)
		}
	}
}

func fieldsOf(t reflect.Type, prefix string, visit func(path string, index []int), at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int(nil), at...), i)
		if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
			fieldsOf(f.Type, prefix+f.Name+".", visit, index)
			continue
		}
		visit(prefix+f.Name, index)
	}
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	spec := func(change func(*fleetpb.ShardSpec)) error {
		m := &fleetpb.ShardSpec{Replica: "r", Profile: &fleetpb.Profile{}}
		change(m)
		_, err := convert.SpecFromWire(m)
		return err
	}
	status := func(change func(*fleetpb.ShardStatus)) error {
		m := &fleetpb.ShardStatus{Replica: "r"}
		change(m)
		_, err := convert.StatusFromWire(m)
		return err
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no replica", spec(func(m *fleetpb.ShardSpec) { m.Replica = "" }), `replica: engines: not an id: "" has 0 bytes; want 1 to 63`},
		{"path", spec(func(m *fleetpb.ShardSpec) { m.Replica = "../x" }), `replica: engines: not an id: "../x" begins or ends with '.'; want a letter or digit`},
		{"rank", spec(func(m *fleetpb.ShardSpec) { m.Rank = 1 << 20 }), `rank: engines: not an id: 1048576; want 0 to 65535`},
		{"port", spec(func(m *fleetpb.ShardSpec) { m.Ports = map[string]uint32{"http": 0} }), `ports: http has port 0; want 1 to 65535`},
		{"leader's port", spec(func(m *fleetpb.ShardSpec) { m.LeaderPorts = map[string]uint32{"rpc": 65536} }), `leader_ports: rpc has port 65536; want 1 to 65535`},
		{"grace below zero", spec(func(m *fleetpb.ShardSpec) { m.Profile.StopGrace = durationpb.New(-time.Second) }), `profile.stop_grace: -1s is no duration; want 0s to 292 years`},
		{"grace of 300 years", spec(func(m *fleetpb.ShardSpec) {
			m.Profile.StopGrace = &durationpb.Duration{Seconds: 300 * 365 * 86400}
		}), `profile.stop_grace: 9460800000s is no duration; want 0s to 292 years`},
		{"pid", status(func(m *fleetpb.ShardStatus) { m.Pid = new(int32(-1)) }), `pid: -1; want 1 or more, or none`},
		{"time", status(func(m *fleetpb.ShardStatus) { m.Since = &timestamppb.Timestamp{Nanos: -1} }), ""},
		{"phase's time", status(func(m *fleetpb.ShardStatus) { m.PhaseSince = &timestamppb.Timestamp{Nanos: -1} }), ""},
		{"status' id", status(func(m *fleetpb.ShardStatus) { m.Replica = "a b" }), ""},
		{"status' port", status(func(m *fleetpb.ShardStatus) { m.Ports = map[string]uint32{"http": 1 << 17} }), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !errors.Is(c.err, convert.ErrMessage) {
				t.Fatalf("error %v", c.err)
			}
			if c.want != "" && c.err.Error() != convert.ErrMessage.Error()+": "+c.want {
				t.Errorf("error %q; want %q", c.err, c.want)
			}
		})
	}
}

// What a newer agent says and this version has no word for is not known.
func TestUnknownStatesAreUnset(t *testing.T) {
	got, err := convert.StatusFromWire(&fleetpb.ShardStatus{Replica: "r", State: 99, Phase: -1})
	if err != nil {
		t.Fatal(err)
	}
	if got.State != engines.ShardUnset || got.Phase != engines.PhaseUnset {
		t.Errorf("state %v, phase %v", got.State, got.Phase)
	}
	if got := convert.StateToWire(200); got != fleetpb.ShardState_SHARD_STATE_UNSPECIFIED {
		t.Errorf("state %v", got)
	}
}
