package schedule_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// world is what the scenarios of testdata/scenarios act on. Its commands:
//
//	pool                 lines "ID [weight=W]": a new set
//	remove ID            takes an endpoint out of the set, not out of the pool
//	load ID [running=N] [waiting=N] [kv=R] [age=D]
//	reserve ID n=N       N requests in flight, untouched by decisions
//	fail ID n=N; ok ID; cool ID for=D
//	advance by=D         time passes
//	prefix PROMPT bytes=N the length of a prompt, and in lines
//	                     "ID N [exact] [seen=N]" who holds how much of it
//	decide [profile=P] [session=S] [prompt=P] [tried=(ID,...)] [n=N] [keep]
//	                     N decisions, each released at once unless keep;
//	                     prints the picks, and for n=1 the record
//	picked               what the index was told since the last time
//	inflight             what is in flight by endpoint
type world struct {
	t     *testing.T
	now   time.Time
	set   *endpoint.Set
	specs []endpoint.Spec
	pool  []*endpoint.Endpoint
	sched *schedule.Scheduler
	index *fakeIndex
	rng   *rand.Rand
}

func (w *world) endpoint(id string) *endpoint.Endpoint {
	for _, e := range w.pool {
		if e.ID() == id {
			return e
		}
	}
	w.t.Fatalf("no endpoint %q", id)
	return nil
}

// args reads key=value arguments and the bare words.
func args(d *datadriven.TestData) (kv map[string]string, words []string) {
	kv = make(map[string]string)
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			words = append(words, a.Key)
			continue
		}
		kv[a.Key] = strings.Join(a.Vals, ",")
	}
	return kv, words
}

func (w *world) number(kv map[string]string, key string, missing float64) float64 {
	text, ok := kv[key]
	if !ok {
		return missing
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) duration(kv map[string]string, key string) time.Duration {
	text, ok := kv[key]
	if !ok {
		return 0
	}
	v, err := time.ParseDuration(text)
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func (w *world) reading(kv map[string]string, key string) engines.Reading {
	if _, ok := kv[key]; !ok {
		return engines.Reading{}
	}
	return engines.Read(w.number(kv, key, 0))
}

func (w *world) run(d *datadriven.TestData) string {
	kv, words := args(d)
	target := func() *endpoint.Endpoint { return w.endpoint(words[0]) }
	switch d.Cmd {
	case "pool":
		w.makePool(d.Input)
	case "remove":
		var left []endpoint.Spec
		for _, s := range w.specs {
			if s.ID != words[0] {
				left = append(left, s)
			}
		}
		w.replace(left)
	case "load":
		target().SetLoad(&endpoint.LoadState{
			Load: engines.Load{
				Running:     w.reading(kv, "running"),
				Waiting:     w.reading(kv, "waiting"),
				KVUsedRatio: w.reading(kv, "kv"),
			},
			InFlight: target().InFlight(),
			At:       w.now.Add(-w.duration(kv, "age")),
		})
	case "reserve":
		for range int(w.number(kv, "n", 1)) {
			target().Reserve()
		}
	case "fail":
		for range int(w.number(kv, "n", 1)) {
			target().Failed(w.now)
		}
	case "ok":
		target().Succeeded(w.now)
	case "cool":
		target().CoolDown(w.now, w.duration(kv, "for"))
	case "advance":
		w.now = w.now.Add(w.duration(kv, "by"))
	case "prefix":
		w.index.set(words[0], w.prefix(d.Input), int(w.number(kv, "bytes", 0)))
	case "decide":
		return w.decide(kv, words)
	case "picked":
		return w.index.take()
	case "inflight":
	default:
		w.t.Fatalf("unknown command %q", d.Cmd)
	}
	var out strings.Builder
	if d.Cmd == "inflight" {
		for _, e := range w.pool {
			fmt.Fprintf(&out, "%s: %d\n", e.ID(), e.InFlight())
		}
	}
	return out.String()
}

func (w *world) prefix(input string) []schedule.Holder {
	var found []schedule.Holder
	for line := range strings.Lines(input) {
		fields := strings.Fields(line)
		n, err := strconv.Atoi(fields[1])
		if err != nil {
			w.t.Fatal(err)
		}
		found = append(found, schedule.Holder{Endpoint: w.endpoint(fields[0]), Bytes: n})
		for _, more := range fields[2:] {
			h := &found[len(found)-1]
			if _, err := fmt.Sscanf(more, "seen=%d", &h.Seen); err != nil {
				h.Exact = more == "exact"
			}
		}
	}
	return found
}

func (w *world) makePool(input string) {
	var specs []endpoint.Spec
	for line := range strings.Lines(input) {
		fields := strings.Fields(line)
		s := endpoint.Spec{ID: fields[0], URL: "http://" + fields[0], Models: []endpoint.Model{{Name: "m"}}}
		if len(fields) > 1 {
			v, err := strconv.ParseFloat(strings.TrimPrefix(fields[1], "weight="), 64)
			if err != nil {
				w.t.Fatal(err)
			}
			s.Weight = v
		}
		specs = append(specs, s)
	}
	set, err := endpoint.NewSet(endpoint.DefaultConfig(), endpoint.Deps{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.set = set
	w.replace(specs)
	w.pool = set.Snapshot().All()
}

func (w *world) replace(specs []endpoint.Spec) {
	w.specs = specs
	if err := w.set.Replace(specs); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) decide(kv map[string]string, words []string) string {
	req := &schedule.Request{Model: "m", Session: kv["session"], Now: w.now}
	if prompt, ok := kv["prompt"]; ok {
		req.Prompt = &prompt
	}
	if tried := kv["tried"]; tried != "" {
		for id := range strings.SplitSeq(tried, ",") {
			req.Tried = append(req.Tried, w.endpoint(id))
		}
	}
	n := int(w.number(kv, "n", 1))
	keep := len(words) > 0 && words[0] == "keep"
	var rec schedule.Decision
	picks := make(map[string]int)
	for range n {
		e, held, err := w.sched.Decide(kv["profile"], req, w.pool, w.rng, &rec)
		if err != nil {
			if _, ok := errors.AsType[*schedule.NoEndpointError](err); !ok && errors.Is(err, schedule.ErrNoEndpoint) {
				w.t.Errorf("%v is no *NoEndpointError", err)
			}
			return err.Error() + "\n"
		}
		picks[e.ID()]++
		if !keep {
			held.Release()
		}
	}
	var out strings.Builder
	for _, e := range w.pool {
		if picks[e.ID()] > 0 {
			fmt.Fprintf(&out, "%s: %d\n", e.ID(), picks[e.ID()])
		}
	}
	if n == 1 {
		w.show(&out, rec.Explain())
	}
	return out.String()
}

func (w *world) show(out *strings.Builder, x *schedule.Explanation) {
	for _, c := range x.Candidates {
		fmt.Fprintf(out, "  %s %.3f:", c.Endpoint, c.Score)
		for _, v := range c.Votes {
			fmt.Fprintf(out, " %s=%.2f", v.Scorer, v.Vote)
		}
		if c.PrefixBytes > 0 {
			fmt.Fprintf(out, " holds %d/%d", c.PrefixBytes, x.PromptBytes)
		}
		if c.PrefixExact {
			out.WriteString(" exactly")
		}
		if c.PrefixYields {
			out.WriteString(" yields")
		}
		out.WriteByte('\n')
	}
	for _, d := range x.Dropped {
		fmt.Fprintf(out, "  %s dropped by %s, %s\n", d.Endpoint, d.Filter, d.State)
	}
}

func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		index := newFakeIndex()
		w := &world{
			t:     t,
			now:   time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC),
			sched: newScheduler(t, schedule.Deps{Prefixes: index}),
			index: index,
			rng:   rand.New(rand.NewPCG(1, 2)),
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			return w.run(d)
		})
	})
}
