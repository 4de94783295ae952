package engines_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/engines"
)

func TestOptTellsMissingFromZero(t *testing.T) {
	type doc struct {
		A engines.Opt[uint64]  `json:"a,omitzero" yaml:"a"`
		B engines.Opt[float64] `json:"b,omitzero" yaml:"b"`
		C engines.Opt[bool]    `json:"c,omitzero" yaml:"c"`
	}
	tests := []struct {
		name, text string
		want       doc
	}{
		{"nothing", `{}`, doc{}},
		{"zeros", `{"a":0,"b":0,"c":false}`, doc{A: engines.Known[uint64](0), B: engines.Known(0.0), C: engines.Known(false)}},
		{"values", `{"a":18446744073709551615,"b":1.5,"c":true}`, doc{A: engines.Known[uint64](1<<64 - 1), B: engines.Known(1.5), C: engines.Known(true)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var fromJSON, fromYAML doc
			if err := json.Unmarshal([]byte(tt.text), &fromJSON); err != nil || fromJSON != tt.want {
				t.Errorf("from JSON %+v, %v; want %+v", fromJSON, err, tt.want)
			}
			if err := yaml.Unmarshal([]byte(tt.text), &fromYAML); err != nil || fromYAML != tt.want {
				t.Errorf("from YAML %+v, %v; want %+v", fromYAML, err, tt.want)
			}
			if text, err := json.Marshal(tt.want); err != nil || string(text) != tt.text {
				t.Errorf("to JSON %s, %v; want %s", text, err, tt.text)
			}
		})
	}

	var nulls doc
	nulls.A = engines.Known[uint64](7)
	if err := json.Unmarshal([]byte(`{"a":null}`), &nulls); err != nil || nulls != (doc{}) {
		t.Errorf("null gives %+v, %v; want what is not known", nulls, err)
	}
	for _, bad := range []string{`{"a":-1}`, `{"a":"many"}`, `{"c":1}`} {
		if err := json.Unmarshal([]byte(bad), new(doc)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if got := []string{engines.Known(0).String(), (engines.Opt[int]{}).String()}; got[0] != "0" || got[1] != "unknown" {
		t.Errorf("String gives %q, want 0 and unknown", got)
	}
	if (engines.Opt[bool]{}).Is(false) || !engines.Known(false).Is(false) {
		t.Error("what is not known is taken for false")
	}
}

// full returns an inventory in which no field has its zero value.
func full() *engines.Inventory {
	inv := new(engines.Inventory)
	n := 0
	fill(reflect.ValueOf(inv).Elem(), &n)
	return inv
}

func fill(v reflect.Value, n *int) {
	*n++
	switch p := v.Addr().Interface().(type) {
	case *engines.Opt[int]:
		*p = engines.Known(*n)
		return
	case *engines.Opt[uint64]:
		*p = engines.Known(uint64(*n))
		return
	case *engines.Opt[float64]:
		*p = engines.Known(float64(*n))
		return
	case *engines.Opt[bool]:
		*p = engines.Known(true)
		return
	case *netip.Prefix:
		*p = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(*n)}), 24)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.String:
		v.SetString("s" + strconv.Itoa(*n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("fill knows no " + v.Type().String())
	}
}

// leaves calls do with every value below v that has no values below it.
func leaves(v reflect.Value, path string, do func(path string, v reflect.Value)) {
	switch {
	case v.Kind() == reflect.Struct && v.Type().PkgPath() == "github.com/llmgw/llmgw/engines" && v.Type().Field(0).IsExported():
		for i := range v.NumField() {
			leaves(v.Field(i), path+"."+v.Type().Field(i).Name, do)
		}
	case v.Kind() == reflect.Slice:
		for i := range v.Len() {
			leaves(v.Index(i), path+"["+strconv.Itoa(i)+"]", do)
		}
		do(path, v) // its length, too
	default:
		do(path, v)
	}
}

// No field is forgotten by Equal, by Clone or on the way through JSON.
func TestInventoryFieldByField(t *testing.T) {
	original := full()
	seen := 0
	mutated := full()
	leaves(reflect.ValueOf(mutated).Elem(), "Inventory", func(path string, v reflect.Value) {
		seen++
		before := reflect.New(v.Type()).Elem()
		before.Set(v)
		v.SetZero()
		if original.Equal(mutated) {
			t.Errorf("Equal does not look at %s", path)
		}
		changes := strings.HasPrefix(path, "Inventory.State.") ||
			strings.HasPrefix(path, "Inventory.Interfaces[") && (strings.HasSuffix(path, "].Up") || strings.HasSuffix(path, "].SpeedMbps"))
		if original.SameHardware(mutated) != changes {
			t.Errorf("SameHardware = %v without %s", !changes, path)
		}
		v.Set(before)
	})
	if seen < 100 || !original.Equal(mutated) {
		t.Fatalf("%d fields looked at, equal in the end: %v", seen, original.Equal(mutated))
	}

	clone := original.Clone()
	if !original.Equal(clone) {
		t.Fatalf("a clone differs:\n%s", cmp.Diff(original, clone, cmp.AllowUnexported(engines.Opt[int]{})))
	}
	leaves(reflect.ValueOf(clone).Elem(), "Inventory", func(_ string, v reflect.Value) { v.SetZero() })
	if !original.Equal(full()) {
		t.Error("a clone shares memory with its original")
	}

	text, err := json.Marshal(original)
	if err != nil {
		t.Fatal(err)
	}
	var back engines.Inventory
	if err := json.Unmarshal(text, &back); err != nil || !original.Equal(&back) {
		t.Errorf("it comes back from JSON changed: %v\n%s", err, text)
	}
	if text, err := json.Marshal(engines.Inventory{}); err != nil || string(text) != `{"host":{},"cpu":{},"memory":{},"state":{}}` {
		t.Errorf("of nothing known JSON says %s, %v", text, err)
	}
}

func TestInventorySortKeepsStateInStep(t *testing.T) {
	inv := engines.Inventory{
		CPU:        engines.CPU{Features: []string{"fma", "avx2"}},
		NUMA:       []engines.NUMANode{{ID: 1}, {ID: 0}},
		GPUs:       []engines.GPU{{Index: 1, UUID: "GPU-a"}, {Index: 0, UUID: "GPU-b"}},
		Ports:      []engines.FabricPort{{Device: "mlx5_10", Port: 1}, {Device: "mlx5_2", Port: 2}, {Device: "mlx5_2", Port: 1}},
		Interfaces: []engines.NetInterface{{Name: "lo"}, {Name: "eth10"}, {Name: "eth9"}},
		State: engines.NodeState{
			GPUsAge: time.Second,
			GPUs: []engines.GPUState{
				{GPU: "GPU-a", Foreign: []engines.GPUProcess{{PID: 9}, {PID: 3}}},
				{GPU: "GPU-b"},
			},
			Ports: []engines.PortState{{Device: "mlx5_10", Port: 1}, {Device: "mlx5_2", Port: 1}},
		},
	}
	inv.Sort()
	var got []string
	for _, g := range inv.State.GPUs {
		got = append(got, g.GPU)
	}
	for _, p := range inv.Ports {
		got = append(got, p.Device+"/"+strconv.Itoa(p.Port))
	}
	for _, p := range inv.State.Ports {
		got = append(got, p.Device)
	}
	for _, n := range inv.Interfaces {
		got = append(got, n.Name)
	}
	want := []string{"GPU-b", "GPU-a", "mlx5_2/1", "mlx5_2/2", "mlx5_10/1", "mlx5_2", "mlx5_10", "eth9", "eth10", "lo"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if g, ok := inv.State.GPU("GPU-a"); !ok || g.Foreign[0].PID != 3 {
		t.Errorf("state of GPU-a = %+v, %v", g, ok)
	}
	if _, ok := inv.GPU("GPU-c"); ok {
		t.Error("a card is found that is not there")
	}
}

func TestGPUID(t *testing.T) {
	for want, g := range map[string]engines.GPU{
		"GPU-1":            {Index: 3, UUID: "GPU-1", BusID: "0000:1a:00.0"},
		"pci:0000:1a:00.0": {Index: 3, BusID: "0000:1a:00.0"},
		"index:3":          {Index: 3},
	} {
		if got := g.ID(); got != want {
			t.Errorf("ID of %+v = %q, want %q", g, got, want)
		}
	}
}

// Nothing is usable but what was read and found so.
func TestHealthUsable(t *testing.T) {
	for state, want := range map[engines.HealthState]bool{
		engines.Healthy: true, engines.RestartEngine: true, engines.Excluded: false, "": false, "new-word": false,
	} {
		if got := (engines.Health{State: state}).Usable(); got != want {
			t.Errorf("usable when %q: %v, want %v", state, got, want)
		}
	}
}

func TestSharedBridges(t *testing.T) {
	gpu := []string{"0000:15:01.0", "0000:16:00.0", "0000:17:00.0"}
	nic := []string{"0000:15:01.0", "0000:16:00.0", "0000:17:01.0"}
	if got := engines.SharedBridges(gpu, nic); got != 2 {
		t.Errorf("behind one switch: %d bridges, want 2", got)
	}
	if got := engines.SharedBridges(gpu, nil); got != 0 {
		t.Errorf("with an unknown path: %d bridges, want 0", got)
	}
}
