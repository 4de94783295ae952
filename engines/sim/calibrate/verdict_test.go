package calibrate_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines/sim"
	"github.com/llmgw/llmgw/engines/sim/calibrate"
)

// An engine that is slower in the check than it was before gives a report that
// says so, loudly, and one that stays as it is does not.
func TestPoor(t *testing.T) {
	for _, tt := range []struct {
		name      string
		late      time.Duration // each answer of the check
		tolerance float64
		poor      bool
	}{
		{"as it was", 0, 0.25, false},
		{"slower", time.Second, 0.25, true},
		{"slower and tolerated", time.Second, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, err := sim.New(sim.DefaultConfig(), sim.Deps{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = e.Close() })
				var checking atomic.Bool
				engine := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if checking.Load() {
						time.Sleep(tt.late) // of virtual time
					}
					e.ServeHTTP(w, r)
				})
				cfg := config()
				cfg.Repeats, cfg.MaxConcurrency, cfg.MaxPromptTokens, cfg.ToleranceRatio = 2, 4, 512, tt.tolerance
				r, err := calibrate.Run(t.Context(), cfg, calibrate.Deps{
					Client:   serve(t, engine),
					Progress: func(step string) { checking.Store(strings.HasPrefix(step, "a check")) },
				})
				if err != nil {
					t.Fatal(err)
				}
				var b bytes.Buffer
				if err := r.WriteYAML(&b); err != nil {
					t.Fatal(err)
				}
				switch err := r.Err(); {
				case !tt.poor && (err != nil || strings.Contains(b.String(), "DO NOT USE")):
					t.Errorf("error %v, file\n%s", err, b.String())
				case tt.poor && (!errors.Is(err, calibrate.ErrPoor) || !strings.Contains(err.Error(), "TTFT in the check") || !strings.Contains(err.Error(), "at most 25 %")):
					t.Errorf("error %v, want %v that names TTFT", err, calibrate.ErrPoor)
				case tt.poor && !strings.HasPrefix(b.String(), "# DO NOT USE THIS: TTFT in the check is "):
					t.Errorf("the file begins with no warning:\n%s", b.String())
				}
			})
		})
	}
}

// Steps near what timers can do are told with a warning.
func TestShortStepWarns(t *testing.T) {
	for step, want := range map[time.Duration]bool{time.Millisecond: true, 10 * time.Millisecond: false} {
		timing := sim.DefaultConfig().Timing
		timing.Step = step
		m, err := calibrate.Fit(truth(timing, 8192, func() float64 { return 1 }))
		if err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(strings.Join(m.Warnings, "\n"), "timers"); warned != want {
			t.Errorf("step %v: warnings %q", step, m.Warnings)
		}
	}
}
