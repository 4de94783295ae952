package storagetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/storage"
)

const cluster = "c-1"

// lead begins a term and returns its fence.
func lead(t reporter, s storage.Store) storage.Fence {
	t.Helper()
	term, err := s.BeginTerm(t.Context(), storage.TermRequest{Cluster: cluster, Holder: "cp-1", At: epoch})
	ok(t, err)
	return term.Fence()
}

func simpleNode(n int) storage.Node {
	return storage.Node{ID: fmt.Sprintf("node-%03d", n), FirstSeen: epoch.Add(time.Duration(n) * time.Minute), LastSeen: epoch.Add(time.Hour)}
}

func fullNode() storage.Node {
	return storage.Node{
		ID: "gpu07.rack-3", Instance: "i-1", Address: "10.0.0.7", AgentVersion: "v1.2.3", Boot: "0b5e0f1c-2f62-4b7e-9d0e-0c2d6f0f4a11",
		Labels: map[string]string{"zone": "ä b"}, Registration: []byte(`{"gpus":[{"uuid":"GPU-1","memory_bytes":85899345920}]}`),
		FirstSeen: epoch, LastSeen: epoch.Add(123456789),
	}
}

func simpleReplica(n int) storage.Replica {
	return storage.Replica{
		ID: fmt.Sprintf("r-%03d", n), Model: fmt.Sprintf("m%d", n%2), Generation: 1, State: "placed",
		Shards:    []storage.ReplicaShard{{Node: "node-001"}},
		CreatedAt: epoch.Add(time.Duration(n) * time.Minute), ChangedAt: epoch.Add(time.Hour),
	}
}

func fullReplica() storage.Replica {
	return storage.Replica{
		ID: "llama-1", Model: "llama/70b", Command: "abc", Generation: storage.MaxTerm, State: "starting", Reason: "näme 'quoted\"",
		Shards: []storage.ReplicaShard{
			{Node: "node-001", Cards: []string{"GPU-1", "GPU-2"}, Ports: map[string]int{"http": 20000, "rendezvous": 20010}},
			{Node: "node-002", Cards: []string{"GPU-9", "GPU-0"}},
		},
		Detail:    []byte(`{"profile":{"engine":"vllm"},"fabric":"ä b"}`),
		CreatedAt: epoch, ChangedAt: epoch.Add(time.Second),
	}
}

func fillFleet(t testing.TB, s storage.Store) {
	t.Helper()
	ctx := t.Context()
	f := lead(t, s)
	ok(t, s.PutNodes(ctx, f, []storage.Node{fullNode()}))
	ok(t, s.PutNodes(ctx, f, []storage.Node{simpleNode(1)}))
	ok(t, s.PutReplica(ctx, f, fullReplica()))
	ok(t, s.PutReplica(ctx, f, simpleReplica(1)))
	ok(t, s.SetCordon(ctx, storage.Cordon{Node: "node-001", Target: storage.TargetDrained, Reason: "fan", At: epoch}, because("drain")))
}

func testTerms(t *testing.T, open Open) {
	ctx, s, other := t.Context(), open(t), open(t)
	_, err := s.Term(ctx)
	wantErr(t, "before the first", err, storage.ErrNotFound)
	wantErr(t, "a write before the first", s.PutNodes(ctx, storage.Fence{Cluster: cluster, Term: 1}, []storage.Node{simpleNode(1)}), storage.ErrFenced)

	ask := storage.TermRequest{Cluster: cluster, Holder: "cp-1", At: epoch.Add(time.Second)}
	first, err := s.BeginTerm(ctx, ask)
	ok(t, err)
	equal(t, "the first", first, storage.Term{Cluster: cluster, Number: 1, Holder: "cp-1", BegunAt: epoch.Add(time.Second)})
	ask.Above = 41
	second, err := other.BeginTerm(ctx, ask)
	ok(t, err)
	equal(t, "above what was heard", second.Number, uint64(42))
	ask.Above = 7
	third, err := s.BeginTerm(ctx, ask)
	ok(t, err)
	equal(t, "above the last", third.Number, uint64(43))
	now, err := other.Term(ctx)
	ok(t, err)
	equal(t, "the last", now, third)

	ask.Cluster = "another"
	_, err = s.BeginTerm(ctx, ask)
	wantErr(t, "of another cluster", err, storage.ErrConflict)
	_, err = s.BeginTerm(ctx, storage.TermRequest{At: epoch})
	wantErr(t, "of no cluster", err, storage.ErrInvalid)
	_, err = s.BeginTerm(ctx, storage.TermRequest{Cluster: cluster, At: epoch, Above: storage.MaxTerm})
	wantErr(t, "above all", err, storage.ErrInvalid)
}

// What a leader writes counts in its own term alone.
func testFence(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	old := lead(t, s)
	ok(t, s.PutNodes(ctx, old, []storage.Node{simpleNode(1)}))
	ok(t, s.PutReplica(ctx, old, simpleReplica(1)))
	now := lead(t, s)
	later := storage.Fence{Cluster: cluster, Term: now.Term + 1}
	for name, f := range map[string]storage.Fence{"the term before": old, "a term to come": later, "another cluster": {Cluster: "x", Term: now.Term}} {
		for what, err := range map[string]error{
			"PutNodes":      s.PutNodes(ctx, f, []storage.Node{fullNode()}),
			"RemoveNode":    s.RemoveNode(ctx, f, "node-001", because("remove")),
			"PutReplica":    s.PutReplica(ctx, f, fullReplica()),
			"RemoveReplica": s.RemoveReplica(ctx, f, "r-001", 1),
		} {
			wantErr(t, what+" in "+name, err, storage.ErrFenced)
			fenced, is := errors.AsType[*storage.FencedError](err)
			if !is {
				t.Fatalf("%s in %s: no FencedError: %v", what, name, err)
			}
			equal(t, "what it says", *fenced, storage.FencedError{Wrote: f, Now: now})
		}
	}
	nodes, _, err := s.ListNodes(ctx, storage.Page{})
	ok(t, err)
	equal(t, "nodes", nodes, []storage.Node{simpleNode(1)})
	replicas, _, err := s.ListReplicas(ctx, storage.ReplicaQuery{})
	ok(t, err)
	equal(t, "replicas", replicas, []storage.Replica{simpleReplica(1)})
	equal(t, "audit rows", len(auditOf(t, s)), 0)
}

// Of those that begin a term at once each gets another, and only the last may
// write.
func testTermsConcurrently(t *testing.T, open Open) {
	const leaders, writes = 4, 8
	ctx := t.Context()
	stores := make([]storage.Store, leaders)
	for i := range stores {
		stores[i] = open(t)
	}
	fences := make([]storage.Fence, leaders)
	var wg sync.WaitGroup
	for i := range leaders {
		wg.Go(func() {
			fences[i] = lead(t, stores[i])
			for n := range writes {
				r := simpleReplica(1)
				r.Generation, r.Reason = uint64(n+1), fmt.Sprint(fences[i].Term)
				if err := stores[i].PutReplica(ctx, fences[i], r); err != nil && !errors.Is(err, storage.ErrFenced) && !errors.Is(err, storage.ErrConflict) {
					t.Errorf("leader %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	seen := make(map[uint64]bool)
	for _, f := range fences {
		seen[f.Term] = true
	}
	if len(seen) != leaders || !seen[leaders] {
		t.Errorf("terms %v; want 1 to %d, each once", fences, leaders)
	}
}

func testNodes(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	f := lead(t, s)
	_, err := s.Node(ctx, "gpu07.rack-3")
	wantErr(t, "none", err, storage.ErrNotFound)
	want := fullNode()
	ok(t, s.PutNodes(ctx, f, []storage.Node{want}))
	got, err := s.Node(ctx, want.ID)
	ok(t, err)
	want.LastSeen = epoch.Add(123456 * time.Microsecond)
	equal(t, "as it was kept", got, want)

	again := fullNode()
	again.Address, again.FirstSeen, again.LastSeen, again.Labels, again.Registration = "10.0.0.8", epoch.Add(time.Hour), epoch.Add(2*time.Hour), nil, nil
	ok(t, s.PutNodes(ctx, f, []storage.Node{again}))
	got, err = s.Node(ctx, want.ID)
	ok(t, err)
	again.FirstSeen = epoch
	equal(t, "kept again", got, again)
	late := again
	late.LastSeen = epoch
	ok(t, s.PutNodes(ctx, f, []storage.Node{late}))
	got, err = s.Node(ctx, want.ID)
	ok(t, err)
	equal(t, "a word that came late", got, again)

	other := fullNode()
	other.Address = "10.0.0.9"
	ok(t, s.PutNodes(ctx, f, []storage.Node{other, simpleNode(0), simpleNode(1), simpleNode(2), simpleNode(3), simpleNode(4), again}))
	got, err = s.Node(ctx, want.ID)
	ok(t, err)
	equal(t, "the later of two", got, again)
	wantErr(t, "all or none", s.PutNodes(ctx, f, []storage.Node{simpleNode(7), {}}), storage.ErrInvalid)
	var ids []string
	for page := (storage.Page{Limit: 2}); ; {
		nodes, next, err := s.ListNodes(ctx, page)
		ok(t, err)
		for _, n := range nodes {
			ids = append(ids, n.ID)
		}
		if page.After = next; next == "" {
			break
		}
	}
	equal(t, "the first seen first", ids, []string{"gpu07.rack-3", "node-000", "node-001", "node-002", "node-003", "node-004"})

	ok(t, s.PutReplica(ctx, f, simpleReplica(1)))
	wantErr(t, "with a shard on it", s.RemoveNode(ctx, f, "node-001", because("remove")), storage.ErrConflict)
	ok(t, s.RemoveReplica(ctx, f, "r-001", 1))
	ok(t, s.SetCordon(ctx, storage.Cordon{Node: "node-001", Target: storage.TargetCordoned, At: epoch}, because("cordon")))
	ok(t, s.RemoveNode(ctx, f, "node-001", because("remove")))
	ok(t, s.RemoveNode(ctx, f, "node-001", because("remove"))) // a repeated call
	wantErr(t, "one that is gone", s.RemoveNode(ctx, f, "node-001", because("remove again")), storage.ErrNotFound)
	cordons, err := s.ListCordons(ctx)
	ok(t, err)
	equal(t, "cordons", len(cordons), 0)
	equal(t, "audit rows", len(auditOf(t, s)), 2)
}

func testCordons(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	a := storage.Cordon{Node: "b", Target: storage.TargetCordoned, Reason: "fan", At: epoch}
	b := storage.Cordon{Node: "a", Target: storage.TargetDrained, At: epoch.Add(time.Second)}
	ok(t, s.SetCordon(ctx, a, because("1")))
	ok(t, s.SetCordon(ctx, b, because("2")))
	a.Target = storage.TargetDrained
	ok(t, s.SetCordon(ctx, a, because("3")))
	got, err := s.ListCordons(ctx)
	ok(t, err)
	equal(t, "by node", got, []storage.Cordon{b, a})

	ok(t, s.ClearCordon(ctx, "b", because("4")))
	ok(t, s.SetCordon(ctx, a, because("3"))) // an answer that came late: it was done, and undone since
	ok(t, s.ClearCordon(ctx, "b", because("5")))
	got, err = s.ListCordons(ctx)
	ok(t, err)
	equal(t, "after it was cleared", got, []storage.Cordon{b})
	equal(t, "audit rows", len(auditOf(t, s)), 4)
}

func testReplicas(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	f := lead(t, s)
	_, err := s.Replica(ctx, "llama-1")
	wantErr(t, "none", err, storage.ErrNotFound)
	want := fullReplica()
	ok(t, s.PutReplica(ctx, f, want))
	got, err := s.Replica(ctx, want.ID)
	ok(t, err)
	equal(t, "as it was kept", got, want)

	old := want
	old.Generation--
	wantErr(t, "a generation before", s.PutReplica(ctx, f, old), storage.ErrConflict)
	wantErr(t, "the end of a generation before", s.RemoveReplica(ctx, f, want.ID, want.Generation-1), storage.ErrConflict)
	same := want
	same.State, same.CreatedAt = "ready", epoch.Add(time.Hour)
	ok(t, s.PutReplica(ctx, f, same))
	got, err = s.Replica(ctx, want.ID)
	ok(t, err)
	same.CreatedAt = want.CreatedAt
	equal(t, "changed", got, same)

	for n := range 4 {
		ok(t, s.PutReplica(ctx, f, simpleReplica(n)))
	}
	replicas, next, err := s.ListReplicas(ctx, storage.ReplicaQuery{Model: "m1", Page: storage.Page{Limit: 1}})
	ok(t, err)
	equal(t, "the oldest of a model", replicas, []storage.Replica{simpleReplica(1)})
	replicas, next, err = s.ListReplicas(ctx, storage.ReplicaQuery{Model: "m1", Page: storage.Page{Limit: 1, After: next}})
	ok(t, err)
	equal(t, "the next", replicas, []storage.Replica{simpleReplica(3)})
	equal(t, "no more", next, "")
	ok(t, s.RemoveReplica(ctx, f, want.ID, want.Generation))
	ok(t, s.RemoveReplica(ctx, f, want.ID, want.Generation))
	_, err = s.Replica(ctx, want.ID)
	wantErr(t, "removed", err, storage.ErrNotFound)
}

func testFleetRefused(t *testing.T, open Open) {
	ctx, s := t.Context(), open(t)
	f := lead(t, s)
	for name, change := range map[string]func(n *storage.Node){
		"no ID": func(n *storage.Node) { n.ID = "" }, "NUL": func(n *storage.Node) { n.Address = "a\x00" },
		"no JSON": func(n *storage.Node) { n.Registration = []byte("{") }, "no time": func(n *storage.Node) { n.LastSeen = time.Time{} },
	} {
		n := fullNode()
		change(&n)
		wantErr(t, "a node with "+name, s.PutNodes(ctx, f, []storage.Node{n}), storage.ErrInvalid)
	}
	for name, change := range map[string]func(r *storage.Replica){
		"no model": func(r *storage.Replica) { r.Model = "" }, "no shards": func(r *storage.Replica) { r.Shards = nil },
		"generation 0": func(r *storage.Replica) { r.Generation = 0 }, "a shard nowhere": func(r *storage.Replica) { r.Shards[0].Node = "" },
		"a detail that is no JSON": func(r *storage.Replica) { r.Detail = []byte("{") },
		"port 0":                   func(r *storage.Replica) { r.Shards[0].Ports["http"] = 0 },
	} {
		r := fullReplica()
		change(&r)
		wantErr(t, "a replica with "+name, s.PutReplica(ctx, f, r), storage.ErrInvalid)
	}
	wantErr(t, "a cordon for nothing", s.SetCordon(ctx, storage.Cordon{Node: "a", At: epoch}, because("1")), storage.ErrInvalid)
	wantErr(t, "a cordon without why", s.SetCordon(ctx, storage.Cordon{Node: "a", Target: storage.TargetDrained, At: epoch}, storage.Audit{}), storage.ErrInvalid)
	wantErr(t, "no cordon, without why", s.ClearCordon(ctx, "a", storage.Audit{}), storage.ErrInvalid)
	wantErr(t, "a fence of no term", s.PutNodes(ctx, storage.Fence{Cluster: cluster}, []storage.Node{simpleNode(1)}), storage.ErrInvalid)
	_, err := s.Node(ctx, "a\x00b")
	wantErr(t, "a node that no store keeps", err, storage.ErrNotFound)
	_, err = s.Replica(ctx, "a\x00b")
	wantErr(t, "a replica that no store keeps", err, storage.ErrNotFound)
}

// Whoever leads and whatever order calls come in, a replica's generation never
// falls and no former leader's write is kept.
func testFleetModel(t *testing.T, open Open) {
	s := open(t)
	var known uint64
	rapid.Check(t, func(rt *rapid.T) {
		ctx := rt.Context()
		term, err := s.BeginTerm(ctx, storage.TermRequest{Cluster: cluster, At: epoch, Above: rapid.Uint64Range(0, known+2).Draw(rt, "above")})
		ok(rt, err)
		if term.Number <= known {
			rt.Fatalf("term %d after %d", term.Number, known)
		}
		known = term.Number
		ok(rt, s.RemoveReplica(ctx, term.Fence(), "r-001", storage.MaxTerm))
		var kept uint64
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			r := simpleReplica(1)
			r.Generation = rapid.Uint64Range(1, 5).Draw(rt, "generation")
			fence := storage.Fence{Cluster: cluster, Term: rapid.Uint64Range(max(1, known-1), known).Draw(rt, "term")}
			remove := rapid.Bool().Draw(rt, "remove")
			if remove {
				err = s.RemoveReplica(ctx, fence, r.ID, r.Generation)
			} else {
				err = s.PutReplica(ctx, fence, r)
			}
			switch {
			case fence.Term < known:
				wantErr(rt, "a former leader", err, storage.ErrFenced)
			case r.Generation < kept:
				wantErr(rt, "a lower generation", err, storage.ErrConflict)
			default:
				ok(rt, err)
				if kept = r.Generation; remove {
					kept = 0
				}
			}
			there, err := s.Replica(ctx, r.ID)
			if kept == 0 {
				wantErr(rt, "none", err, storage.ErrNotFound)
				continue
			}
			ok(rt, err)
			equal(rt, "generation", there.Generation, kept)
		}
	})
}
