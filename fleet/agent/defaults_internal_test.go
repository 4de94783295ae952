package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// What a control plane says counts once it is kept: not while the disk hangs or fails,
// and then without being said again.
func TestDefaultsCountWhenTheyAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := make(chan error)
		c := newClerk(memory{}, slog.New(slog.DiscardHandler), func(memory) error { return <-disk }, time.Second, time.Hour)
		c.has = func(engines.ShardID) presence { return presence{} }
		heeded := make(chan defaults, 10)
		c.heed = func(d defaults) { heeded <- d }
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); c.run(ctx) }()
		join := func(said defaults) {
			if err := c.join(ctx, "ours", 1, said); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		one := defaults{"one", 30000, 30999}
		join(one)
		if len(heeded) > 0 || c.unable() == "" {
			t.Error("what is not kept counts")
		}
		disk <- errors.New("it is full")
		synctest.Wait()
		if len(heeded) > 0 {
			t.Error("what could not be kept counts")
		}
		join(one) // by the next stream, and the disk takes it late
		disk <- nil
		synctest.Wait()
		if len(heeded) != 1 || <-heeded != one || c.knows().Defaults != one {
			t.Errorf("%+v is known", c.knows())
		}
		join(one)
		join(defaults{})
		if len(heeded) > 0 {
			t.Error("what is known was heeded again")
		}
		cancel()
		<-ended
	})
}
