package gateway_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/gateway"
)

// following is a gateway that follows a publisher in the same process.
func following(t *testing.T, f *fleet) *feed.Publisher {
	t.Helper()
	p, err := feed.NewPublisher(feed.DefaultPublisherConfig(), feed.PublisherDeps{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := feed.DefaultConfig()
	cfg.Router = "r1"
	follower, err := feed.New(cfg, feed.Deps{Sources: []feed.Source{p.Local()}, Reporter: f.gw})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, run := range []func(context.Context) error{p.Run, follower.Run, func(ctx context.Context) error { return f.gw.Follow(ctx, follower, true) }} {
		wg.Go(func() {
			if err := run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { cancel(); wg.Wait() })
	if err := p.Lead("c1", 1); err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitUse waits until what routers say of an instance is as it should be.
func awaitUse(t *testing.T, p *feed.Publisher, id feed.Instance, what string, is func(feed.Use) bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		u := p.UseOf(id)
		if is(u) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never so: %s; %+v", what, u)
		}
		select {
		case <-p.C():
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// What a control plane publishes serves; what it takes back gets no request more,
// is let go at once by who has none there, and is told of as long as a stream runs.
func TestFollow(t *testing.T) {
	release := make(chan struct{})
	e := newRaw(t, func(x *exchange) {
		x.write(eventHead() + chunk(delta("h")))
		<-release
		x.write(chunk(delta("i")) + chunk(doneEvent) + lastChunk)
	})
	f := newFleet(t, config())
	p := following(t, f)
	id := feed.Instance{Replica: "m-1", Generation: 1, Start: "s1"}
	entry := feed.Entry{Model: "m", Instance: id, Address: strings.TrimPrefix(e.url, "http://"), Engine: engines.Sim, Served: "m", Secret: "s"}
	if err := p.SetModels([]catalog.Model{{Name: "m"}}); err != nil {
		t.Fatal(err)
	}
	if err := p.SetEntries([]feed.Entry{entry}); err != nil {
		t.Fatal(err)
	}
	awaitUse(t, p, id, "the router has it", func(u feed.Use) bool { _, said := u.Requests.Get(); return said })
	res, err := f.send(t.Context(), "POST", chatPath, strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != 200 {
		t.Fatalf("answered %d", res.StatusCode)
	}
	if _, err := io.ReadFull(res.Body, make([]byte, len(delta("h")))); err != nil {
		t.Fatal(err)
	}
	if err := p.SetEntries(nil); err != nil {
		t.Fatal(err)
	}
	awaitUse(t, p, id, "a stream runs there", func(u feed.Use) bool {
		_, worked := u.Worked.Get()
		return !u.Published && worked && u.Requests.Is(1)
	})
	if got := f.do("POST", chatPath, `{"model":"m","messages":[]}`); got.status != 503 {
		t.Errorf("after it was taken back: %d %s", got.status, got.body)
	}
	close(release)
	if rest, err := io.ReadAll(res.Body); err != nil || string(rest) != delta("i")+doneEvent {
		t.Errorf("the stream went on with %q, %v", rest, err)
	}
}

// A reload of a gateway that follows brings the endpoints of its configuration, and
// leaves the models that it was told of.
func TestReloadOfOneThatFollows(t *testing.T) {
	e := newRaw(t, func(x *exchange) { x.write(eventHead() + chunk(delta("h")) + chunk(doneEvent) + lastChunk) })
	f := newFleet(t, config(), func(d *gateway.Deps) { d.Follows = true })
	if err := f.gw.SetModels([]catalog.Model{{Name: "told", Aliases: []string{"m"}}}); err != nil {
		t.Fatal(err)
	}
	if got := f.do("POST", chatPath, streamBody); got.status != 503 {
		t.Errorf("without an engine: %d %s", got.status, got.body)
	}
	cfg := config(at("e", e.url))
	cfg.Endpoints[0].Models[0] = endpoint.Model{Name: "told"}
	if err := f.gw.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if got := f.do("POST", chatPath, streamBody); got.status != 200 {
		t.Errorf("by an alias that was told, at an endpoint of the file: %d %s", got.status, got.body)
	}
	if strings.Contains(f.log.String(), "endpoints: there are none") {
		t.Error("it warns that there are no endpoints, of which it will be told")
	}
}
