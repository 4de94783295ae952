package plugin

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

// What is said at one end is heard at the other: every field of every type.
func TestRoundTrip(t *testing.T) {
	t.Run("Description", roundTrip(descriptionToWire, descriptionFromWire))
	t.Run("Profile", roundTrip(profileToWire, profileFromWire))
	t.Run("Shape", roundTrip(shapeToWire, shapeFromWire))
	t.Run("Shard", roundTrip(shardToWire, shardFromWire))
	t.Run("Launch", roundTrip(launchToWire, launchFromWire))
	t.Run("Check", roundTrip(checkToWire, checkFromWire))
	t.Run("ProfileError", roundTrip(
		func(e engines.ProfileError) proto.Message { return refusalToWire(&e) },
		func(m proto.Message) engines.ProfileError {
			return *refusalFromWire(message(m, refusalToWire(new(engines.ProfileError))))
		},
	))
}

// message is m as the type of its sample.
func message[M proto.Message](m proto.Message, _ M) M { return m.(M) }

func roundTrip[T any, M proto.Message](to func(T) M, from func(M) T) func(*testing.T) {
	gen := rapid.MakeCustom[T](rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[engines.PriorityOrder]():  upTo(engines.PriorityHighFirst),
		reflect.TypeFor[engines.Aggregation]():    upTo(engines.AggregateMean),
		reflect.TypeFor[engines.SecretDelivery](): upTo(engines.SecretByFile),
		reflect.TypeFor[engines.Signal]():         upTo(engines.SignalQuit),
		reflect.TypeFor[engines.Phase]():          upTo(engines.PhaseFailed),
	}})
	return rapid.MakeCheck(func(t *rapid.T) {
		want := gen.Draw(t, "value")
		sent := to(want)
		data, err := proto.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		heard := sent.ProtoReflect().New().Interface().(M)
		if err := proto.Unmarshal(data, heard); err != nil {
			t.Fatal(err)
		}
		got := from(heard)
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
			t.Fatalf("(-said +heard):\n%s", diff)
		}
		if w, ok := any(want).(engines.Check); ok && (w.VersionArgs == nil) != (any(got).(engines.Check).VersionArgs == nil) {
			t.Fatalf("VersionArgs %#v, heard %#v", w.VersionArgs, any(got).(engines.Check).VersionArgs)
		}
	})
}

func upTo[E ~uint8](most E) *rapid.Generator[any] {
	return rapid.Map(rapid.Uint8Max(uint8(most)), func(n uint8) any { return E(n) })
}

// The numbers of our enums are those of the wire, by name.
func TestEnumsAgree(t *testing.T) {
	pairs := [][2]string{
		{stopToWire(engines.Stop{Signal: engines.SignalTerm}).GetSignal().String(), "SIGNAL_TERM"},
		{stopToWire(engines.Stop{Signal: engines.SignalInt}).GetSignal().String(), "SIGNAL_INT"},
		{stopToWire(engines.Stop{Signal: engines.SignalQuit}).GetSignal().String(), "SIGNAL_QUIT"},
		{ruleToWire(engines.LogRule{Phase: engines.PhaseRendezvous}).GetPhase().String(), "PHASE_RENDEZVOUS"},
		{ruleToWire(engines.LogRule{Phase: engines.PhaseWarming}).GetPhase().String(), "PHASE_WARMING"},
		{ruleToWire(engines.LogRule{Phase: engines.PhaseFailed}).GetPhase().String(), "PHASE_FAILED"},
		{ruleToWire(engines.LogRule{Phase: 99}).GetPhase().String(), "PHASE_UNSPECIFIED"},
		{metricToWire(engines.Metric{Aggregate: engines.AggregateMax}).GetAggregate().String(), "AGGREGATION_MAX"},
		{descriptionToWire(engines.Description{Secret: engines.SecretUse{By: engines.SecretByEnv}}).GetSecret().GetBy().String(), "SECRET_DELIVERY_ENVIRONMENT"},
		{descriptionToWire(engines.Description{Capabilities: engines.Capabilities{PriorityOrder: engines.PriorityLowFirst}}).GetCapabilities().GetPriorityOrder().String(), "PRIORITY_ORDER_LOW_FIRST"},
	}
	for _, p := range pairs {
		if p[0] != p[1] {
			t.Errorf("%s, want %s", p[0], p[1])
		}
	}
	if got := ruleFromWire(&pluginpb.LogRule{Phase: 99}).Phase; got != engines.PhaseUnset {
		t.Errorf("a phase of later is heard as %s", got)
	}
	if got := ruleFromWire(ruleToWire(engines.LogRule{Phase: engines.PhaseLoading})).Phase; got != engines.PhaseLoading {
		t.Errorf("phase %s", got)
	}
}
