package hardware_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

const simulatedH100 = `
host: {hostname: a1}
memory: {total_bytes: 2199023255552}
gpus:
- {count: 4, name: NVIDIA H100 80GB HBM3, memory_bytes: 85520809984, architecture: Hopper, numa: 0}
- {count: 4, name: NVIDIA H100 80GB HBM3, memory_bytes: 85520809984, architecture: Hopper, numa: 1}
`

// simulate returns a configuration of a machine without cards that claims to
// have some, and what writes its file anew.
func simulate(t *testing.T, text string) (hardware.Config, func(string)) {
	t.Helper()
	cfg := config(hardwaretest.CPUOnly(t, hardwaretest.Options{}))
	cfg.Simulated = filepath.Join(t.TempDir(), "cards.yaml")
	write := func(text string) {
		if err := os.WriteFile(cfg.Simulated, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	return cfg, write
}

func TestSimulatedCards(t *testing.T) {
	cfg, write := simulate(t, simulatedH100)
	cfg.InfiniBand = filepath.Join(hardwaretest.H100x8(t, hardwaretest.Options{}).Root, "sys/class/infiniband")
	cfg.Fabrics = []engines.Fabric{{Name: "ib-a", RateGbps: 400}}
	r := newReader(t, cfg, hardware.Deps{})
	inv := inventory(t, r)
	if inv.Host.Hostname != "a1" || !inv.Memory.TotalBytes.Is(2199023255552) || inv.CPU.Model != "Intel(R) Xeon(R) Gold 6330" {
		t.Errorf("what the file says and what it leaves out: %+v", inv)
	}
	if len(inv.GPUs) != 8 || len(inv.Ports) != 8 || len(inv.State.GPUs) != 8 {
		t.Fatalf("%d cards, %d states, %d ports; want 8 each", len(inv.GPUs), len(inv.State.GPUs), len(inv.Ports))
	}
	g, s := inv.GPUs[5], inv.State.GPUs[5]
	if g.UUID != "SIM-a1-5" || g.Index != 5 || g.Vendor != engines.SimulatedCard || !g.NUMA.Is(1) {
		t.Errorf("card 5 is %+v", g)
	}
	if s.Health.State != engines.Healthy || !s.MemoryFreeBytes.Is(85520809984) || !s.MemoryUsedBytes.Is(0) {
		t.Errorf("card 5 does %+v", s)
	}
	if f := inv.State.Fabrics[0]; f.Verdict != engines.Confirmed {
		t.Errorf("fabric %+v", f)
	}
	if len(inv.Warnings) != 1 || !strings.Contains(inv.Warnings[0].Problem, "simulated") {
		t.Errorf("warnings %+v", inv.Warnings)
	}

	// The file is the cards' state too.
	write(strings.Replace(simulatedH100, "numa: 1}", "numa: 1, state: {memory_used_bytes: 20809984, memory_errors: {uncorrected: 1}, foreign: [{pid: 7, name: train}]}}", 1))
	s = state(t, r).GPUs[5]
	if s.Health.State != engines.Excluded || !s.MemoryFreeBytes.Is(85500000000) || s.Foreign[0].PID != 7 {
		t.Errorf("card 5 does %+v", s)
	}
	if changed(t, r) {
		t.Error("a state is taken for another card")
	}
	write(strings.Replace(simulatedH100, "count: 4", "count: 5", 1))
	state(t, r)
	if !changed(t, r) {
		t.Error("a card more is not noticed")
	}

	// A file that cannot be read keeps what was.
	write("gpus: [")
	if s := state(t, r); len(s.GPUs) != 8 || s.GPUsAge == 0 || !strings.Contains(problems(s), "cards.yaml") {
		t.Errorf("%d cards of age %v, problems %q", len(s.GPUs), s.GPUsAge, problems(s))
	}
}

// What the how-to shows is what is read.
func TestExampleOfASimulatedMachine(t *testing.T) {
	const examples = "../../examples/simulated/"
	cfg := config(hardwaretest.CPUOnly(t, hardwaretest.Options{}))
	cfg.Simulated = examples + "cards.yaml"
	cfg.InfiniBand = filepath.Join(t.TempDir(), "infiniband")
	cfg.Fabrics = []engines.Fabric{{Name: "ib-a", RateGbps: 400}}
	for rate, want := range map[string]engines.Verdict{"400": engines.Confirmed, "200": engines.Contradicted} {
		if out, err := exec.CommandContext(t.Context(), "sh", examples+"infiniband.sh", cfg.InfiniBand, "8", rate).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		inv := inventory(t, newReader(t, cfg, hardware.Deps{}))
		if len(inv.GPUs) != 8 || len(inv.Ports) != 8 || inv.State.Fabrics[0].Verdict != want {
			t.Errorf("at %s Gbit/s %d cards, %d ports, fabric %+v; want 8, 8, %s", rate, len(inv.GPUs), len(inv.Ports), inv.State.Fabrics[0], want)
		}
	}
}

func TestSimulatedCardIsLostAndSplit(t *testing.T) {
	cfg, _ := simulate(t, `
memory: {total_bytes: 137438953472, unified: true}
links: [[X, NV18], [NV18, X]]
gpus:
- {name: NVIDIA GB10, state: {not_answering: fell off}}
- {name: NVIDIA GB10, uuid: SIM-x, mig: true, instances: [{uuid: MIG-1, profile: 1g.10gb}]}
`)
	inv := inventory(t, newReader(t, cfg, hardware.Deps{}))
	if h := inv.State.GPUs[0].Health; h.State != engines.Excluded || h.Reasons[0].Detail != "fell off" {
		t.Errorf("health %+v", h)
	}
	if g := inv.GPUs[1]; g.UUID != "SIM-x" || len(g.Instances) != 1 || !g.MemoryBytes.Is(137438953472) {
		t.Errorf("card 1 is %+v", g)
	}
	if len(inv.Links) != 2 || inv.Links[0][1] != "NV18" || inv.Links[0][0] != "X" {
		t.Errorf("links %v", inv.Links)
	}
}

func TestSimulatedFileIsMissing(t *testing.T) {
	cfg, _ := simulate(t, "")
	cfg.Simulated += ".none"
	_, err := newReader(t, cfg, hardware.Deps{}).Inventory(t.Context())
	if !errors.Is(err, hardware.ErrSimulated) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want %v", err, hardware.ErrSimulated)
	}
}

// A directory of ports that was named and is not there is no machine without
// ports.
func TestInfiniBandDirectoryIsMissing(t *testing.T) {
	cfg, _ := simulate(t, simulatedH100)
	cfg.InfiniBand = filepath.Join(t.TempDir(), "none")
	cfg.Fabrics = []engines.Fabric{{Name: "ib-a"}}
	inv := inventory(t, newReader(t, cfg, hardware.Deps{}))
	if f := inv.State.Fabrics[0]; f.Verdict != engines.Unknown || !strings.Contains(problems(inv.State), "ports: ") {
		t.Errorf("fabric %+v, problems %q", f, problems(inv.State))
	}
}

// Ports are looked at with each heartbeat.
func TestPortsChange(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	cfg := config(m)
	cfg.Fabrics = []engines.Fabric{{Name: "ib-a", RateGbps: 400, Devices: []string{"mlx5_0", "mlx5_1"}}}
	r := newReader(t, cfg, hardware.Deps{})
	if f, _ := inventory(t, r).State.Fabric("ib-a"); f.Verdict != engines.Confirmed {
		t.Fatalf("%+v", f)
	}
	m.SetPort("mlx5_1", "state", "1: DOWN")
	m.SetPort("mlx5_1", "phys_state", "3: Disabled")
	if f, _ := state(t, r).Fabric("ib-a"); f.Verdict != engines.Contradicted || f.Reasons[0] != "mlx5_1 port 1 is DOWN (Disabled)" {
		t.Errorf("%+v", f)
	}
}
