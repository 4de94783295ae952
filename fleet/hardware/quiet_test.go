package hardware_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

// A machine that is as it should be is not worth a line a card at every start; a
// card that is not is.
func TestHealthyCardsAreQuiet(t *testing.T) {
	for _, c := range []struct {
		machine *hardwaretest.Machine
		speaks  bool
	}{
		{hardwaretest.H100x8(t, hardwaretest.Options{Hostname: "a1"}), false},
		{hardwaretest.LostCard(t, hardwaretest.Options{Hostname: "a2"}), true},
	} {
		var log strings.Builder
		cfg := hardware.DefaultConfig()
		cfg.Root = c.machine.Root
		reader, err := hardware.New(cfg, hardware.Deps{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reader.Inventory(t.Context()); err != nil {
			t.Fatal(err)
		}
		text := log.String()
		if strings.Contains(text, "to=healthy") || strings.Contains(text, "to=excluded") != c.speaks {
			t.Errorf("want a line: %t; log:\n%s", c.speaks, text)
		}
	}
}
