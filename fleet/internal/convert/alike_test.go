package convert_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/internal/convert"
)

// machine is an inventory with texts of its own.
func machine(t *testing.T) *engines.Inventory {
	t.Helper()
	text, err := os.ReadFile("../../hardware/testdata/h100x8.json")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "//") {
			lines = append(lines, line)
		}
	}
	inv := new(engines.Inventory)
	if err := json.Unmarshal([]byte(strings.Join(lines, "")), inv); err != nil {
		t.Fatal(err)
	}
	return inv
}

// Machines that are alike share their texts and lists, and each says what it said.
func TestAlike(t *testing.T) {
	var alike convert.Alike
	first, second := machine(t), machine(t)
	second.GPUs[1].Name, second.GPUs[2].PCIPath[0] = "another card", "another way"
	want := machine(t)
	want.GPUs[1].Name, want.GPUs[2].PCIPath[0] = "another card", "another way"
	alike.Share(first)
	alike.Share(second)
	for _, p := range []struct{ got, want *engines.Inventory }{{first, machine(t)}, {second, want}} {
		if diff := cmp.Diff(p.want, p.got, cmpopts.EquateComparable()); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	}
	if a, b := first.GPUs[0].Name, second.GPUs[0].Name; unsafe.StringData(a) != unsafe.StringData(b) {
		t.Error("the name of a card is there twice")
	}
	if &first.GPUs[0].PCIPath[0] != &second.GPUs[0].PCIPath[0] || &first.Links[3][0] != &second.Links[3][0] || &first.CPU.Features[0] != &second.CPU.Features[0] {
		t.Error("lists are there twice")
	}
}

// Lists that only look alike stay what they are, and what no two machines have in
// common is not kept for ever.
func TestAlikeIsBounded(t *testing.T) {
	var alike convert.Alike
	odd := &engines.Inventory{Links: [][]string{{"a\x00b"}, {"a", "b"}}}
	alike.Share(odd)
	if len(odd.Links[0]) != 1 || len(odd.Links[1]) != 2 {
		t.Errorf("%q", odd.Links)
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				inv := &engines.Inventory{Host: engines.Host{Kernel: fmt.Sprint(g, i)}, CPU: engines.CPU{Features: []string{fmt.Sprint("f", g, i)}}}
				alike.Share(inv)
				if inv.Host.Kernel != fmt.Sprint(g, i) || inv.CPU.Features[0] != fmt.Sprint("f", g, i) {
					t.Errorf("%+v", inv)
				}
			}
		})
	}
	wg.Wait()
}
