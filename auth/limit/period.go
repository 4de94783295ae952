package limit

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Period is how often a budget begins anew. The zero value is none.
type Period uint8

// The periods.
const (
	PeriodDay   Period = iota + 1 // from midnight to midnight
	PeriodWeek                    // from Monday's midnight, as ISO 8601 has it
	PeriodMonth                   // from midnight of the first
	PeriodTotal                   // once, for the subject's whole life
)

// String returns the period's name.
func (p Period) String() string {
	switch p {
	case PeriodDay:
		return "day"
	case PeriodWeek:
		return "week"
	case PeriodMonth:
		return "month"
	case PeriodTotal:
		return "total"
	default:
		return "unset"
	}
}

// Budget bounds what a subject spends in a period. The zero value is no bound.
// Make it with [NewBudget], once, where the subject is read: it looks up the
// time zone.
type Budget struct {
	Nanos  int64 // 10^-9 of the currency unit
	Period Period
	zone   *time.Location // nil is UTC
}

// NewBudget returns a budget, or what is wrong with it. zone is the IANA time
// zone in which days, weeks and months begin, such as "Europe/Berlin"; empty is
// UTC. Zones are found where [time.LoadLocation] finds them; a binary that must
// know them everywhere imports time/tzdata.
func NewBudget(nanos int64, p Period, zone string) (Budget, error) {
	return new(Zones).NewBudget(nanos, p, zone)
}

// Zones remembers time zones, so that many budgets share what is known of one:
// some kilobytes. The zero value is ready. It may be used concurrently.
type Zones struct {
	known sync.Map // name to *time.Location; only names that there are
}

// NewBudget is [NewBudget], which reads a zone once.
func (z *Zones) NewBudget(nanos int64, p Period, zone string) (Budget, error) {
	b := Budget{Nanos: nanos, Period: p}
	var faults []error
	if nanos <= 0 || nanos > mostSpent {
		faults = append(faults, fmt.Errorf("limit: a budget of %d; want 1 to %d, in 10^-9 of the currency unit", nanos, int64(mostSpent)))
	}
	if p < PeriodDay || p > PeriodTotal {
		faults = append(faults, fmt.Errorf("limit: budget period %d; want day, week, month or total", p))
	}
	loc, err := z.load(zone)
	if err != nil {
		faults = append(faults, fmt.Errorf("limit: budget zone %q; want an IANA time zone such as Europe/Berlin, or none for UTC: %w", zone, err))
	}
	b.zone = loc
	if err := errors.Join(faults...); err != nil {
		return Budget{}, err
	}
	return b, nil
}

func (z *Zones) load(zone string) (*time.Location, error) {
	if zone == "" {
		return nil, nil //nolint:nilnil // nil is UTC
	}
	if strings.EqualFold(zone, "local") {
		return nil, errors.New("it is another one on another machine")
	}
	if loc, ok := z.known.Load(zone); ok {
		return loc.(*time.Location), nil //nolint:forcetypeassert // nothing else is in it
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, err
	}
	known, _ := z.known.LoadOrStore(zone, loc)
	return known.(*time.Location), nil //nolint:forcetypeassert // nothing else is in it
}

// Bounded reports whether there is a budget at all.
func (b Budget) Bounded() bool { return b.Period != 0 }

// Zone returns the name of the time zone.
func (b Budget) Zone() string { return b.location().String() }

func (b Budget) location() *time.Location {
	if b.zone == nil {
		return time.UTC
	}
	return b.zone
}

// sameShape reports whether both begin anew at the same times.
func (b Budget) sameShape(c Budget) bool {
	return b.Period == c.Period && (b.zone == c.zone || b.Zone() == c.Zone())
}

// Around returns when the period that holds now began and when the next one
// begins, in UTC; both are zero for PeriodTotal. A day begins with the first
// instant of its date and ends with the first of a later one. So it has 23 or 25
// hours, or 23 and a half, where clocks are put forward or back; begins at one
// where they go from midnight to one; and an hour that comes twice around
// midnight is not another day.
func (b Budget) Around(now time.Time) (start, end time.Time) {
	if b.Period == PeriodTotal || b.Period == 0 {
		return time.Time{}, time.Time{}
	}
	loc := b.location()
	y, m, d := now.In(loc).Date()
	// Where clocks go back across midnight it is for a while the day before
	// again; that belongs to the day that has begun.
	for !firstInstant(y, m, d+1, loc).After(now) {
		d++
	}
	switch b.Period {
	case PeriodWeek:
		// Weekday of the date, whatever the zone does with it.
		d -= (int(time.Date(y, m, d, 12, 0, 0, 0, time.UTC).Weekday()) + 6) % 7
		return firstInstant(y, m, d, loc), firstInstant(y, m, d+7, loc)
	case PeriodMonth:
		y, m, _ = time.Date(y, m, d, 12, 0, 0, 0, time.UTC).Date()
		return firstInstant(y, m, 1, loc), firstInstant(y, m+1, 1, loc)
	default:
		return firstInstant(y, m, d, loc), firstInstant(y, m, d+1, loc)
	}
}

// firstInstant returns the first instant whose date in loc is the given one or
// a later one. [time.Date] does not say which of two it returns where midnight
// comes twice, nor on which side where it never comes.
func firstInstant(y int, m time.Month, d int, loc *time.Location) time.Time {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, time.UTC) // as if loc were UTC
	// No zone was ever further from UTC than this.
	for at := midnight.Add(-26 * time.Hour); ; {
		begin, end := at.In(loc).ZoneBounds()
		_, offset := at.In(loc).Zone()
		first := midnight.Add(-time.Duration(offset) * time.Second)
		if first.Before(begin) {
			first = begin // the date began with the change of clocks
		}
		if end.IsZero() || first.Before(end) {
			return first.UTC()
		}
		at = end
	}
}
