package catalog_test

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the test's own

	"github.com/llmgw/llmgw/placement/catalog"
)

// at is a moment in Berlin, by its offset, so that each of an hour that comes twice
// can be meant.
func at(t *testing.T, s string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestFloor(t *testing.T) {
	office := catalog.Prewarm{Cron: "0 8 * * 1-5", Timezone: "Europe/Berlin", For: 10 * time.Hour, Min: 2}
	night := catalog.Prewarm{Cron: "30 2 * * *", Timezone: "Europe/Berlin", For: time.Hour}
	daily := catalog.Prewarm{Cron: "@daily", Timezone: "Europe/Berlin", For: 24 * time.Hour}
	for _, tt := range []struct {
		name    string
		scaling catalog.Scaling
		when    string
		want    int
	}{
		{"none", catalog.Scaling{Max: 4}, "2026-06-01T12:00:00+02:00", 0},
		{"before it", catalog.Scaling{Max: 4, Prewarm: []catalog.Prewarm{office}}, "2026-06-01T07:59:59+02:00", 0},
		{"as it begins", catalog.Scaling{Max: 4, Prewarm: []catalog.Prewarm{office}}, "2026-06-01T08:00:00+02:00", 2},
		{"seen from another zone", catalog.Scaling{Max: 4, Prewarm: []catalog.Prewarm{office}}, "2026-06-01T06:00:00Z", 2},
		{"as it ends", catalog.Scaling{Max: 4, Prewarm: []catalog.Prewarm{office}}, "2026-06-01T17:59:59+02:00", 2},
		{"after it", catalog.Scaling{Max: 4, Prewarm: []catalog.Prewarm{office}}, "2026-06-01T18:00:00+02:00", 0},
		{"no day for it", catalog.Scaling{Max: 4, Prewarm: []catalog.Prewarm{office}}, "2026-06-06T12:00:00+02:00", 0},
		{"less than min", catalog.Scaling{Min: 3, Max: 4, Prewarm: []catalog.Prewarm{office}}, "2026-06-01T12:00:00+02:00", 3},
		{"one, where none is said", catalog.Scaling{Max: 4, Prewarm: []catalog.Prewarm{night}}, "2026-06-01T02:45:00+02:00", 1},
		{"the larger of two", catalog.Scaling{Max: 4, Prewarm: []catalog.Prewarm{daily, office}}, "2026-06-01T12:00:00+02:00", 2},
		{"over midnight", catalog.Scaling{Max: 1, Prewarm: []catalog.Prewarm{{Cron: "0 22 * * *", Timezone: "Europe/Berlin", For: 4 * time.Hour}}}, "2026-06-02T01:59:00+02:00", 1},

		// On 29 March 2026 02:00 is 03:00.
		{"left out by the clocks, not yet", catalog.Scaling{Max: 1, Prewarm: []catalog.Prewarm{night}}, "2026-03-29T01:20:00+01:00", 0},
		{"left out by the clocks, after it", catalog.Scaling{Max: 1, Prewarm: []catalog.Prewarm{night}}, "2026-03-29T03:45:00+02:00", 1},
		{"a day of 23 hours", catalog.Scaling{Max: 1, Prewarm: []catalog.Prewarm{daily}}, "2026-03-29T23:59:00+02:00", 1},
		// On 25 October 2026 03:00 is 02:00.
		{"the first of two", catalog.Scaling{Max: 1, Prewarm: []catalog.Prewarm{night}}, "2026-10-25T02:40:00+02:00", 1},
		{"goes on as it comes again", catalog.Scaling{Max: 1, Prewarm: []catalog.Prewarm{night}}, "2026-10-25T02:20:00+01:00", 1},
		{"comes once", catalog.Scaling{Max: 1, Prewarm: []catalog.Prewarm{night}}, "2026-10-25T03:40:00+01:00", 0},
		{"a day of 25 hours", catalog.Scaling{Max: 1, Prewarm: []catalog.Prewarm{daily}}, "2026-10-25T12:00:00+01:00", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, why := tt.scaling.Floor(at(t, tt.when))
			if got != tt.want || (why != "") != (got > tt.scaling.Min) {
				t.Errorf("%d by %q, want %d", got, why, tt.want)
			}
		})
	}
}

// Whatever stands there for a cron expression: it is refused with a sentence, or its
// model has a floor at any time.
func FuzzPrewarm(f *testing.F) {
	for _, s := range []string{"0 8 * * 1-5", "@daily", "*/5 0-23/2 L 2 5#2", "0 0 29 2 *", "", "TZ=x * * * * *", "0 0 31 4,6 *", "@every 1m", "60 24 32 13 8", "* * * * * 2099"} {
		f.Add(s, "Europe/Berlin", int64(time.Hour), int64(1_770_000_000))
	}
	f.Fuzz(func(t *testing.T, cron, zone string, lasts, now int64) {
		m := runs(func(m *catalog.Model) {
			m.Scaling.Max = 3
			m.Scaling.Prewarm = []catalog.Prewarm{{Cron: cron, Timezone: zone, For: time.Duration(lasts), Min: 2}}
		})
		if err := catalog.Validate([]catalog.Model{m}); err != nil {
			if !strings.Contains(err.Error(), "scaling.prewarm[0].") {
				t.Errorf("%v", err)
			}
			return
		}
		if n, _ := m.Scaling.Floor(time.Unix(now%(1<<36), 0)); n != 1 && n != 2 {
			t.Errorf("the floor is %d", n)
		}
	})
}
