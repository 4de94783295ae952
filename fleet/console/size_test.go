package console_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/auth/webui"
)

// maxPage is how long a page may be, in bytes.
const maxPage = 100 << 10

// Every page of a fleet of the sizes that llmgw is built for is small.
func TestSizes(t *testing.T) {
	s := large()
	c := made(t, s.deps(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	h := c.Handler(webui.Open)
	for _, path := range pages(s) {
		status, page, _ := get(t, h, path)
		for strings.Contains(page, "This page loads itself again") { // sums are being made, by another goroutine
			status, page, _ = get(t, h, path)
		}
		if status != 200 || len(page) > maxPage || strings.Contains(page, "could not be read") {
			t.Errorf("%s: %d, %d bytes; want 200 and at most %d", path, status, len(page), maxPage)
		}
		t.Logf("%-60s %6d bytes", path, len(page))
	}
}

// BenchmarkPage makes each page of a fleet of 1,000 nodes of 8 cards, 500 models, 1,000
// replicas, 10,000 keys and 10,000 accounts. The goal is 50 ms.
func BenchmarkPage(b *testing.B) {
	s := large()
	deps := s.deps(b)
	at := now
	deps.Now = func() time.Time { return at }
	c := made(b, deps)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	h := c.Handler(webui.Open)
	for _, path := range pages(s) {
		for _, page, _ := get(b, h, path); strings.Contains(page, "This page loads itself again"); {
			_, page, _ = get(b, h, path)
		}
		b.Run(path, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				get(b, h, path)
			}
		})
	}
}
