package control_test

import (
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

func TestLifeOfAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		h := hello("n1")
		h.Shards = []*fleetpb.ShardStatus{shard("r1", 1, 1, fleetpb.ShardState_SHARD_STATE_LOADING)}
		a := w.dial(h)
		welcome := a.wantWelcome()
		if welcome.GetCluster() != "c1" || welcome.GetTerm() != 7 || welcome.GetHeartbeat().AsDuration() != 5*time.Second || welcome.GetProtocol() != 1 {
			t.Errorf("welcome %v", welcome)
		}
		if beat := a.heartbeat(brief(h.GetShards()[0])); beat.GetSequence() != 1 || len(beat.GetResend()) != 0 {
			t.Errorf("beat %v", beat)
		}
		n, ok := w.plane.Node("n1")
		if !ok || n.State != control.Ready || !n.Connected || len(n.Shards) != 1 {
			t.Errorf("node %+v", n)
		}
		time.Sleep(16 * time.Second)
		if got := w.state("n1"); got != control.Unreachable {
			t.Errorf("after 16 s of silence: %v", got)
		}
		a.heartbeat(brief(h.GetShards()[0]))
		if got := w.state("n1"); got != control.Ready {
			t.Errorf("heard again: %v", got)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		if got := w.state("n1"); got != control.Lost {
			t.Errorf("after 61 s of silence: %v", got)
		}
		<-a.done
		a.wantRefusal(connect.CodeUnavailable, "nothing was heard on this stream for 1m0s")
		if n, _ := w.plane.Node("n1"); n.Connected || len(n.Shards) != 1 || n.Heard.IsZero() {
			t.Errorf("what is known of a lost node: %+v", n)
		}
	})
}

func TestEndingSendsAgentsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, control.DefaultConfig(), control.Deps{})
		a := w.dial(hello("n1"))
		a.wantWelcome()
		begun := time.Now()
		w.end()
		<-w.ended
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("Run took %v to end", took)
		}
		synctest.Wait()
		a.wantRefusal(connect.CodeUnavailable, "this control plane ends")
		w.dial(hello("n2")).wantRefusal(connect.CodeUnavailable, "this control plane ends")
	})
}
