package feed_test

import (
	"context"
	"testing"

	"github.com/llmgw/llmgw/fleet/feed"
)

// One change among a thousand replicas, from SetEntries until twenty routers in the
// same process know of it, each with a copy of everything.
func BenchmarkChange(b *testing.B) {
	const entries, routers = 1000, 20
	b.Run("entries=1000/routers=20", func(b *testing.B) {
		cfg := feed.DefaultPublisherConfig()
		cfg.Gather = 0
		p := publisher(b, cfg, feed.PublisherDeps{})
		all := make([]feed.Entry, entries)
		for i := range all {
			all[i] = entry("m", i)
		}
		set(b, p, []string{"m"}, all...)
		var follow []*feed.Follower
		for range routers {
			f, err := feed.New(config("r"), feed.Deps{Sources: []feed.Source{p.Local()}, Reporter: idle{}})
			if err != nil {
				b.Fatal(err)
			}
			runs(b, f.Run)
			follow = append(follow, f)
		}
		generation := uint64(1)
		know := func() {
			for _, f := range follow {
				for {
					s, changed := f.State()
					if len(s.Entries) == entries && s.Entries[0].Generation == generation {
						break
					}
					<-changed
				}
			}
		}
		know()
		for b.Loop() {
			generation++
			all = append([]feed.Entry(nil), all...)
			all[0].Generation = generation
			set(b, p, nil, all...)
			know()
		}
	})
}

// The publisher's own part of it: nobody follows.
func BenchmarkPublish(b *testing.B) {
	b.Run("entries=1000/routers=20", func(b *testing.B) {
		cfg := feed.DefaultPublisherConfig()
		p, err := feed.NewPublisher(cfg, feed.PublisherDeps{})
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Lead("c", 1); err != nil {
			b.Fatal(err)
		}
		all := make([]feed.Entry, 1000)
		for i := range all {
			all[i] = entry("m", i)
		}
		set(b, p, []string{"m"}, all...)
		p.Publish()
		for i := range 20 {
			s, err := p.Local().Open(context.Background(), request{ProtocolLeast: 1, ProtocolMost: 1, Router: "r", Run: string(rune('A' + i))}.wire())
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			for range 2 {
				if _, err := s.Receive(); err != nil {
					b.Fatal(err)
				}
			}
		}
		generation := uint64(1)
		b.ReportAllocs()
		for b.Loop() {
			generation++
			all = append([]feed.Entry(nil), all...)
			all[0].Generation = generation
			set(b, p, nil, all...)
			p.Publish()
		}
	})
}

// What routers know of a thousand replicas, from the reports of fifty.
func BenchmarkUse(b *testing.B) {
	b.Run("entries=1000/routers=50", func(b *testing.B) {
		p, err := feed.NewPublisher(feed.DefaultPublisherConfig(), feed.PublisherDeps{})
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Lead("c", 1); err != nil {
			b.Fatal(err)
		}
		all := make([]feed.Entry, 1000)
		for i := range all {
			all[i] = entry("m", i)
		}
		set(b, p, []string{"m"}, all...)
		p.Publish()
		report := reportOf(all)
		for i := range 50 {
			s, err := p.Local().Open(context.Background(), request{ProtocolLeast: 1, ProtocolMost: 1, Router: "r", Run: string(rune('A' + i))}.wire())
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			frame, err := s.Receive()
			if err != nil {
				b.Fatal(err)
			}
			report.Session, report.Number = frame.GetWelcome().GetSession(), 1
			if err := s.Report(context.Background(), report); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			if uses, _ := p.Use(0); len(uses) != 1000 {
				b.Fatal(len(uses))
			}
		}
	})
}

// idle does nothing.
type idle struct{}

func (idle) Reports() []feed.Report { return nil }
