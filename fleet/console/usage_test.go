package console_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// slowUsage answers a page of sums when it is let, and counts how often it was asked.
type slowUsage struct {
	services

	mu    sync.Mutex
	asked []*apipb.ListUsageSumsRequest // guarded by mu
	fails error                         // guarded by mu
	takes time.Duration
}

func (s *slowUsage) ListUsageSums(ctx context.Context, req *apipb.ListUsageSumsRequest) (*apipb.ListUsageSumsResponse, error) {
	s.mu.Lock()
	s.asked = append(s.asked, &apipb.ListUsageSumsRequest{Grain: req.GetGrain(), Filter: req.GetFilter(), PageToken: req.GetPageToken()})
	err := s.fails
	s.mu.Unlock()
	time.Sleep(s.takes) // virtual
	if err != nil {
		return nil, err
	}
	return s.services.ListUsageSums(ctx, req)
}

// failing makes every call from now on fail.
func (s *slowUsage) failing(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = err
}

func (s *slowUsage) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(6 * time.Hour) // from midnight of the bubble's first day
		day := func(n int) *timestamppb.Timestamp {
			return timestamppb.New(time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, n))
		}
		s := &slowUsage{takes: time.Second}
		for i := range 1200 { // three pages
			s.sums = append(s.sums, &apipb.UsageSum{
				Start: day(-i % 3), Owner: fmt.Sprintf("team-%d", i%2), Model: "m", Requests: 2, Failed: 1, InputTokens: 1000, OutputTokens: 10, CostNanos: int64(i%2) * 1e9,
			})
		}
		s.keys = []*apipb.Key{{State: apipb.KeyState_KEY_STATE_USABLE}, {State: apipb.KeyState_KEY_STATE_USABLE}, {State: apipb.KeyState_KEY_STATE_REVOKED}}
		deps := s.deps(t)
		deps.Now, deps.Usage = time.Now, s
		c := made(t, deps)
		h := c.Handler(webui.Open)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		says := func(path string, some ...string) (refresh string) {
			t.Helper()
			_, page, header := get(t, h, path)
			holds(t, path, page, some...)
			return header.Get("Refresh")
		}
		if refresh := says("/admin/usage", "It is being added up."); refresh != "2" {
			t.Errorf("a page that waits for sums is loaded again after %q", refresh)
		}
		time.Sleep(5 * time.Second)
		if refresh := says("/admin/usage", "Requests 2 400, of which 1 200 failed", "Cost 600.00", "Keys 2 usable, 0 expired, 1 revoked", "1 to 7 of 7 days", "As a table"); refresh != "" {
			t.Errorf("a page that has its sums is loaded again after %q", refresh)
		}
		n := s.calls()
		says("/admin/usage?by=owner", "team-1 1 200 600 600 000 0 6 000 600.00 team-0 1 200 600 600 000 0 6 000 -", "1 to 2 of 2 owners")
		says("/admin/usage?by=model&q=nope", "no models, of 1 in all")
		if s.calls() != n {
			t.Error("it was added up again at once")
		}
		// Adding up took 3 s, so it is not done again for a minute; then what was is shown
		// until it has been.
		time.Sleep(30 * time.Second)
		says("/admin/usage", "Requests 2 400")
		if s.calls() != n {
			t.Error("it was added up again too soon")
		}
		s.sums = s.sums[:600]
		time.Sleep(31 * time.Second)
		says("/admin/usage", "these are the sums of before", "Requests 2 400")
		time.Sleep(5 * time.Second)
		says("/admin/usage", "Requests 1 200")
		// What cannot be read is said beside what was.
		s.failing(errors.New("the store is away: hunter2"))
		time.Sleep(2 * time.Minute)
		says("/admin/usage")
		time.Sleep(5 * time.Second)
		says("/admin/usage", "usage could not be read: a fault of the server", "Requests 1 200")
		s.failing(nil)
		says("/admin/usage?of=1d", "It is being added up.", "By hour")
		time.Sleep(5 * time.Second)
		says("/admin/usage?of=1d", "of 31 hours")
		s.mu.Lock()
		if last := s.asked[len(s.asked)-1]; last.GetGrain() != apipb.UsageGrain_USAGE_GRAIN_HOUR || !last.GetFilter().GetFrom().AsTime().Equal(day(-1).AsTime()) {
			t.Errorf("by hour it asks %v", last)
		}
		s.mu.Unlock()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		// Without Run nothing is added up, and a page says so and does not hang.
		if refresh := says("/admin/usage?of=30d", "It is being added up."); refresh != "2" {
			t.Error("it is not loaded again")
		}
	})
}

// Who is looked for is found, however many there are, and no page is long.
func TestAccountsAreFound(t *testing.T) {
	const accounts = 2000
	s := small()
	s.users = nil
	for i := range accounts {
		s.users = append(s.users, &apipb.User{Address: fmt.Sprintf("some.body-%05d@department.example.org", i), State: apipb.UserState(1 + i%3)})
	}
	h := made(t, s.deps(t)).Handler(webui.Open)
	seen := map[string]int{}
	path := "/admin/accounts?q=body-0"
	for range accounts {
		_, page, _ := get(t, h, path)
		if len(page) > maxPage {
			t.Fatalf("%s has %d bytes", path, len(page))
		}
		for _, part := range strings.Split(page, `<th scope="row">`)[1:] {
			address, _, _ := strings.Cut(part, "<")
			seen[address]++
		}
		_, rest, more := strings.Cut(page, `<a class="button quiet small" href="`)
		for more && !strings.HasPrefix(rest, "/admin/accounts?after=") {
			_, rest, more = strings.Cut(rest, `<a class="button quiet small" href="`)
		}
		if !more {
			break
		}
		path, _, _ = strings.Cut(rest, `"`)
		path = strings.ReplaceAll(path, "&amp;", "&")
	}
	if len(seen) != accounts {
		t.Errorf("%d were found; want %d", len(seen), accounts)
	}
	for address, n := range seen {
		if n != 1 {
			t.Errorf("%s was shown %d times", address, n)
		}
	}
}
