package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llmgw/llmgw/storage"
)

// sound is the evidence of a run in which all was well: one router was killed and
// took one row with it, one row is of a request of which its client was told
// nothing, and a minute is full.
func sound() *evidence {
	begin := time.Unix(1e9, 0)
	at := func(seconds float64) time.Time { return begin.Add(time.Duration(seconds * float64(time.Second))) }
	rich := &account{name: "rich", id: "key_r", budget: 100 * worst, workers: 1}
	often := &account{name: "often", id: "key_o", requests: 2}
	killed, alive := &router{}, &router{}
	end := at(10)
	killed.killed.Store(&end)
	period := rich.period()
	cost := func(tokens int64) *int64 { n := tokens * price; return &n }
	return &evidence{
		accounts: []*account{rich, often}, bufferFor: time.Second,
		calls: []call{
			{account: rich, router: alive, chosen: "c1", told: "c1", begin: at(1), end: at(2), status: 200, whole: true},
			{account: rich, router: killed, told: "req_2", begin: at(9), end: at(9.5), status: 200, whole: true}, // lost
			{account: rich, router: killed, begin: at(9.5), end: at(10)},
			{account: often, router: alive, told: "req_3", begin: at(3), end: at(3), status: 429, code: "rate_limit_exceeded", whole: true},
			{account: often, router: killed, told: "req_4", begin: at(4), end: at(4), status: 503, code: "keys_unavailable", whole: true},
			{account: often, router: alive, told: "req_5", begin: at(21), end: at(22), status: 200, whole: true},
			{account: often, router: alive, told: "req_6", begin: at(31), end: at(32), status: 503, code: "keys_unavailable", whole: true},
		},
		rows: []storage.Usage{
			{RequestID: "req_x.c1", CostNanos: cost(30), Charged: &period}, {RequestID: "req_3"}, {RequestID: "req_9"}, {RequestID: "req_5"},
		},
		truths: map[string]truth{
			"c1": {key: "rich", at: at(1), tokens: 30}, "req_2": {key: "rich", at: at(9), tokens: 25},
			"a": {key: "often", at: at(0), tokens: 1}, "b": {key: "often", at: at(50), tokens: 1}, "c": {key: "often", at: at(58), tokens: 1},
			"d": {key: "often", at: at(116), tokens: 1}, "e": {key: "often", at: at(117), tokens: 1},
		},
		budgets: map[string]standing{"key_r": {
			BudgetState: storage.BudgetState{GrantedNanos: 30*price + 2*worst, SpentNanos: 30 * price},
			grants:      []storage.Grant{{Router: "gone"}}, most: 50 * worst,
		}},
		darkness: []darkness{{from: at(20), to: at(30), known: true}, {from: at(30), to: at(40)}},
	}
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name   string
		change func(*evidence)
		want   string // in the problem; empty: there is none
	}{
		{"sound", func(*evidence) {}, ""},
		{"a row twice", func(e *evidence) { e.rows = append(e.rows, storage.Usage{RequestID: "req_y.c1"}) }, "c1 has 2 rows"},
		{"a row of nobody twice", func(e *evidence) { e.rows = append(e.rows, storage.Usage{RequestID: "req_9"}) }, "req_9 has 2 rows"},
		{"a row too many", func(e *evidence) { e.rows = append(e.rows, storage.Usage{RequestID: "req_8"}) }, "2 rows are of no request"},
		{"no row", func(e *evidence) { e.rows = slices.Delete(e.rows, 1, 2) }, "req_3 was answered (429) by a router that was not killed"},
		{"lost too early", func(e *evidence) { e.calls[1].end = e.calls[1].end.Add(-time.Second) }, "1.5s before its router was killed"},
		{"not seen whole", func(e *evidence) { e.calls[1].end, e.calls[1].whole = e.calls[1].begin.Add(-time.Minute), false }, ""},
		{"a key that is none", func(e *evidence) { e.calls[3].status = 401 }, "told that its key is none"},
		{"a known key refused", func(e *evidence) { e.calls[5].code = "keys_unavailable" }, "often was not known while the store was away"},
		{"served without a store", func(e *evidence) {
			e.calls[6].code, e.calls[6].status = "", 200
			e.rows = append(e.rows, storage.Usage{RequestID: "req_6"})
		}, "told 200  by a router that was started without its store"},
		{"too much granted", func(e *evidence) { e.change(func(s *standing) { s.most = 101 * worst }) }, "were granted of"},
		{"too much spent", func(e *evidence) { *e.rows[0].CostNanos = 101 * worst }, "rich: the rows cost"},
		{"another sum", func(e *evidence) { e.change(func(s *standing) { s.SpentNanos++ }) }, "the store has"},
		{"too much work", func(e *evidence) { e.truths["x"] = truth{key: "rich", tokens: 101 * worst / price} }, "the engine did work for"},
		{"spent without a grant", func(e *evidence) { e.change(func(s *standing) { s.GrantedNanos = 50 * price }) }, "were spent and"},
		{"too much stranded", func(e *evidence) { e.change(func(s *standing) { s.GrantedNanos = 60 * worst }) }, "are stranded with 1 killed"},
		{"one too many in a minute", func(e *evidence) { e.truths["x"] = truth{key: "often", at: e.truths["b"].at, tokens: 1} }, "often: 3 passed in a minute, of 2, and Redis was there"},
		{"one too many when Redis came and went", func(e *evidence) {
			e.truths["x"], e.redisDown = truth{key: "often", at: e.truths["b"].at, tokens: 1}, e.truths["b"].at
		}, ""},
		{"more than twice", func(e *evidence) {
			e.redisDown = e.truths["b"].at
			for _, id := range []string{"x", "y", "z"} {
				e.truths[id] = e.truths["d"]
			}
		}, "more than twice"},
		{"more than twice, of routers that are new", func(e *evidence) {
			e.redisDown, e.ratesUntil = e.truths["b"].at, e.truths["d"].at
			for _, id := range []string{"x", "y", "z"} {
				e.truths[id] = e.truths["d"]
			}
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := sound()
			tt.change(e)
			v := judge(e)
			all := strings.Join(v.problems, "\n")
			if tt.want == "" && all != "" || !strings.Contains(all, tt.want) {
				t.Errorf("problems:\n%s\nwant %q", all, tt.want)
			}
		})
	}
}

// change changes where the budget stands.
func (e *evidence) change(f func(*standing)) {
	s := e.budgets["key_r"]
	f(&s)
	e.budgets["key_r"] = s
}

func TestFigures(t *testing.T) {
	v := judge(sound())
	if v.lost != 1 || v.oldest != 500*time.Millisecond || v.nameless != 1 || v.unanswered != 1 || v.dark != 1 || v.blind != 1 {
		t.Errorf("%+v", v)
	}
	s := v.budgets[0]
	if s.rows != 30*price || s.lost != 25*price || s.truth != 55*price || s.stranded != 2*worst-25*price || s.killed != 1 {
		t.Errorf("%+v", s)
	}
	if w := v.windows[0]; w.at != 2 || w.before != 2 {
		t.Errorf("%+v", w)
	}
	var out bytes.Buffer
	v.print(&out, 1)
	for _, want := range []string{"7 requests, 6 with an answer; 1 routers killed", "4 rows; 1 requests were answered whole", "the oldest ended 500ms", "rich"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}
