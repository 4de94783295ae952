//go:build !race

package cli_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/llmgw/llmgw/cmd/internal/cli"
	"github.com/llmgw/llmgw/fleet/twin/scaling"
)

// On the two days after the one by which the defaults were chosen, models on demand that
// scale take at most 60 % of the card-hours of a fleet that is always on, and serve at
// least 95 % as many requests in time.
func TestSimulateScaleDays(t *testing.T) {
	for _, from := range []string{"24h", "48h"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			args := scaleExample("--from", from, "--policy", "static", "--policy", "autoscaled", "--json")
			if code := cli.Main(t.Context(), args, cli.Streams{Out: &out, Err: &errs}); code != 0 {
				t.Fatalf("exit code %d: %s", code, &errs)
			}
			var static, auto scaling.Report
			for in, r := json.NewDecoder(&out), &static; in.More(); r = &auto {
				if err := in.Decode(r); err != nil {
					t.Fatal(err)
				}
			}
			cards, good := auto.CardHours/static.CardHours, float64(auto.Good)/float64(static.Good)
			if cards > 0.6 || good < 0.95 {
				t.Errorf("from %s: %.3f of the card-hours, %.3f of what is in time", from, cards, good)
			}
		})
	}
}
