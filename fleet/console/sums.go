package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

const (
	// pageOfSums is how many sums are asked for at once.
	pageOfSums = 500
	// maxSums bounds the rows that are added up for one page.
	maxSums = 1_000_000
	// maxNames bounds the owners and the models that are told apart.
	maxNames = 20_000
	// sumsTime bounds adding up.
	sumsTime = 2 * time.Minute
	// sumsPatience is how long a page waits for sums that are not there yet.
	sumsPatience = 25 * time.Millisecond
	// othersName is what stands for all beyond maxNames.
	othersName = "(all others)"
)

// span is a stretch of time that usage is shown of.
type span struct {
	Name, Label string
	days        int
	grain       apipb.UsageGrain
}

// spans are those that there are; the first is shown where none is asked for.
func spans() []span {
	return []span{
		{"7d", "Seven days", 7, apipb.UsageGrain_USAGE_GRAIN_DAY},
		{"1d", "Today and yesterday, by hour", 2, apipb.UsageGrain_USAGE_GRAIN_HOUR},
		{"30d", "Thirty days", 30, apipb.UsageGrain_USAGE_GRAIN_DAY},
	}
}

// used is what something came to.
type used struct {
	Name                                                      string
	At                                                        time.Time // of sums by time
	Requests, Failed, Input, Cached, Output, Reasoning, Nanos int64
}

func (u *used) add(s *apipb.UsageSum) {
	u.Requests += s.GetRequests()
	u.Failed += s.GetFailed()
	u.Input += s.GetInputTokens()
	u.Cached += s.GetCachedInputTokens()
	u.Output += s.GetOutputTokens()
	u.Reasoning += s.GetReasoningTokens()
	u.Nanos += s.GetCostNanos()
}

// added is the usage of a span, added up.
type added struct {
	at      time.Time // when it was
	tried   time.Time // when that was done last, also where it failed
	took    time.Duration
	total   used
	byTime  []used // the oldest first
	byOwner []used // who used most first, by cost and then by tokens
	byModel []used
	keys    map[apipb.KeyState]int // nil: not counted
	// cut says that there are more rows than are added up: the oldest are in it.
	cut bool
	err error // why it is not whole; the rest is nothing then
}

// sums adds usage up, one span after the other, for pages that ask for it: of a large
// fleet it takes seconds, in which a page cannot wait.
type sums struct {
	cfg    Config
	deps   Deps
	wishes chan span // has room for all spans, each of which is in it once

	mu   sync.Mutex
	have map[string]*added // guarded by mu; by the span's name
	busy map[string]chan struct{}
}

func newSums(cfg Config, deps Deps) *sums {
	return &sums{cfg: cfg, deps: deps, wishes: make(chan span, len(spans())), have: map[string]*added{}, busy: map[string]chan struct{}{}}
}

// run adds up what is wished for, until ctx is done.
func (s *sums) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case p := <-s.wishes:
			begun := s.deps.Now()
			a := s.add(ctx, p, begun)
			a.at = s.deps.Now()
			a.tried, a.took = a.at, a.at.Sub(begun)
			s.mu.Lock()
			// What was is better than nothing, but not for ever.
			if old := s.have[p.Name]; a.err == nil || old == nil || a.at.Sub(old.at) > time.Hour {
				s.have[p.Name] = a
			} else {
				failed := *old
				failed.err, failed.tried, failed.took = a.err, a.tried, a.took
				s.have[p.Name] = &failed
			}
			close(s.busy[p.Name])
			delete(s.busy, p.Name)
			s.mu.Unlock()
		}
	}
}

// get returns the newest sums of a span, nil if there are none yet, and whether newer
// ones are on their way. It waits a moment for the first ones.
func (s *sums) get(ctx context.Context, p span) (a *added, coming bool) {
	s.mu.Lock()
	a = s.have[p.Name]
	if a != nil && s.deps.Now().Sub(a.tried) < max(s.cfg.UsageFresh, 20*a.took) {
		s.mu.Unlock()
		return a, false
	}
	done := s.busy[p.Name]
	if done == nil {
		done = make(chan struct{})
		s.busy[p.Name] = done
		s.wishes <- p // there is room: it was not busy
	}
	s.mu.Unlock()
	patience := time.NewTimer(sumsPatience)
	defer patience.Stop()
	select {
	case <-done:
		coming = false
	case <-patience.C:
		coming = true
	case <-ctx.Done():
		coming = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.have[p.Name], coming
}

// add adds a span up.
func (s *sums) add(ctx context.Context, p span, now time.Time) *added {
	ctx, cancel := context.WithTimeout(ctx, sumsTime)
	defer cancel()
	now = now.UTC()
	from := time.Date(now.Year(), now.Month(), now.Day()-p.days+1, 0, 0, 0, 0, time.UTC)
	a := &added{}
	times, owners, models := map[time.Time]*used{}, map[string]*used{}, map[string]*used{}
	req := &apipb.ListUsageSumsRequest{Grain: p.grain, Filter: &apipb.UsageFilter{From: timestamppb.New(from)}, PageSize: pageOfSums}
	for rows := 0; ; {
		answer, err := s.deps.Usage.ListUsageSums(ctx, req)
		if err != nil {
			return &added{err: err}
		}
		for _, row := range answer.GetSums() {
			a.total.add(row)
			at := row.GetStart().AsTime()
			if times[at] == nil {
				times[at] = &used{At: at}
			}
			times[at].add(row)
			named(owners, row.GetOwner()).add(row)
			named(models, row.GetModel()).add(row)
		}
		rows += len(answer.GetSums())
		if req.PageToken = answer.GetNextPageToken(); req.GetPageToken() == "" {
			break
		}
		if rows >= maxSums {
			a.cut = true
			break
		}
	}
	step := 24 * time.Hour
	if p.grain == apipb.UsageGrain_USAGE_GRAIN_HOUR {
		step = time.Hour
	}
	for at := from; !at.After(now); at = at.Add(step) { // of an hour without rows nothing was used
		u := times[at]
		if u == nil {
			u = &used{At: at}
		}
		a.byTime = append(a.byTime, *u)
	}
	a.byOwner, a.byModel = ranked(owners), ranked(models)
	if s.deps.Keys != nil {
		var err error
		if a.keys, err = s.countKeys(ctx); err != nil {
			return &added{err: err}
		}
	}
	return a
}

// named returns the entry of that name, or of all others.
func named(in map[string]*used, name string) *used {
	u := in[name]
	if u == nil {
		if len(in) >= maxNames {
			name = othersName
		}
		if u = in[name]; u == nil {
			u = &used{Name: name}
			in[name] = u
		}
	}
	return u
}

// ranked orders by what was used.
func ranked(in map[string]*used) []used {
	out := make([]used, 0, len(in))
	for _, u := range in {
		out = append(out, *u)
	}
	slices.SortFunc(out, func(a, b used) int {
		return cmp.Or(cmp.Compare(b.Nanos, a.Nanos), cmp.Compare(b.Input+b.Output, a.Input+a.Output), cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Name, b.Name))
	})
	return out
}

// countKeys counts keys by what they are good for.
func (s *sums) countKeys(ctx context.Context) (map[apipb.KeyState]int, error) {
	out := map[apipb.KeyState]int{}
	req := &apipb.ListKeysRequest{PageSize: pageOfSums}
	for n := 0; ; {
		answer, err := s.deps.Keys.ListKeys(ctx, req)
		if err != nil {
			return nil, err
		}
		for _, k := range answer.GetKeys() {
			out[k.GetState()]++
		}
		n += len(answer.GetKeys())
		if req.PageToken = answer.GetNextPageToken(); req.GetPageToken() == "" {
			return out, nil
		}
		if n >= maxSums {
			return nil, errors.New("console: more keys than can be counted")
		}
	}
}
