package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/adhocore/gronx"

	"github.com/llmgw/llmgw/engines"
)

// Prewarm is a time at which a model is up before anybody asks for it.
type Prewarm struct {
	// Cron is when it begins: five fields (minute, hour, day of the month, month, day
	// of the week), or @hourly, @daily, @weekly, @monthly, @yearly. Required; it has
	// to fire at some time.
	Cron string `yaml:"cron"`
	// Timezone is the IANA name of the zone that Cron is in. Default "", which is UTC.
	// A time that a change of the clocks leaves out is the one that the clocks show
	// instead; one that comes twice counts once.
	Timezone string `yaml:"timezone"`
	// For is how long it lasts from there. Required; 1m to 744h.
	For time.Duration `yaml:"for"`
	// Min is how many replicas run at least meanwhile. Default 0, which is 1; at most
	// max.
	Min int `yaml:"min"`
}

// longestPrewarm bounds [Prewarm.For]: a month.
const longestPrewarm = 31 * 24 * time.Hour

// Floor returns how many replicas run at least at a moment: min, or what a
// pre-warming asks for that has begun and is not over. why is that one's Cron, empty
// if none raises the number.
func (s *Scaling) Floor(now time.Time) (least int, why string) {
	least = s.Min
	for i := range s.Prewarm {
		p := &s.Prewarm[i]
		if n := max(p.Min, 1); n > least && p.active(now) {
			least, why = n, p.Cron
		}
	}
	return min(least, s.Max), why
}

// active reports whether the pre-warming has begun at some time and is not over.
func (p *Prewarm) active(now time.Time) bool {
	zone, err := time.LoadLocation(p.Timezone)
	if err != nil {
		return false // it was valid when it was written; this machine does not know the zone
	}
	now = now.In(zone)
	// Fields are held against what clocks on the wall show, which goes on evenly but
	// for the hour that comes twice: seen from an hour before, the first of the two
	// counts.
	for _, wall := range []time.Time{onWall(now), onWall(now.Add(-time.Hour)).Add(time.Hour)} {
		at, err := gronx.PrevTickBefore(p.Cron, wall, true)
		if err != nil {
			continue
		}
		begun := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), 0, 0, zone)
		if first := begun.Add(-time.Hour); onWall(first).Equal(onWall(begun)) {
			begun = first
		}
		if !begun.After(now) && now.Sub(begun) < p.For {
			return true
		}
	}
	return false
}

// onWall is what a clock shows, as a time of a zone whose clocks never change.
func onWall(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// fault says what is wrong with the pre-warming of a model that runs at most most
// replicas.
func (p *Prewarm) fault(most int) (key, problem string) {
	switch {
	case p.Cron == "":
		return "cron", `is missing; want five fields, as in "0 8 * * 1-5" for eight o'clock from Monday to Friday`
	case !cronOK(p.Cron):
		return "cron", fmt.Sprintf(`%.80q is no cron expression of five fields, as "0 8 * * 1-5" is, nor one of %s`, p.Cron, strings.Join(macros, ", "))
	case !fires(p.Cron):
		return "cron", fmt.Sprintf("%q never fires; want days that there are", p.Cron)
	case p.For < time.Minute || p.For > longestPrewarm:
		return "for", fmt.Sprintf("%v; want 1m to %v", p.For, longestPrewarm)
	case p.Min < 0 || p.Min > most:
		return "min", fmt.Sprintf("%d is out of range; want 1 to max, %d", p.Min, most)
	}
	if _, err := time.LoadLocation(p.Timezone); err != nil || p.Timezone == "Local" {
		return "timezone", fmt.Sprintf("%.80q is not known here; want an IANA name such as Europe/Berlin, or none for UTC", p.Timezone)
	}
	return "", ""
}

var macros = []string{"@hourly", "@daily", "@weekly", "@monthly", "@yearly"} //nolint:gochecknoglobals // constant table

// cronOK reports whether text is an expression of the kinds that are documented.
// Others have seconds and years, and a hash of names.
func cronOK(text string) bool {
	if slices.Contains(macros, text) {
		return true
	}
	if len(text) > maxLabelBytes || len(strings.Fields(text)) != 5 || strings.HasPrefix(text, "@") {
		return false
	}
	return gronx.IsValid(text)
}

// fires reports whether an expression ever does.
func fires(text string) bool {
	_, err := gronx.NextTickAfter(text, time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), true)
	return err == nil
}

// validateScaling reports what is wrong with how many replicas run.
func (m *Model) validateScaling(fault func(key, format string, args ...any)) {
	s := m.Scaling
	switch {
	case m.Profile == nil:
		fault("scaling", "stands without a profile, so there is nothing to run; add a profile, or remove it")
		return
	case s.Min < 0 || s.Min > MaxReplicas:
		fault("scaling.min", "%d is out of range; want 0 to %d", s.Min, MaxReplicas)
		return
	case s.Max < 0 || s.Max > MaxReplicas:
		fault("scaling.max", "%d is out of range; want 0 to %d", s.Max, MaxReplicas)
		return
	case s.Min > s.Max:
		fault("scaling.max", "%d is less than min, %d; want at least that", s.Max, s.Min)
		return
	}
	if s.IdleTimeout != 0 && (s.IdleTimeout < leastIdle || s.IdleTimeout > engines.LongestWait) {
		fault("scaling.idle_timeout", "%v; want %v to %v, or 0 for the server's", s.IdleTimeout, leastIdle, engines.LongestWait)
	}
	if !(s.TargetLoad >= 0 && s.TargetLoad <= 1) { // nor no number at all
		fault("scaling.target_load", "%v is out of range; want more than 0 and at most 1, or 0 for the server's", s.TargetLoad)
	}
	if len(s.Prewarm) > maxPrewarms {
		fault("scaling.prewarm", "%d entries; at most %d are accepted", len(s.Prewarm), maxPrewarms)
		return
	}
	if len(s.Prewarm) > 0 && s.Max == 0 {
		fault("scaling.prewarm", "stands beside a max of 0, with which none may run; raise max, or remove it")
		return
	}
	for i := range s.Prewarm {
		if key, problem := s.Prewarm[i].fault(s.Max); problem != "" {
			fault(fmt.Sprintf("scaling.prewarm[%d].%s", i, key), "%s", problem)
		}
	}
}

const (
	maxPrewarms = 64          // of one model
	leastIdle   = time.Second // of Scaling.IdleTimeout
)
