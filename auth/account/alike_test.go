package account

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account/password"
)

// BenchmarkAlike measures whether how long an answer takes tells if an address has an
// account: 250 of each kind, in an order drawn by lot, over a store on disk, with hashes
// that cost what they do. It asserts nothing: see docs/explanation/accounts.md for what
// it found, and run it with -benchtime 1x.
func BenchmarkAlike(b *testing.B) {
	const each = 250
	s := newBench(b, func(c *Config, d *Deps) {
		d.cost, d.settle, d.Now = password.DefaultParams(), 0, nil
		c.Throttle.Free, c.MaxPending = 100, 10_000
	})
	for i := range each {
		if err := s.SignUp(b.Context(), fmt.Sprint("known", i, "@b"), right, auth.By{}); err != nil {
			b.Fatal(err)
		}
	}
	kinds := []struct {
		name string
		do   func(i int) error
		want error
	}{
		{"sign-in, wrong password", func(i int) error {
			_, err := s.SignIn(b.Context(), SignIn{Address: fmt.Sprint("known", i, "@b"), Password: wrong})
			return err
		}, ErrRefused},
		{"sign-in, no account", func(i int) error {
			_, err := s.SignIn(b.Context(), SignIn{Address: fmt.Sprint("never", i, "@b"), Password: wrong})
			return err
		}, ErrRefused},
		{"sign-up, taken", func(i int) error { return s.SignUp(b.Context(), fmt.Sprint("known", i, "@b"), wrong, auth.By{}) }, nil},
		{"sign-up, new", func(i int) error { return s.SignUp(b.Context(), fmt.Sprint("fresh", i, "@b"), wrong, auth.By{}) }, nil},
		{"sign-up, taken, unsettled", func(i int) error {
			_, err := s.keep(b.Context(), fmt.Sprint("known", i, "@b"), "hash", auth.By{})
			return err
		}, nil},
		{"sign-up, new, unsettled", func(i int) error {
			_, err := s.keep(b.Context(), fmt.Sprint("other", i, "@b"), "hash", auth.By{})
			return err
		}, nil},
	}
	for b.Loop() {
		took := make([][]time.Duration, len(kinds))
		for i := range each {
			for _, k := range rand.Perm(len(kinds)) {
				began := time.Now()
				err := kinds[k].do(i)
				took[k] = append(took[k], time.Since(began))
				if !errors.Is(err, kinds[k].want) {
					b.Fatalf("%s: %v", kinds[k].name, err)
				}
			}
		}
		for k, all := range took {
			slices.Sort(all)
			b.Logf("%-26s median %8.3f ms, p95 %8.3f ms (n=%d)", kinds[k].name, ms(all[each/2]), ms(all[each*95/100]), each)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// However many sign in at once, few passwords are hashed at once, few wait, and the rest
// are turned away, so that memory is bounded.
func TestParallelSignIns(t *testing.T) {
	for _, cores := range []int{1, 4, 16} {
		before := runtime.GOMAXPROCS(cores)
		b := newBench(t, nil)
		runtime.GOMAXPROCS(before)
		most := max(1, cores/4)
		var peak atomic.Int64
		stop, watching := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(watching)
			for {
				select {
				case <-stop:
					return
				default:
					peak.Store(max(peak.Load(), int64(b.hasher.Running())))
					runtime.Gosched()
				}
			}
		}()
		var wg sync.WaitGroup
		var refused, busy atomic.Int64
		start := make(chan struct{})
		for i := range 200 {
			wg.Go(func() {
				<-start
				_, err := b.SignIn(t.Context(), SignIn{Address: fmt.Sprint("a", i, "@b"), Password: wrong})
				switch {
				case errors.Is(err, ErrRefused):
					refused.Add(1)
				case errors.Is(err, ErrBusy):
					busy.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		close(stop)
		<-watching
		if refused.Load()+busy.Load() != 200 || refused.Load() < 64 || peak.Load() > int64(most) {
			t.Errorf("%d cores: %d refused, %d turned away, %d hashed at once", cores, refused.Load(), busy.Load(), peak.Load())
		}
	}
}

// BenchmarkParallelSignIns has 200 people sign in at once and tells what memory that
// takes.
func BenchmarkParallelSignIns(b *testing.B) {
	s := newBench(b, func(_ *Config, d *Deps) { d.cost, d.Now = password.DefaultParams(), nil })
	ballast := make([]byte, 50<<20) // what else a server holds
	for i := range ballast {
		ballast[i] = byte(i)
	}
	idle := resident(b)
	peak := idle
	for b.Loop() {
		var wg sync.WaitGroup
		done := make(chan struct{})
		for i := range 200 {
			wg.Go(func() { _, _ = s.SignIn(b.Context(), SignIn{Address: fmt.Sprint("a", i, "@b"), Password: wrong}) })
		}
		go func() { wg.Wait(); close(done) }()
		for ended := false; !ended; {
			select {
			case <-done:
				ended = true
			case <-time.After(5 * time.Millisecond):
				peak = max(peak, resident(b))
			}
		}
	}
	runtime.KeepAlive(ballast)
	b.ReportMetric(float64(idle>>20), "idle-MiB")
	b.ReportMetric(float64(peak>>20), "peak-MiB")
}

// resident is how much memory the process has.
func resident(b *testing.B) int64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0 // not told here
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
