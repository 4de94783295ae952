package console_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/console"
)

// counted says what the services' traffic is from now on.
func (s *services) counted(models ...console.ModelTraffic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traffic.Models = models
}

// Rates come of two readings, over as much of a window as there is, and of counters
// that begin anew none does.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := small()
		deps := s.deps(t)
		deps.Now = time.Now
		c := made(t, deps)
		h := c.Handler(webui.Open)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		says := func(when string, some ...string) {
			t.Helper()
			_, page, _ := get(t, h, "/admin/rates")
			holds(t, when, page, some...)
		}
		s.counted(console.ModelTraffic{Model: "m", Requests: 100, Failed: 1, OutputTokens: 1000, HasTokens: true})
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		says("after one reading", "- requests a second over 10 s", "- requests a second over 1 min", "m - - -")

		s.counted(console.ModelTraffic{Model: "m", Requests: 110, Failed: 2, OutputTokens: 1500, HasTokens: true}, console.ModelTraffic{Model: "new", Requests: 5})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		says("after two readings", "3.00 requests a second over 10 s", "Tokens a second 100", "Failed a second 0.20", "m 2.00 2.00 100 100 0.20 0.20 - 110", "new 1.00 1.00 - - 0 0 - 5")

		// Nothing more comes: ten seconds later ten seconds have seen none, and a minute has.
		time.Sleep(10 * time.Second)
		synctest.Wait()
		says("after a pause", "0 requests a second over 10 s", "1.00 requests a second over 1 min", "at most 3.00 since")

		s.counted(console.ModelTraffic{Model: "m", Requests: 3})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		says("after counters began anew", "- requests a second over 10 s", "m - - -")

		s.counted(console.ModelTraffic{Model: "m", Requests: 30}) // 5 s later
		time.Sleep(10 * time.Second)
		synctest.Wait()
		says("and two readings later", "m 2.70 - -")

		// A console that is not sampled any more does not know.
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		says("long after its end", "- requests a second over 10 s")
	})
}

// A page loads itself again only where that was asked for.
func TestReload(t *testing.T) {
	h := made(t, small().deps(t)).Handler(webui.Open)
	_, page, header := get(t, h, "/admin/rates?reload=1&q=big")
	if header.Get("Refresh") != "10" || !strings.Contains(page, `href="/admin/rates?q=big">Stop loading this page again`) {
		t.Errorf("refresh %q: %s", header.Get("Refresh"), text(page))
	}
	_, page, header = get(t, h, "/admin/rates?q=big")
	if header.Get("Refresh") != "" || !strings.Contains(page, `href="/admin/rates?q=big&amp;reload=1">Load this page again`) {
		t.Errorf("refresh %q: %s", header.Get("Refresh"), text(page))
	}
}

// The ring keeps what the configuration says, and the page of a full one is small.
func TestRatesOfAFullRing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := large()
		deps := s.deps(t)
		deps.Now = time.Now
		c := made(t, deps)
		h := c.Handler(webui.Open)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		for i := range 200 {
			models := make([]console.ModelTraffic, len(s.traffic.Models))
			for j, m := range s.traffic.Models {
				m.Requests += uint64(i*17+j) % 40
				m.OutputTokens += uint64(i*1700+j) % 4000
				models[j] = m
			}
			s.counted(models...)
			time.Sleep(5 * time.Second)
		}
		synctest.Wait()
		_, page, _ := get(t, h, "/admin/rates")
		if len(page) > maxPage || strings.Count(page, `class="spark"`) != 50 || strings.Count(page, `<figure class="chart">`) != 2 {
			t.Errorf("%d bytes, %d courses, %d charts", len(page), strings.Count(page, `class="spark"`), strings.Count(page, `<figure class="chart">`))
		}
		t.Logf("%d bytes", len(page))
		cancel()
		<-done
	})
}
