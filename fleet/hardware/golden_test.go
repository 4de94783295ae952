package hardware_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

var update = flag.Bool("update", false, "write testdata/*.json anew") //nolint:gochecknoglobals // a flag of the test binary

func newReader(tb testing.TB, cfg hardware.Config, deps hardware.Deps) *hardware.Reader {
	tb.Helper()
	r, err := hardware.New(cfg, deps)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func config(m *hardwaretest.Machine) hardware.Config {
	cfg := hardware.DefaultConfig()
	cfg.Root = m.Root
	return cfg
}

func inventory(tb testing.TB, r *hardware.Reader) *engines.Inventory {
	tb.Helper()
	inv, err := r.Inventory(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	return inv
}

// Each file of testdata is what is read of one machine, with a line for each
// card, port and so on. Lines that begin with // say what to look at.
func TestGolden(t *testing.T) {
	tests := map[string]struct {
		machine func(testing.TB, hardwaretest.Options) *hardwaretest.Machine
		fabrics []engines.Fabric
	}{
		"h100x8":        {hardwaretest.H100x8, []engines.Fabric{{Name: "ib-a", RateGbps: 400}}},
		"old-driver":    {hardwaretest.OldDriver, nil},
		"unknown-field": {hardwaretest.UnknownField, nil},
		"lost-card":     {hardwaretest.LostCard, nil},
		"mig":           {hardwaretest.MIG, nil},
		"gb10":          {hardwaretest.GB10, nil},
		"mi300x8":       {hardwaretest.MI300Xx8, nil},
		"cpu":           {hardwaretest.CPUOnly, []engines.Fabric{{Name: "ib-a", RateGbps: 400}}},
		"cpu-no-avx2":   {hardwaretest.CPUWithoutAVX2, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := config(tt.machine(t, hardwaretest.Options{}))
			cfg.Fabrics = tt.fabrics
			r := newReader(t, cfg, hardware.Deps{})
			inv := inventory(t, r)

			file := filepath.Join("testdata", name+".json")
			comments, want := golden(t, file)
			got := strings.ReplaceAll(render(t, inv), cfg.Root, "ROOT")
			if *update {
				if err := os.WriteFile(file, []byte(comments+got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got); -update writes it anew:\n%s", file, diff)
			}

			again := inventory(t, r)
			if !inv.SameHardware(again) {
				t.Errorf("a second reading differs:\n%s", cmp.Diff(got, render(t, again)))
			}
			state, err := r.State(t.Context())
			if err != nil || !state.Equal(again.State) {
				t.Errorf("State differs from that of the inventory, error %v:\n%s", err, cmp.Diff(render(t, again), render(t, &engines.Inventory{State: state})))
			}
		})
	}
}

// golden returns the comments of a file and the rest.
func golden(t *testing.T, file string) (comments, rest string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		if *update {
			return "", ""
		}
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "//") {
			comments += line
		} else {
			rest += line
		}
	}
	return comments, rest
}

// render writes an inventory as JSON, of which each element of a list has one
// line.
func render(t *testing.T, inv *engines.Inventory) string {
	t.Helper()
	text, err := json.Marshal(inv)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	layOut(t, &b, text, "")
	b.WriteString("\n")
	return b.String()
}

// layOut breaks lines in what is above the elements of lists.
func layOut(t *testing.T, b *strings.Builder, text json.RawMessage, indent string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	open, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	first, inner := true, indent+" "
	next := func() {
		if !first {
			b.WriteString(",")
		}
		first = false
		b.WriteString("\n" + inner)
	}
	switch open {
	case json.Delim('['):
		b.WriteString("[")
		for d.More() {
			var element json.RawMessage
			if err := d.Decode(&element); err != nil {
				t.Fatal(err)
			}
			next()
			b.Write(element)
		}
		b.WriteString("]")
	case json.Delim('{'):
		b.WriteString("{")
		for d.More() {
			key, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			var value json.RawMessage
			if err := d.Decode(&value); err != nil {
				t.Fatal(err)
			}
			next()
			b.WriteString(`"` + key.(string) + `": `)
			if key == "state" || value[0] == '[' {
				layOut(t, b, value, inner)
			} else {
				b.Write(value)
			}
		}
		b.WriteString("}")
	default:
		b.Write(text)
	}
}
