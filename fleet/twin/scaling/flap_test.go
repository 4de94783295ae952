//go:build !race

package scaling_test

// One goroutine, so that the race detector would find nothing here, in ten times as
// long. CI runs it without.

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/fleet/twin/scaling"
)

// A load that swings between little and more than all replicas carry, slow or fast and
// in whatever bursts, never makes the number of replicas flap: by load at most one
// decision in a window, none down within the longer window after another, and no more
// loads than starts of replicas could follow one another.
func TestNeverFlaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := small(2, scaling.Model{Name: "m", Client: "c", Size: "s", Max: 4})
		cfg.Sizes[0].LoadTime = time.Duration(rapid.IntRange(0, 120).Draw(rt, "a load")) * time.Second
		cfg.Control.Scale.UpWindow = time.Duration(rapid.IntRange(5, 60).Draw(rt, "up")) * time.Second
		cfg.Control.Scale.DownWindow = cfg.Control.Scale.UpWindow * time.Duration(rapid.IntRange(1, 8).Draw(rt, "down"))
		cfg.Seed = rapid.Uint64().Draw(rt, "seed")
		cfg.Sizes[0].Speed = 0.02
		low, high := rapid.Float64Range(0, 0.5).Draw(rt, "low"), rapid.Float64Range(0.5, 3).Draw(rt, "high")
		cv := rapid.SampledFrom([]float64{0.1, 1, 3, 10}).Draw(rt, "cv")
		half := rapid.IntRange(1, 2).Draw(rt, "half a period")
		var windows []scaling.Window
		for i := range 6 {
			w := scaling.Window{Start: time.Duration(i) * 10 * time.Minute, PerSecond: low, CV: cv}
			if i/half%2 == 1 {
				w.PerSecond = high
			}
			windows = append(windows, w)
		}
		tw, err := scaling.New(cfg, scaling.Autoscaled, scaling.NewRates("made", map[string][]scaling.Window{"c": windows}))
		if err != nil {
			rt.Fatal(err)
		}
		r, err := tw.Run(t.Context())
		if err != nil {
			rt.Fatal(err)
		}
		decisions := tw.Decisions()
		for i := 1; i < len(decisions); i++ {
			last, d := decisions[i-1], decisions[i]
			apart := d.At - last.At
			switch byLoad := d.From > 0 && last.From > 0; {
			case byLoad && apart < cfg.Control.Scale.UpWindow:
				rt.Fatalf("%v after %v: %+v", apart, last, d)
			case byLoad && d.To < d.From && d.To > 0 && apart < cfg.Control.Scale.DownWindow:
				rt.Fatalf("down %v after %v: %+v", apart, last, d)
			case d.To > d.From && last.To > last.From && apart < cfg.Sizes[0].LoadTime:
				rt.Fatalf("another start %v after one that takes %v: %+v", apart, cfg.Sizes[0].LoadTime, d)
			}
		}
		if most := 4 + int(cfg.Duration/(cfg.Control.Scale.UpWindow+cfg.Sizes[0].LoadTime)); r.Decisions > 2*most {
			rt.Fatalf("%d decisions in %v", r.Decisions, cfg.Duration)
		}
	})
}
