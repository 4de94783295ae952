package limit_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the rules of zones, wherever the test runs

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/auth/limit"
)

func budget(t testing.TB, p limit.Period, zone string) limit.Budget {
	t.Helper()
	b, err := limit.NewBudget(1000, p, zone)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func utc(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse("2006-01-02T15:04:05Z", s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestPeriods(t *testing.T) {
	const day = 24 * time.Hour
	tests := []struct {
		name         string
		period       limit.Period
		zone, now    string
		start        string
		length       time.Duration
		startInZone  string // clock time at which it begins
		secondToLast string // the last second, in the zone
	}{
		{"UTC", limit.PeriodDay, "", "2026-05-01T23:59:59Z", "2026-05-01T00:00:00Z", day, "00:00", "01 23:59:59"},
		{"its first instant", limit.PeriodDay, "", "2026-05-02T00:00:00Z", "2026-05-02T00:00:00Z", day, "00:00", "02 23:59:59"},
		{"23 hours, Berlin", limit.PeriodDay, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", 23 * time.Hour, "00:00", "29 23:59:59"},
		{"25 hours, Berlin", limit.PeriodDay, "Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", 25 * time.Hour, "00:00", "25 23:59:59"},
		{"23 hours, New York", limit.PeriodDay, "America/New_York", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", 23 * time.Hour, "00:00", "08 23:59:59"},
		{"25 hours, New York", limit.PeriodDay, "America/New_York", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", 25 * time.Hour, "00:00", "01 23:59:59"},
		{"half an hour less", limit.PeriodDay, "Australia/Lord_Howe", "2026-10-04T00:00:00Z", "2026-10-03T13:30:00Z", 23*time.Hour + 30*time.Minute, "00:00", "04 23:59:59"},
		{"half an hour more", limit.PeriodDay, "Australia/Lord_Howe", "2026-04-05T00:00:00Z", "2026-04-04T13:00:00Z", 24*time.Hour + 30*time.Minute, "00:00", "05 23:59:59"},
		{"begins at one, Sao Paulo", limit.PeriodDay, "America/Sao_Paulo", "2018-11-04T12:00:00Z", "2018-11-04T03:00:00Z", 23 * time.Hour, "01:00", "04 23:59:59"},
		{"the day before it", limit.PeriodDay, "America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z", day, "00:00", "03 23:59:59"},
		{"begins at one, Beirut", limit.PeriodDay, "Asia/Beirut", "2026-03-29T12:00:00Z", "2026-03-28T22:00:00Z", 23 * time.Hour, "01:00", "29 23:59:59"},
		{"an hour before midnight comes twice, Beirut", limit.PeriodDay, "Asia/Beirut", "2026-10-24T21:30:00Z", "2026-10-23T21:00:00Z", 25 * time.Hour, "00:00", "24 23:59:59"},
		{"an hour after midnight comes twice, Havana", limit.PeriodDay, "America/Havana", "2026-11-01T05:30:00Z", "2026-11-01T04:00:00Z", 25 * time.Hour, "00:00", "01 23:59:59"},
		{"midnight comes twice, St John's", limit.PeriodDay, "America/St_Johns", "2010-11-07T02:45:00Z", "2010-11-07T02:30:00Z", 25 * time.Hour, "00:00", "07 23:59:59"},
		{"a date that there was not, Apia", limit.PeriodDay, "Pacific/Apia", "2011-12-29T20:00:00Z", "2011-12-29T10:00:00Z", day, "00:00", "29 23:59:59"},
		{"the date after it", limit.PeriodDay, "Pacific/Apia", "2011-12-30T20:00:00Z", "2011-12-30T10:00:00Z", day, "00:00", "31 23:59:59"},
		{"a week from Monday", limit.PeriodWeek, "", "2026-03-01T23:00:00Z", "2026-02-23T00:00:00Z", 7 * day, "00:00", "01 23:59:59"},
		{"a week with 23 hours in it", limit.PeriodWeek, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-22T23:00:00Z", 7*day - time.Hour, "00:00", "29 23:59:59"},
		{"a week over the year's end", limit.PeriodWeek, "Asia/Kolkata", "2026-12-31T18:31:00Z", "2026-12-27T18:30:00Z", 7 * day, "00:00", "03 23:59:59"},
		{"a month", limit.PeriodMonth, "", "2028-02-29T23:00:00Z", "2028-02-01T00:00:00Z", 29 * day, "00:00", "29 23:59:59"},
		{"December", limit.PeriodMonth, "America/New_York", "2026-12-31T23:00:00Z", "2026-12-01T05:00:00Z", 31 * day, "00:00", "31 23:59:59"},
		{"a month with 25 hours in it", limit.PeriodMonth, "America/New_York", "2026-11-15T00:00:00Z", "2026-11-01T04:00:00Z", 30*day + time.Hour, "00:00", "30 23:59:59"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			start, end := budget(t, tt.period, tt.zone).Around(utc(t, tt.now))
			if want := utc(t, tt.start); !start.Equal(want) || start.Location() != time.UTC {
				t.Errorf("begins %v; want %v", start, want)
			}
			if got := end.Sub(start); got != tt.length {
				t.Errorf("lasts %v; want %v", got, tt.length)
			}
			zone, err := time.LoadLocation(tt.zone)
			if err != nil {
				t.Fatal(err)
			}
			if got := start.In(zone).Format("15:04"); got != tt.startInZone {
				t.Errorf("begins at %s there; want %s", got, tt.startInZone)
			}
			if got := end.Add(-time.Second).In(zone).Format("02 15:04:05"); got != tt.secondToLast {
				t.Errorf("its last second is %s there; want %s", got, tt.secondToLast)
			}
		})
	}
}

// Periods follow one another without gap or overlap, in any zone at any time.
func TestPeriodsTile(t *testing.T) {
	zones := []string{
		"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Beirut", "America/Havana",
		"America/St_Johns", "Pacific/Apia", "Pacific/Kiritimati", "Pacific/Kwajalein", "Africa/Casablanca", "Asia/Kathmandu", "America/Asuncion",
		"Atlantic/Azores", "America/Scoresbysund", "Asia/Gaza", "Africa/Cairo", "America/Godthab", "Etc/GMT+12",
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := budget(t, rapid.SampledFrom([]limit.Period{limit.PeriodDay, limit.PeriodWeek, limit.PeriodMonth}).Draw(rt, "period"), rapid.SampledFrom(zones).Draw(rt, "zone"))
		now := time.Unix(rapid.Int64Range(0, 4e9).Draw(rt, "at"), rapid.Int64Range(0, 1e9-1).Draw(rt, "ns"))
		start, end := b.Around(now)
		if start.After(now) || !now.Before(end) {
			rt.Fatalf("%v is not within %v and %v", now, start, end)
		}
		for _, at := range []time.Time{start, end.Add(-1), start.Add(end.Sub(start) / 2)} {
			if s, e := b.Around(at); !s.Equal(start) || !e.Equal(end) {
				rt.Fatalf("%v is in %v to %v, %v in %v to %v", now, start, end, at, s, e)
			}
		}
		if s, _ := b.Around(end); !s.Equal(end) {
			rt.Fatalf("after %v comes one that begins %v", end, s)
		}
	})
}

func TestPeriodTotal(t *testing.T) {
	if start, end := budget(t, limit.PeriodTotal, "").Around(time.Now()); !start.IsZero() || !end.IsZero() {
		t.Errorf("%v to %v; want neither", start, end)
	}
}

func TestNewBudgetRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		nanos  int64
		period limit.Period
		zone   string
		want   string
	}{
		{"nothing", 0, limit.PeriodDay, "", "a budget of 0"},
		{"less", -1, limit.PeriodDay, "", "a budget of -1"},
		{"absurd", math.MaxInt64, limit.PeriodDay, "", "a budget of"},
		{"no period", 1, 0, "", "want day, week, month or total"},
		{"unknown period", 1, 9, "", "want day, week, month or total"},
		{"no such zone", 1, limit.PeriodDay, "Europe/Atlantis", "IANA time zone"},
		{"a path", 1, limit.PeriodDay, "../../etc/passwd", "IANA time zone"},
		{"this machine's", 1, limit.PeriodDay, "Local", "IANA time zone"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b, err := limit.NewBudget(tt.nanos, tt.period, tt.zone)
			if err == nil || !strings.Contains(err.Error(), tt.want) || b.Bounded() {
				t.Errorf("%+v, %v; want an error with %q", b, err, tt.want)
			}
		})
	}
}

// The clock is put back by an hour or a day and forth by a month, in the middle of
// requests: each day's budget holds, and what was charged stays where it was.
func TestBudgetsUnderAJumpingClock(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const most = 1000
		bank := newBank()
		l, s := mustLimiter(rt, bank), mustDaily(rt, most)
		type held struct {
			res  *limit.Reservation
			cost int64
		}
		var open []held
		charged, spent := map[limit.BudgetID]int64{}, map[limit.BudgetID]int64{}
		now := monday()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				const day = 24 * time.Hour
				now = now.Add(rapid.SampledFrom([]time.Duration{time.Second, time.Hour, day, 31 * day, -time.Hour, -day, -31 * day}).Draw(rt, "jump"))
			case 1:
				if len(open) > 0 {
					h := open[0]
					open = open[1:]
					id, _ := h.res.Budget()
					real := rapid.Int64Range(0, h.cost).Draw(rt, "real")
					h.res.Settle(now, limit.Actual{CostNanos: real})
					charged[id] += real - h.cost
					spent[id] += real
				}
			case 2:
				if err := l.Maintain(context.Background(), now); err != nil {
					rt.Fatal(err)
				}
			default:
				cost := rapid.Int64Range(1, most/2).Draw(rt, "cost")
				res, err := l.Acquire(context.Background(), now, s, limit.Request{CostNanos: cost})
				if errors.Is(err, limit.ErrLimited) {
					break
				} else if err != nil {
					rt.Fatal(err)
				}
				id, ok := res.Budget()
				if day := now.Truncate(24 * time.Hour); !ok || !id.Start.Equal(day) {
					rt.Fatalf("a request of %v is charged to the day of %v", now, id.Start)
				}
				charged[id] += cost
				open = append(open, held{res, cost})
			}
			for id, n := range charged {
				if n > most || n > bank.out(id) {
					rt.Fatalf("%d are charged to the day of %v, of %d that were granted", n, id.Start, bank.out(id))
				}
			}
		}
		for _, h := range open {
			id, _ := h.res.Budget()
			h.res.Settle(now, limit.Actual{CostNanos: h.cost})
			spent[id] += h.cost
		}
		if err := l.Drain(context.Background(), now); err != nil {
			rt.Fatal(err)
		}
		for id, n := range spent {
			if bank.out(id) != n {
				rt.Fatalf("of the day of %v %d was spent, and the store counts %d", id.Start, n, bank.out(id))
			}
		}
		if bank.open() != 0 {
			rt.Fatalf("%d slices were not given back", bank.open())
		}
	})
}
