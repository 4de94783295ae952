package controlplane

import (
	"testing"

	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/reconcile"
)

// Who is drained since the last question is told of though routers have said nothing
// new; once that is so, there is nothing to tell.
func TestUseOfWhatWasNotAskedBefore(t *testing.T) {
	publisher, err := feed.NewPublisher(feed.DefaultPublisherConfig(), feed.PublisherDeps{})
	if err != nil {
		t.Fatal(err)
	}
	u := use{&press{feed: publisher}}
	if got := u.Use(nil); got == nil || len(got) != 0 {
		t.Errorf("at first: %+v; want that nothing is used", got)
	}
	two := []reconcile.Ref{{Replica: "a", Generation: 1}, {Replica: "b", Generation: 1}, {Replica: "a", Generation: 2}}
	if got := u.Use(two); len(got) != 2 || got[0].Replica != "a" || got[1].Replica != "b" {
		t.Errorf("two that are drained: %+v", got)
	}
	if got := u.Use(two); got != nil {
		t.Errorf("the same again: %+v; want nil", got)
	}
}
