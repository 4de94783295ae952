package control_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// ordered is what became of an order that was given in a goroutine.
type ordered struct {
	answer control.Answer
	err    error
	done   chan struct{}
}

func give(order func() (control.Answer, error)) *ordered {
	o := &ordered{done: make(chan struct{})}
	go func() {
		defer close(o.done)
		o.answer, o.err = order()
	}()
	synctest.Wait()
	return o
}

func (o *ordered) isDone() bool {
	synctest.Wait()
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

func TestOrdersAreRepeatedUntilAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := leader()
		w := newWorld(t, control.DefaultConfig(), control.Deps{Authority: auth})
		a := w.dial(hello("n1"))
		o := give(func() (control.Answer, error) { return w.plane.Start(t.Context(), "n1", spec("r1", 3)) })
		got := a.commands()
		if len(got) != 1 || got[0].GetCluster() != "c1" || got[0].GetTerm() != 7 || got[0].GetStart().GetReplica() != "r1" || got[0].GetStart().GetGeneration() != 3 {
			t.Fatalf("commands %v", got)
		}
		id := got[0].GetId()

		time.Sleep(5100 * time.Millisecond)
		synctest.Wait()
		if got := a.commands(); len(got) != 2 || got[1].GetId() != id {
			t.Fatalf("after command_retry: %v", got)
		}

		auth.set(func(m *control.Mandate) { m.Term = 9 }) // acquired anew
		a.hangUp()
		b := w.dial(hello("n1"))
		got = b.commands()
		if len(got) != 1 || got[0].GetId() != id || got[0].GetTerm() != 9 {
			t.Fatalf("on a newer stream: %v", got)
		}
		if o.isDone() {
			t.Fatalf("done without an answer: %+v", o)
		}
		b.answer(&fleetpb.Answer{Command: id, Result: fleetpb.Result_RESULT_BEGUN, Term: 9, Generation: 3, Status: shard("r1", 3, 1, fleetpb.ShardState_SHARD_STATE_STARTING)})
		<-o.done
		if o.err != nil || o.answer.Already || o.answer.Term != 9 || o.answer.Status.State != engines.ShardStarting {
			t.Errorf("answer %+v, %v", o.answer, o.err)
		}
		n, _ := w.plane.Node("n1")
		if s, ok := n.Shard(engines.ShardID{Replica: "r1"}); !ok || s.State != engines.ShardStarting {
			t.Errorf("the answer's status is not in the table: %+v", n.Shards)
		}
		time.Sleep(10 * time.Second)
		b.heartbeat()
		if got := b.commands(); len(got) != 1 {
			t.Errorf("an order that was answered is sent again: %v", got)
		}
	})
}

func TestWhatAnswersMean(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := leader()
		w := newWorld(t, control.DefaultConfig(), control.Deps{Authority: auth})
		a := w.dial(hello("n1"))
		id := engines.ShardID{Replica: "r1", Rank: 1}
		ask := func(m *fleetpb.Answer) (control.Answer, error) {
			o := give(func() (control.Answer, error) {
				return w.plane.Stop(t.Context(), "n1", control.Stop{Shard: id, Generation: 4, Reason: "not wanted", Drain: time.Minute})
			})
			all := a.commands()
			last := all[len(all)-1]
			if s := last.GetStop(); s.GetRank() != 1 || s.GetGeneration() != 4 || s.GetReason() != "not wanted" || s.GetDrain().AsDuration() != time.Minute {
				t.Errorf("command %v", last)
			}
			m.Command = last.GetId()
			a.answer(m)
			<-o.done
			return o.answer, o.err
		}
		if got, err := ask(&fleetpb.Answer{Result: fleetpb.Result_RESULT_ALREADY}); err != nil || !got.Already || got.Status != nil {
			t.Errorf("already: %+v, %v", got, err)
		}

		_, err := ask(&fleetpb.Answer{Result: fleetpb.Result_RESULT_STALE, Term: 7, Generation: 5})
		if stale, ok := errors.AsType[*control.StaleError](err); !ok || stale.Generation != 5 || !errors.Is(err, control.ErrStale) ||
			err.Error() != "node n1, shard r1/1: ordered generation 4, and it has heard of generation 5" {
			t.Errorf("stale generation: %v", err)
		}
		if auth.outranked("n1") != 0 {
			t.Error("the authority was told of a term that is not higher")
		}

		_, err = ask(&fleetpb.Answer{Result: fleetpb.Result_RESULT_STALE, Term: 8, Generation: 4})
		if stale, ok := errors.AsType[*control.StaleError](err); !ok || stale.Term != 8 || stale.SentTerm != 7 {
			t.Errorf("stale term: %v", err)
		}
		if got := auth.outranked("n1"); got != 8 {
			t.Errorf("the authority was told of term %d", got)
		}

		_, err = ask(&fleetpb.Answer{Result: fleetpb.Result_RESULT_REFUSED, Reason: "no such flag", Advice: "take it out"})
		if refused, ok := errors.AsType[*control.RefusedError](err); !ok || refused.Again || !errors.Is(err, control.ErrRefused) ||
			err.Error() != "node n1 refused shard r1/1: no such flag; take it out" {
			t.Errorf("refused: %v", err)
		}
		_, err = ask(&fleetpb.Answer{Result: fleetpb.Result_RESULT_UNAVAILABLE, Reason: "no port is free"})
		if refused, ok := errors.AsType[*control.RefusedError](err); !ok || !refused.Again {
			t.Errorf("unavailable: %v", err)
		}
		_, err = ask(&fleetpb.Answer{Result: 99})
		if refused, ok := errors.AsType[*control.RefusedError](err); !ok || !refused.Again {
			t.Errorf("a result of the future: %v", err)
		}
	})
}

func TestOrdersThatAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		auth := leader()
		cfg := control.DefaultConfig()
		cfg.MaxCommandsPerNode = 2
		w := newWorld(t, cfg, control.Deps{Authority: auth})
		start := func(node string, s engines.ShardSpec) error {
			_, err := w.plane.Start(t.Context(), node, s)
			return err
		}
		if err := start("n1", spec("r1", 1)); !errors.Is(err, control.ErrNotConnected) {
			t.Errorf("an unknown node: %v", err)
		}
		a := w.dial(hello("n1"))
		for name, s := range map[string]engines.ShardSpec{
			"no generation": spec("r1", 0),
			"no id":         spec("../etc", 1),
			"rank":          {ID: engines.ShardID{Replica: "r1", Rank: -1}, Generation: 1},
			"too much":      {ID: engines.ShardID{Replica: "r1"}, Generation: 1, Secret: string(make([]byte, cfg.MaxMessageBytes))},
		} {
			if err := start("n1", s); !errors.Is(err, control.ErrOrder) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got := a.commands(); len(got) != 0 {
			t.Errorf("sent %v", got)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		one := give(func() (control.Answer, error) { return w.plane.Start(ctx, "n1", spec("r1", 1)) })
		two := give(func() (control.Answer, error) { return w.plane.Start(ctx, "n1", spec("r2", 1)) })
		if err := start("n1", spec("r3", 1)); !errors.Is(err, control.ErrBusy) {
			t.Errorf("a third: %v", err)
		}
		<-one.done
		<-two.done
		if !errors.Is(one.err, control.ErrUnanswered) || !errors.Is(one.err, context.DeadlineExceeded) {
			t.Errorf("no answer: %v", one.err)
		}

		auth.set(func(m *control.Mandate) { m.Level = control.Observer })
		if err := start("n1", spec("r1", 1)); !errors.Is(err, control.ErrNotLeader) {
			t.Errorf("an observer: %v", err)
		}
		auth.set(func(m *control.Mandate) { m.Level = control.Leader })
		a.hangUp()
		if err := start("n1", spec("r1", 1)); !errors.Is(err, control.ErrNotConnected) {
			t.Errorf("a node whose stream ended: %v", err)
		}
	})
}

// Sleep and Wake are commands of their own about a shard and its generation.
func TestSleepAndWakeAreOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		a := w.dial(hello("n1"))
		id := engines.ShardID{Replica: "r1", Rank: 1}
		ask := func(order func(context.Context, string, engines.ShardID, uint64) (control.Answer, error), state fleetpb.ShardState) *fleetpb.Command {
			t.Helper()
			o := give(func() (control.Answer, error) { return order(t.Context(), "n1", id, 4) })
			all := a.commands()
			last := all[len(all)-1]
			s := shard("r1", 4, uint64(len(all)), state)
			s.Rank = 1
			a.answer(&fleetpb.Answer{Command: last.GetId(), Result: fleetpb.Result_RESULT_BEGUN, Term: 7, Generation: 4, Status: s})
			<-o.done
			if o.err != nil || o.answer.Status == nil {
				t.Errorf("%+v, %v", o.answer, o.err)
			}
			return last
		}
		if c := ask(w.plane.Sleep, fleetpb.ShardState_SHARD_STATE_SLEEPING).GetSleep(); c.GetReplica() != "r1" || c.GetRank() != 1 || c.GetGeneration() != 4 {
			t.Errorf("sleep: %v", c)
		}
		if n, _ := w.plane.Node("n1"); len(n.Shards) != 1 || n.Shards[0].State != engines.ShardSleeping {
			t.Errorf("shards %+v", n.Shards)
		}
		if c := ask(w.plane.Wake, fleetpb.ShardState_SHARD_STATE_LOADING).GetWake(); c.GetReplica() != "r1" || c.GetRank() != 1 || c.GetGeneration() != 4 {
			t.Errorf("wake: %v", c)
		}
	})
}

func TestOrdersEndWithThePlane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		w.dial(hello("n1"))
		o := give(func() (control.Answer, error) {
			return w.plane.Drain(t.Context(), "n1", engines.ShardID{Replica: "r1"}, 1)
		})
		w.end()
		<-o.done
		if !errors.Is(o.err, control.ErrUnanswered) {
			t.Errorf("error %v", o.err)
		}
	})
}
