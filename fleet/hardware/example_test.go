package hardware_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/llmgw/llmgw/fleet/hardware"
)

// A machine that claims to have cards.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	cards := filepath.Join(dir, "cards.yaml")
	err = os.WriteFile(cards, []byte(`
host: {hostname: a1}
gpus:
- {count: 2, name: NVIDIA H100 80GB HBM3, memory_bytes: 85520809984}
`), 0o644)
	if err != nil {
		panic(err)
	}

	cfg := hardware.DefaultConfig()
	cfg.Simulated = cards
	reader, err := hardware.New(cfg, hardware.Deps{})
	if err != nil {
		panic(err)
	}
	inv, err := reader.Inventory(context.Background())
	if err != nil {
		panic(err)
	}
	for _, g := range inv.GPUs {
		s, _ := inv.State.GPU(g.ID())
		fmt.Println(g.ID(), g.Name, s.MemoryFreeBytes, s.Health.State)
	}
	// Output:
	// SIM-a1-0 NVIDIA H100 80GB HBM3 85520809984 healthy
	// SIM-a1-1 NVIDIA H100 80GB HBM3 85520809984 healthy
}
