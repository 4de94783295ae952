package admission_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/llmgw/llmgw/admission"
)

// scene is what the scenarios of testdata act on. Its commands:
//
//	new [capacity=N] [ttl=D]      an empty core
//	load ID [batch=N] [inflight=N] [seen=N] [running=N] [waiting=N] [kv=R] [age=D]...
//	                              one line per endpoint: the pool's load
//	offer [band=B] [tenant=T] [n=N]
//	release N...                  leases by request number
//	cancel N...
//	advance by=D                  time passes, and a step
//
// Each prints what was decided, and the saturation.
type scene struct {
	t       *testing.T
	core    *admission.Core
	now     time.Time
	tickets map[uint64]admission.Ticket
	out     strings.Builder
}

func value(t *testing.T, d *datadriven.TestData, key, missing string) string {
	t.Helper()
	for _, a := range d.CmdArgs {
		if a.Key == key && len(a.Vals) == 1 {
			return a.Vals[0]
		}
	}
	return missing
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (s *scene) run(d *datadriven.TestData) string {
	s.out.Reset()
	switch d.Cmd {
	case "new":
		s.core = newCore(s.t, func(c *admission.Config) {
			c.Saturation.AssumedCapacity = 8
			c.QueueCapacityPerBand = number(s.t, value(s.t, d, "capacity", "2000"))
			c.QueueTTL = duration(s.t, value(s.t, d, "ttl", "30s"))
		})
		s.now, s.tickets = start(), map[uint64]admission.Ticket{}
		return ""
	case "load":
		s.step(admission.PoolLoad{Pool: "m", Load: s.load(d.Input)})
	case "offer":
		for range number(s.t, value(s.t, d, "n", "1")) {
			s.offer(admission.Request{Pool: "m", Band: value(s.t, d, "band", ""), Tenant: value(s.t, d, "tenant", "")})
		}
	case "release", "cancel":
		end := s.core.Release
		if d.Cmd == "cancel" {
			end = s.core.Cancel
		}
		for _, a := range d.CmdArgs {
			if !end(s.now, s.tickets[uint64(number(s.t, a.Key))]) {
				fmt.Fprintf(&s.out, "%s: nothing to %s\n", a.Key, d.Cmd)
			}
		}
		s.step()
	case "advance":
		s.now = s.now.Add(duration(s.t, value(s.t, d, "by", "")))
		s.step()
	default:
		s.t.Fatalf("unknown command %q", d.Cmd)
	}
	saturation, _ := s.core.Saturation("m")
	fmt.Fprintf(&s.out, "saturation %.3g, %d leased, %d waiting\n", saturation, s.core.Leases(), s.core.Waiting())
	return s.out.String()
}

func (s *scene) load(input string) *admission.Load {
	load := &admission.Load{}
	for line := range strings.Lines(input) {
		fields := strings.Fields(line)
		e := admission.EndpointLoad{ID: fields[0], MeasuredAt: s.now}
		for _, f := range fields[1:] {
			key, text, _ := strings.Cut(f, "=")
			if key == "age" {
				e.MeasuredAt = s.now.Add(-duration(s.t, text))
				continue
			}
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				s.t.Fatal(err)
			}
			*map[string]*admission.Reading{
				"batch": &e.BatchCapacity, "inflight": &e.InFlight, "seen": &e.MeasuredInFlight,
				"running": &e.Running, "waiting": &e.Waiting, "kv": &e.KVUsedRatio,
			}[key] = admission.Read(v)
		}
		load.Endpoints = append(load.Endpoints, e)
	}
	return load
}

func (s *scene) offer(r admission.Request) {
	ticket, granted, err := s.core.Offer(s.now, r)
	switch {
	case err != nil:
		fmt.Fprintf(&s.out, "refused: %v\n", err)
		if rejected, ok := errors.AsType[*admission.RejectedError](err); ok {
			fmt.Fprintf(&s.out, "  again in %v\n", rejected.RetryAfter)
		}
		return
	case granted:
		fmt.Fprintf(&s.out, "%d runs\n", ticket.ID())
	default:
		fmt.Fprintf(&s.out, "%d waits\n", ticket.ID())
	}
	s.tickets[ticket.ID()] = ticket
	s.step()
}

func (s *scene) step(loads ...admission.PoolLoad) {
	for _, d := range s.core.Step(s.now, loads...) {
		if d.Err != nil {
			fmt.Fprintf(&s.out, "%d: %v\n", d.ID, d.Err)
			continue
		}
		fmt.Fprintf(&s.out, "%d runs\n", d.ID)
	}
}

func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) {
			s := &scene{t: t}
			datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.run(d) })
		})
	}
}
