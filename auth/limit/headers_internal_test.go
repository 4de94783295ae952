package limit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A reset is written as Go writes durations, rounded up to the millisecond.
func TestAppendMillis(t *testing.T) {
	check := func(t interface {
		Errorf(format string, args ...any)
	}, d time.Duration) {
		want := d.Truncate(time.Millisecond)
		if want < d {
			want += time.Millisecond
		}
		if got := string(appendMillis(nil, d)); got != want.String() {
			t.Errorf("%d ns is %q; want %q", d, got, want)
		}
	}
	for _, d := range []time.Duration{0, 1, time.Millisecond, 999 * time.Millisecond, time.Second - 1, time.Second, 59*time.Second + 999*time.Millisecond + 1,
		time.Minute, time.Minute + 10*time.Millisecond, time.Hour, time.Hour + time.Second, 100*time.Hour + time.Minute + 50*time.Millisecond} {
		check(t, d)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, time.Duration(rapid.Int64Range(0, int64(2000*time.Hour)).Draw(t, "d")))
	})
}
