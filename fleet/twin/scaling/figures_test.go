//go:build !race

package scaling_test

// One goroutine, so that the race detector would find nothing here, in ten times as
// long. CI runs it without.

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/fleet/twin/scaling"
)

// An hour of the recorded rates: what is on demand and scaled serves nearly as many in
// time as what is always on, with a part of the cards. Another seed gives other
// figures, the same one the same.
func TestHour(t *testing.T) {
	rates, err := scaling.OpenRates(filepath.Join("..", "..", "..", "examples", "traces", "servegen_clients.csv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := small(3,
		scaling.Model{Name: "small-1", Client: "m-small/5", Size: "s", Static: 1, Max: 3},
		scaling.Model{Name: "small-6", Client: "m-small/40", Size: "s", Static: 1, Max: 3},
		scaling.Model{Name: "mid-1", Client: "m-mid/60", Size: "s", Static: 2, Max: 3},
		scaling.Model{Name: "mid-4", Client: "m-mid/43", Size: "s", Static: 1, Max: 3},
		scaling.Model{Name: "mid-6", Client: "m-mid/76", Size: "s", Static: 1, Max: 3})
	cfg.Scale, cfg.From = 0.0007, 10*time.Hour
	static, _ := run(t, cfg, scaling.Static, rates)
	auto, _ := run(t, cfg, scaling.Autoscaled, rates)
	if static.Requests != auto.Requests || *static.GoodShare < 0.95 {
		t.Errorf("%d and %d requests; always on %.3f are good", static.Requests, auto.Requests, *static.GoodShare)
	}
	if float64(auto.Good) < 0.9*float64(static.Good) || auto.CardHours > 0.8*static.CardHours {
		t.Errorf("good %d of %d, card-hours %.1f of %.1f", auto.Good, static.Good, auto.CardHours, static.CardHours)
	}
	same := func(a, b *scaling.Report) bool {
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return string(x) == string(y)
	}
	if again, _ := run(t, cfg, scaling.Autoscaled, rates); !same(auto, again) {
		t.Error("the same seed gives other figures")
	}
	cfg.Seed = 2
	if other, _ := run(t, cfg, scaling.Autoscaled, rates); same(auto, other) {
		t.Error("another seed gives the same figures")
	}
}

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
