package agent

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

// slow is hardware each reading of which takes a while.
type slow time.Duration

func (s slow) Inventory(context.Context) (*engines.Inventory, error) {
	time.Sleep(time.Duration(s))
	return &engines.Inventory{}, nil
}

func (s slow) State(context.Context) (engines.NodeState, error) {
	time.Sleep(time.Duration(s))
	return engines.NodeState{}, nil
}
func (slow) Changed(context.Context) (bool, error) { return false, nil }
func (slow) Advertise(context.Context, string) (Advertised, error) {
	return Advertised{Address: "10.0.0.1", Interface: "eth0"}, nil
}

// Who wants a fresh reading waits for the one that is under way and for the next,
// and for no more, however slow the machine is and whoever else wants one.
func TestFreshReadingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 500 * time.Millisecond
		s := newSampler(slog.New(slog.DiscardHandler), slow(takes), "", func() []process.Holder { return nil }, func() {}, func() {})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		synctest.Wait() // the first reading is under way
		done := make(chan time.Duration)
		begin := time.Now()
		for range 3 {
			go func() {
				s.fresh(ctx, true)
				done <- time.Since(begin)
			}()
		}
		for range 3 {
			if took := <-done; took != 2*takes {
				t.Errorf("it took %v; want %v", took, 2*takes)
			}
		}
		cancel()
		<-ended
		time.Sleep(takes) // a reading that was under way is not cut short
		synctest.Wait()
	})
}

// split is hardware that notes of each reading what it was of, and for which interface.
type split struct {
	slow
	read chan string
}

func (s split) Advertise(_ context.Context, preferred string) (Advertised, error) {
	s.read <- "inventory for " + preferred
	return Advertised{Address: "10.0.0." + preferred}, nil
}

func (s split) State(ctx context.Context) (engines.NodeState, error) {
	s.read <- "state"
	return s.slow.State(ctx)
}

// Another interface that is preferred has the address looked for anew at once, also
// where a reading of less is wanted already; the same one again has nothing done. A new
// address is told.
func TestPrefer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hw := split{slow(time.Second), make(chan string, 10)}
		moved := make(chan struct{}, 10)
		s := newSampler(slog.New(slog.DiscardHandler), hw, "", func() []process.Holder { return nil }, func() {}, func() { moved <- struct{}{} })
		s.prefer("1")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.run(ctx) }()
		time.Sleep(1500 * time.Millisecond)
		s.want(false)
		s.prefer("2")
		s.prefer("2")
		time.Sleep(2 * time.Second)
		s.prefer("2")
		time.Sleep(time.Second)
		var got []string
		for len(hw.read) > 0 {
			got = append(got, <-hw.read)
		}
		if want := []string{"inventory for 1", "state", "inventory for 2"}; !slices.Equal(got, want) {
			t.Errorf("it read %q; want %q", got, want)
		}
		if at := s.facts().address; at != "10.0.0.2" || len(moved) != 2 {
			t.Errorf("it is at %s, and has moved %d times", at, len(moved))
		}
		cancel()
		<-ended
	})
}
