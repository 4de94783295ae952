package gang_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/sim/gang"
	"github.com/llmgw/llmgw/engines/sim/simtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rendezvous = "leader:29500"

// rank is one process of a gang in a bubble.
type rank struct {
	session *gang.Session
	err     error
	ended   bool // the call that gathers has returned
	conn    net.Conn
}

func lead(t *testing.T, network *simtest.Network, m gang.Member, timeout time.Duration) *rank {
	ln, err := network.Listen(rendezvous)
	if err != nil {
		t.Fatal(err)
	}
	r := new(rank)
	go func() {
		r.session, r.err = gang.Lead(t.Context(), m, ln, gang.Options{Timeout: timeout})
		r.ended = true
	}()
	return r
}

func join(t *testing.T, network *simtest.Network, m gang.Member, timeout time.Duration) *rank {
	r := new(rank)
	go func() {
		r.session, r.err = gang.Join(t.Context(), m, func(ctx context.Context) (c net.Conn, err error) {
			c, err = network.Dial(ctx, "tcp", rendezvous)
			r.conn = c
			return c, err
		}, gang.Options{Timeout: timeout})
		r.ended = true
	}()
	return r
}

// close ends a rank, as its process would.
func (r *rank) close() {
	switch {
	case r.session != nil:
		r.session.Close()
	case r.conn != nil:
		_ = r.conn.Close()
	}
}

func member(ranks, rank int) gang.Member {
	return gang.Member{Replica: "chat-1", Generation: 7, Ranks: ranks, Rank: rank}
}

// A gang of three from the first process to the last word.
func TestGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := new(simtest.Network)
		early := join(t, network, member(3, 2), time.Hour)
		time.Sleep(time.Minute) // the leader's node boots
		leader := lead(t, network, member(3, 0), time.Hour)
		time.Sleep(time.Minute)
		if leader.ended || early.ended {
			t.Fatal("the gang has gathered without rank 1")
		}
		late := join(t, network, member(3, 1), time.Hour)
		synctest.Wait()
		for i, r := range []*rank{leader, late, early} {
			if !r.ended || r.err != nil {
				t.Fatalf("rank %d: gathered %t, %v", i, r.ended, r.err)
			}
		}

		var loaded error
		all := make(chan struct{})
		go func() {
			loaded = leader.session.Loaded(t.Context())
			close(all)
		}()
		if err := late.session.Loaded(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-all:
			t.Fatal("the leader serves before rank 2 has loaded")
		default:
		}
		if err := early.session.Loaded(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-all
		if loaded != nil {
			t.Fatal(loaded)
		}

		late.close()
		<-leader.session.Done()
		if err := leader.session.Err(); !errors.Is(err, gang.ErrLost) || !strings.Contains(err.Error(), "rank 1") {
			t.Errorf("the leader ends with %v; want rank 1 lost", err)
		}
		leader.close()
		<-early.session.Done()
		if err := early.session.Err(); !errors.Is(err, gang.ErrLost) || !strings.Contains(err.Error(), "the leader") {
			t.Errorf("rank 2 ends with %v; want the leader lost", err)
		}
		early.close()
	})
}

func TestMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := new(simtest.Network)
		leader := lead(t, network, member(4, 0), time.Minute)
		there := join(t, network, member(4, 2), time.Hour)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !errors.Is(leader.err, gang.ErrMissing) || !strings.Contains(leader.err.Error(), "1, 3 of 4 have not joined: waited for 1m0s") {
			t.Errorf("the leader ends with %v", leader.err)
		}
		if !errors.Is(there.err, gang.ErrLost) {
			t.Errorf("rank 2 ends with %v; want the leader lost", there.err)
		}
		alone := join(t, network, member(4, 3), time.Minute)
		time.Sleep(time.Minute)
		synctest.Wait()
		if !errors.Is(alone.err, gang.ErrMissing) || !strings.Contains(alone.err.Error(), "nobody listens there") {
			t.Errorf("a rank without a leader ends with %v", alone.err)
		}
	})
}

// A leader told to stop while it waits for ranks to load says which.
func TestLoadCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := new(simtest.Network)
		leader, worker := lead(t, network, member(2, 0), 0), join(t, network, member(2, 1), 0)
		synctest.Wait()
		defer worker.close()
		defer leader.close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := leader.session.Loaded(ctx); err == nil || !strings.Contains(err.Error(), "ranks 1 have not loaded") {
			t.Errorf("got %v", err)
		}
	})
}

func TestMember(t *testing.T) {
	for _, m := range []gang.Member{{}, member(1, 0), member(2, 2), member(2, -1), {Ranks: 2, Replica: strings.Repeat("r", 1000)}, {Ranks: 1 << 20}} {
		if err := m.Validate(); err == nil {
			t.Errorf("%+v is accepted", m)
		}
	}
	if _, err := gang.Join(t.Context(), member(2, 0), nil, gang.Options{}); err == nil {
		t.Error("a leader joins")
	}
}

// stranger connects and says something else; it returns the answer.
func stranger(t *testing.T, network *simtest.Network, words string) string {
	c, err := network.Dial(t.Context(), "tcp", rendezvous)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	go func() { _, _ = io.WriteString(c, words) }()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return line
}

func TestStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := new(simtest.Network)
		leader := lead(t, network, member(2, 0), 0)
		for _, words := range []string{"GET / HTTP/1.1\r\n\r\n", "{}\n", `{"kind":"hello"}` + "\n", strings.Repeat("x", 10000), ""} {
			if got := stranger(t, network, words); !strings.Contains(got, "say hello first") {
				t.Errorf("%.20q is answered %q", words, got)
			}
		}
		worker := join(t, network, member(2, 1), 0)
		synctest.Wait()
		if !leader.ended || leader.err != nil {
			t.Errorf("after strangers the gang gathers: %t, %v", leader.ended, leader.err)
		}
		leader.close()
		worker.close()
	})
}

// Whatever comes and goes in whatever order: the leader goes on if and only if
// every rank was there at once, and is lost if and only if one leaves
// afterwards. Who does not belong is refused.
func TestGatherings(t *testing.T) {
	type step struct {
		join *gang.Member
		lose int // of those that joined so far, counted round
	}
	rapid.Check(t, func(rt *rapid.T) {
		ranks := rapid.IntRange(2, 5).Draw(rt, "ranks")
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			if rapid.IntRange(0, 3).Draw(rt, "kind") == 0 {
				return step{lose: rapid.IntRange(0, 100).Draw(rt, "who")}
			}
			m := member(ranks, rapid.IntRange(1, ranks-1).Draw(rt, "rank"))
			switch rapid.IntRange(0, 15).Draw(rt, "wrong") {
			case 0:
				m.Replica = "chat-2"
			case 1:
				m.Generation = 6
			case 2:
				m.Ranks++
			}
			return step{join: &m}
		}), 1, 25).Draw(rt, "steps")

		var fault string
		synctest.Test(t, func(t *testing.T) {
			network := new(simtest.Network)
			leader := lead(t, network, member(ranks, 0), 0)
			synctest.Wait()
			all := []*rank{leader}
			present := make(map[int]*rank) // the model
			gathered, lost := false, false
			check := func(i int, what string, want, got bool) bool {
				if want != got && fault == "" {
					fault = fmt.Sprintf("step %d: %s is %t; want %t", i, what, got, want)
				}
				return want == got
			}
			for i, s := range steps {
				if s.join != nil {
					m := *s.join
					r := join(t, network, m, time.Second)
					synctest.Wait()
					all = append(all, r)
					belongs := m == member(ranks, m.Rank) && present[m.Rank] == nil && !gathered
					if !check(i, "refused", !belongs, errors.Is(r.err, gang.ErrRefused)) {
						break
					}
					if belongs {
						present[m.Rank] = r
						gathered = len(present) == ranks-1
					}
				} else if len(present) > 0 {
					at := 1 + s.lose%(ranks-1)
					if r := present[at]; r != nil {
						r.close()
						delete(present, at)
						lost = gathered
						synctest.Wait()
					}
				}
				if !check(i, "gathered", gathered, leader.ended && leader.err == nil) {
					break
				}
				if gathered {
					check(i, "lost", lost, errors.Is(leader.session.Err(), gang.ErrLost))
				}
				for at, r := range present {
					check(i, fmt.Sprintf("rank %d gathered", at), gathered, r.ended && r.err == nil)
				}
				if lost {
					break
				}
			}
			if leader.session == nil { // let it go
				for at := 1; at < ranks; at++ {
					if present[at] == nil {
						all = append(all, join(t, network, member(ranks, at), time.Second))
					}
				}
				synctest.Wait()
			}
			for _, r := range all {
				r.close()
			}
		})
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}
