package hardware_test

import (
	"testing"

	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

// The tools' answers are files here: what is measured is what the agent itself
// does.
func BenchmarkInventory(b *testing.B) {
	b.Run("gpus=8/ports=8", func(b *testing.B) {
		r := newReader(b, config(hardwaretest.H100x8(b, hardwaretest.Options{})), hardware.Deps{})
		b.ReportAllocs()
		for b.Loop() {
			inventory(b, r)
		}
	})
}

func BenchmarkState(b *testing.B) {
	b.Run("gpus=8/ports=8", func(b *testing.B) {
		r := newReader(b, config(hardwaretest.H100x8(b, hardwaretest.Options{})), hardware.Deps{})
		b.ReportAllocs()
		for b.Loop() {
			state(b, r)
		}
	})
	b.Run("gpus=8/amd", func(b *testing.B) {
		r := newReader(b, config(hardwaretest.MI300Xx8(b, hardwaretest.Options{})), hardware.Deps{})
		b.ReportAllocs()
		for b.Loop() {
			state(b, r)
		}
	})
}
