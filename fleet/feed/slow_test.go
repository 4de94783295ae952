package feed_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/feed"
)

// A router that reads nothing for a while is sent what is newest, and not what it
// missed; the others notice nothing.
func TestSlowRouter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		p := publisher(t, feed.DefaultPublisherConfig(), feed.PublisherDeps{Registerer: reg})
		set(t, p, []string{"m"}, entry("m", 0))
		gate := make(chan struct{})
		slow := follow(t, config("slow"), feed.Deps{Sources: []feed.Source{sourceFuncs{"slow", func(ctx context.Context, req *apipb.WatchFeedRequest) (feed.Stream, error) {
			s, err := p.Local().Open(ctx, req)
			return &gated{s, gate}, err
		}}}})
		quick := follow(t, config("quick"), feed.Deps{Sources: []feed.Source{p.Local()}})
		gate <- struct{}{} // the welcome
		gate <- struct{}{}
		holds(t, slow, at(1), []string{"m"}, entry("m", 0))
		for i := range 100 {
			time.Sleep(60 * time.Millisecond)
			set(t, p, nil, entry("m", i+1))
		}
		holds(t, quick, at(101), []string{"m"}, entry("m", 100))
		holds(t, slow, at(1), []string{"m"}, entry("m", 0))
		routers := p.Routers()
		if len(routers) != 2 || routers[1].Name != "slow" || routers[1].Queued > feed.DefaultPublisherConfig().MaxQueue {
			t.Errorf("%+v", routers)
		}
		gate <- struct{}{} // what it waited for
		gate <- struct{}{} // everything
		synctest.Wait()
		if v := slow.state().Version; v != at(101) {
			t.Errorf("two frames later it is at %v", v)
		}
		close(gate)
		holds(t, slow, at(101), []string{"m"}, entry("m", 100))
	})
}

// gated is a stream whose reader waits for leave.
type gated struct {
	feed.Stream

	gate chan struct{}
}

func (g *gated) Receive() (*apipb.WatchFeedResponse, error) {
	<-g.gate
	return g.Stream.Receive()
}

// Fifty routers that read nothing hold no more than twice what is published: what
// waits for them is shared, and never more than everything.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const entries, routers, changes, most = 1000, 50, 30, 4 << 20
		cfg := feed.DefaultPublisherConfig()
		p := publisher(t, cfg, feed.PublisherDeps{})
		all := make([]feed.Entry, entries)
		for i := range all {
			all[i] = entry("m", i)
		}
		set(t, p, []string{"m"}, all...)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for i := range routers {
			s, err := p.Local().Open(ctx, request{ProtocolLeast: 1, ProtocolMost: 1, Router: "r", Run: string(rune('A' + i))}.wire())
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for range 2 { // the welcome, and everything
				if _, err := s.Receive(); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := heap()
		for i := range changes {
			all = append([]feed.Entry(nil), all...)
			for j := range all {
				all[j].Node = fmt.Sprint("node ", i) // and no other instance, which would be remembered
			}
			set(t, p, nil, all...)
			time.Sleep(cfg.Gather + time.Millisecond)
		}
		if grew := int64(heap()) - int64(before); grew > most {
			t.Errorf("%d changes that %d routers did not read take %d bytes; want at most %d", changes, routers, grew, most)
		}
		runtime.KeepAlive(p)
	})
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
