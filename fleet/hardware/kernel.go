package hardware

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
)

// WatchKernel reads the kernel's log, from its beginning, and tells the book of
// faults what it says of cards, until ctx is done; then it returns nil. An error
// means that faults of cards are from then on seen only as far as the cards tell
// them, which is a warning in the inventory too and stops nothing else. It owns
// no goroutine when it has returned. Load a record of faults before: what was
// heeded is then passed over.
//
// Reading needs CAP_SYSLOG, or kernel.dmesg_restrict=0.
func (r *Reader) WatchKernel(ctx context.Context) error {
	err := r.watchKernel(ctx)
	if err == nil || ctx.Err() != nil { // the end of a log that is a file, or ours
		return nil //nolint:nilerr // what a reading says that was ended is of no use
	}
	r.kernel.Store(&engines.Warning{
		Part:    "kernel",
		Problem: "the kernel's log is not read, so faults that cards do not tell themselves (XIDs) are not seen: " + err.Error(),
		Advice:  "give the agent CAP_SYSLOG, or set kernel.dmesg_restrict=0",
	})
	return fmt.Errorf("hardware: %w", err)
}

func (r *Reader) watchKernel(ctx context.Context) error {
	log, err := os.Open(r.root.Path("dev/kmsg"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // it was only read
	stop := context.AfterFunc(ctx, func() { _ = log.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	return faults.Watch(ctx, log, func(e faults.Event) {
		r.log.Warn("the kernel tells of a card", "kind", e.Kind, "bus_id", e.Bus, "xid", e.XID, "text", e.Text)
		r.book.Kernel(r.written(e), e)
	})
}

// written returns when an event was written: a log that is read from its
// beginning tells of what engines of today had no part in. Where that cannot be
// worked out it is now.
func (r *Reader) written(e faults.Event) time.Time {
	now := time.Now()
	up, known := r.root.Uptime().Get()
	if !known || e.SinceStart == 0 || e.SinceStart > up {
		return now
	}
	return now.Add(e.SinceStart - up)
}
