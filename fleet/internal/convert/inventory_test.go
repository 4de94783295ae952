package convert_test

import (
	"errors"
	"math"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// draw sets v and all below it to values that the vocabulary allows, zero values
// among them. It goes by the type, so a field that is added is drawn too.
func draw(t *rapid.T, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *engines.Opt[int]:
		*p = opt(t, rapid.Int())
	case *engines.Opt[uint64]:
		*p = opt(t, rapid.Uint64())
	case *engines.Opt[float64]:
		*p = opt(t, rapid.Float64())
	case *engines.Opt[bool]:
		*p = opt(t, rapid.Bool())
	case *time.Duration:
		*p = spans().Draw(t, "duration")
	case *netip.Prefix:
		*p = netip.PrefixFrom(netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address"))), rapid.IntRange(0, 32).Draw(t, "bits"))
		if rapid.Bool().Draw(t, "v6") {
			*p = netip.PrefixFrom(netip.AddrFrom16([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address"))), rapid.IntRange(0, 128).Draw(t, "bits"))
		}
	default:
		drawKind(t, v)
	}
}

func drawKind(t *rapid.T, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			draw(t, field)
		}
	case reflect.Slice:
		n := rapid.IntRange(0, 3).Draw(t, "length")
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			draw(t, v.Index(i))
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, "string"))
	case reflect.Int:
		v.SetInt(int64(rapid.Int().Draw(t, "int")))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, "float"))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	default:
		t.Fatalf("the vocabulary has a %v; teach the test to draw one", v.Type())
	}
}

func opt[T comparable](t *rapid.T, g *rapid.Generator[T]) engines.Opt[T] {
	if rapid.Bool().Draw(t, "known") {
		return engines.Known(g.Draw(t, "value"))
	}
	return engines.Opt[T]{}
}

func inventories() *rapid.Generator[*engines.Inventory] {
	return rapid.Custom(func(t *rapid.T) *engines.Inventory {
		inv := new(engines.Inventory)
		draw(t, reflect.ValueOf(inv).Elem())
		inv.Links = nil
		if n := len(inv.GPUs); n > 0 && rapid.Bool().Draw(t, "linked") {
			inv.Links = rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]string{"", "X", "NV18", "SYS"}), n, n), n, n).Draw(t, "links")
		}
		return inv
	})
}

// Fabric labels and all else that a node has and is survive the wire.
func TestInventorySurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := inventories().Draw(t, "inventory")
		got, err := convert.InventoryFromWire(overWire(t, convert.InventoryToWire(want), &fleetpb.Inventory{}))
		if err != nil {
			t.Fatal(err)
		}
		got.State, err = convert.NodeStateFromWire(overWire(t, convert.NodeStateToWire(want.State), &fleetpb.NodeState{}))
		if err != nil {
			t.Fatal(err)
		}
		// reflect.DeepEqual tells nil from empty, which cmp does too; cmp shows where.
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
			cmp.AllowUnexported(engines.Opt[int]{}, engines.Opt[uint64]{}, engines.Opt[float64]{}, engines.Opt[bool]{})); diff != "" {
			t.Fatalf("(-sent +got):\n%s", diff)
		}
		if !got.Equal(want) {
			t.Fatal("not Equal")
		}
	})
}

func TestNothingIsAnInventoryOfNothing(t *testing.T) {
	inv, err := convert.InventoryFromWire(nil)
	if err != nil || !inv.Equal(&engines.Inventory{}) {
		t.Errorf("%+v, %v", inv, err)
	}
	state, err := convert.NodeStateFromWire(nil)
	if err != nil || !state.Equal(engines.NodeState{}) {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestInventoriesThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name, want string
		m          *fleetpb.Inventory
	}{
		{"address", `inventory.interfaces[1]: addresses[0]: not a message of the protocol: prefix: netip.ParsePrefix("10.0.0.1"): no '/'`, &fleetpb.Inventory{
			Interfaces: []*fleetpb.NetInterface{{}, {Addresses: []*fleetpb.NetAddress{{Prefix: "10.0.0.1"}}}},
		}},
		{"rows of links", `not a message of the protocol: inventory.links: 1 rows; want one for each of 0 cards`, &fleetpb.Inventory{Links: []*fleetpb.LinkRow{{}}}},
		{"columns of links", `not a message of the protocol: inventory.links: row 0 has 0 entries; want one for each of 1 cards`, &fleetpb.Inventory{
			Gpus: []*fleetpb.GPU{{}}, Links: []*fleetpb.LinkRow{{}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := convert.InventoryFromWire(c.m)
			if !errors.Is(err, convert.ErrMessage) || err.Error() != c.want {
				t.Errorf("error %q; want %q", err, c.want)
			}
		})
	}
	for _, age := range []*fleetpb.NodeState{{GpusAge: durationpb.New(-1)}, {PortsAge: durationpb.New(-1)}} {
		if _, err := convert.NodeStateFromWire(age); !errors.Is(err, convert.ErrMessage) {
			t.Errorf("%v: error %v", age, err)
		}
	}
}

// A measure that is no number is not known: JSON has no word for it.
func TestNoNumberIsNotKnown(t *testing.T) {
	state, err := convert.NodeStateFromWire(&fleetpb.NodeState{Gpus: []*fleetpb.GPUState{{UtilizationRatio: new(math.NaN()), TemperatureC: new(math.Inf(1))}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, known := state.GPUs[0].UtilizationRatio.Get(); known {
		t.Error("a ratio that is no number is known")
	}
	if _, known := state.GPUs[0].TemperatureC.Get(); known {
		t.Error("an endless temperature is known")
	}
}
