package feed

import (
	"testing"
	"time"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// A control plane that stood still finds no router gone: what they said meanwhile
// waits to be taken.
func TestTheProcessStoodStill(t *testing.T) {
	p, err := NewPublisher(DefaultPublisherConfig(), PublisherDeps{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Lead("c", 1); err != nil {
		t.Fatal(err)
	}
	begin := p.base
	after := func(d time.Duration) { p.base = begin.Add(-d) }
	tick := func(from, to time.Duration) {
		for at := from; at <= to; at += time.Second {
			after(at)
			p.tick()
		}
	}
	tick(0, time.Minute)
	if _, err := p.attach(&apipb.WatchFeedRequest{ProtocolLeast: 1, ProtocolMost: 1, Router: "r", Run: "1"}, "here"); err != nil {
		t.Fatal(err)
	}
	tick(61*time.Second, 89*time.Second) // its lease has a second left
	after(10 * time.Minute)
	p.tick()
	if r := p.Routers(); len(r) != 1 || r[0].Heard > Lease+2*time.Second {
		t.Fatalf("%+v at the first look; the pause counts as its silence", r)
	}
	tick(10*time.Minute+time.Second, 10*time.Minute+2*time.Second)
	if n := len(p.Routers()); n != 0 {
		t.Error("its lease is never over")
	}
}
