package admission_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/admission"
)

// naive is what a core must do, written down with slices and searches.
type naive struct {
	bands    []admission.Band // highest priority first
	ttl      time.Duration
	capacity int
	pools    map[string]*naivePool
	waiting  []*naiveRequest // as they came
	offered  uint64
}

type naivePool struct {
	engines int // batch capacity; 0 open
	leases  int
	turns   [][]string // tenants of each band in the order of their turns
}

type naiveRequest struct {
	id           uint64
	pool, tenant string
	band         int
	since        time.Time
}

func (n *naive) pool(name string) *naivePool {
	if n.pools[name] == nil {
		n.pools[name] = &naivePool{turns: make([][]string, len(n.bands))}
	}
	return n.pools[name]
}

func (n *naive) held(p *naivePool, band int) bool {
	if p.engines == 0 || n.bands[band].SaturationCeiling > 1 {
		return false
	}
	return float64(p.leases)/float64(p.engines) > n.bands[band].SaturationCeiling
}

func (n *naive) in(pool string, band int, tenant string) (rs []*naiveRequest) {
	for _, r := range n.waiting {
		if r.pool == pool && r.band == band && (tenant == "*" || r.tenant == tenant) {
			rs = append(rs, r)
		}
	}
	return rs
}

// offer returns the answer: granted, waits or full.
func (n *naive) offer(now time.Time, pool string, band int, tenant string) (uint64, string) {
	p := n.pool(pool)
	free := !n.held(p, band)
	for b := range n.bands {
		if b <= band && !n.held(p, b) && len(n.in(pool, b, "*")) > 0 {
			free = false
		}
	}
	if free {
		n.offered++
		p.leases++
		return n.offered, "granted"
	}
	all := 0
	for _, r := range n.waiting {
		if r.band == band {
			all++
		}
	}
	if all >= n.capacity {
		return 0, "full"
	}
	n.offered++
	if len(n.in(pool, band, tenant)) == 0 {
		p.turns[band] = append(p.turns[band], tenant)
	}
	n.waiting = append(n.waiting, &naiveRequest{n.offered, pool, tenant, band, now})
	return n.offered, "waits"
}

func (n *naive) drop(r *naiveRequest) {
	n.waiting = slices.DeleteFunc(n.waiting, func(o *naiveRequest) bool { return o == r })
	if len(n.in(r.pool, r.band, r.tenant)) == 0 {
		p := n.pool(r.pool)
		p.turns[r.band] = slices.DeleteFunc(p.turns[r.band], func(t string) bool { return t == r.tenant })
	}
}

func (n *naive) expire(now time.Time) (ids []uint64) {
	for len(n.waiting) > 0 && now.Sub(n.waiting[0].since) >= n.ttl {
		ids = append(ids, n.waiting[0].id)
		n.drop(n.waiting[0])
	}
	return ids
}

// grant grants what may run in a pool.
func (n *naive) grant(pool string) (ids []uint64) {
	p := n.pool(pool)
next:
	for {
		for band := range n.bands {
			if len(p.turns[band]) == 0 || n.held(p, band) {
				continue
			}
			tenant := p.turns[band][0]
			r := n.in(pool, band, tenant)[0]
			p.turns[band] = append(p.turns[band][1:], tenant)
			n.drop(r)
			p.leases++
			ids = append(ids, r.id)
			continue next
		}
		return ids
	}
}

// TestModel compares a core with the naive one over random calls.
func TestModel(t *testing.T) { rapid.Check(t, checkModel) }

// FuzzModel is TestModel for go test -fuzz.
func FuzzModel(f *testing.F) { f.Fuzz(rapid.MakeFuzz(checkModel)) }

func checkModel(t *rapid.T) {
	cfg := admission.DefaultConfig()
	cfg.Enabled = true
	cfg.QueueTTL = 10 * time.Second
	cfg.QueueCapacityPerBand = rapid.IntRange(0, 6).Draw(t, "capacity")
	cfg.Bands = append(cfg.Bands, admission.Band{Name: "odd", Priority: 50, SaturationCeiling: rapid.SampledFrom([]float64{0, 0.9, 7}).Draw(t, "odd")})
	core, err := admission.NewCore(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	model := &naive{bands: cfg.Bands, ttl: cfg.QueueTTL, capacity: cfg.QueueCapacityPerBand, pools: map[string]*naivePool{}}
	now := start()
	waiting, leased := map[uint64]admission.Ticket{}, map[uint64]admission.Ticket{}
	pools := map[uint64]string{}
	var stale []admission.Ticket

	step := func(what string, loaded []string, loads ...admission.PoolLoad) {
		var got, want []string
		for _, d := range core.Step(now, loads...) {
			switch {
			case d.Err == nil:
				got = append(got, fmt.Sprint("grant ", d.ID))
				leased[d.ID] = d.Ticket
			case errors.Is(d.Err, admission.ErrExpired):
				got = append(got, fmt.Sprint("expire ", d.ID))
				stale = append(stale, d.Ticket)
			default:
				t.Fatalf("%s: decided %v", what, d.Err)
			}
			delete(waiting, d.ID)
		}
		for _, id := range model.expire(now) {
			want = append(want, fmt.Sprint("expire ", id))
		}
		for _, pool := range loaded {
			for _, id := range model.grant(pool) {
				want = append(want, fmt.Sprint("grant ", id))
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: decided %v, want %v", what, got, want)
		}
		if core.Waiting() != len(model.waiting) || core.Waiting() != len(waiting) || core.Leases() != len(leased) {
			t.Fatalf("%s: %d wait, %d leased; want %d, %d", what, core.Waiting(), core.Leases(), len(model.waiting), len(leased))
		}
	}
	pick := func(of map[uint64]admission.Ticket) uint64 {
		ids := make([]uint64, 0, len(of))
		for id := range of {
			ids = append(ids, id)
		}
		slices.Sort(ids)
		return rapid.SampledFrom(ids).Draw(t, "id")
	}
	t.Repeat(map[string]func(*rapid.T){
		"offer": func(t *rapid.T) {
			pool := rapid.SampledFrom([]string{"m", "n"}).Draw(t, "pool")
			band := rapid.IntRange(0, len(cfg.Bands)-1).Draw(t, "band")
			tenant := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "tenant")
			ticket, granted, err := core.Offer(now, admission.Request{Pool: pool, Band: cfg.Bands[band].Name, Tenant: tenant})
			id, want := model.offer(now, pool, band, tenant)
			got := "waits"
			switch {
			case errors.Is(err, admission.ErrQueueFull):
				got = "full"
			case err != nil:
				t.Fatal(err)
			case granted:
				got = "granted"
				leased[id] = ticket
			default:
				waiting[id] = ticket
			}
			if got != want || ticket.ID() != id {
				t.Fatalf("offer %d %s, want %d %s", ticket.ID(), got, id, want)
			}
			pools[id] = pool
			step("offer", []string{pool})
		},
		"cancel": func(t *rapid.T) {
			if len(waiting) == 0 {
				return // not Skip: rapid gives up on a fuzz input that skips too often
			}
			id := pick(waiting)
			if core.Release(now, waiting[id]) || !core.Cancel(now, waiting[id]) || core.Cancel(now, waiting[id]) {
				t.Fatal("want one cancel, and no release, of what waits")
			}
			stale = append(stale, waiting[id])
			delete(waiting, id)
			model.drop(model.waiting[slices.IndexFunc(model.waiting, func(r *naiveRequest) bool { return r.id == id })])
			step("cancel", nil)
		},
		"release": func(t *rapid.T) {
			if len(leased) == 0 {
				return
			}
			id := pick(leased)
			if core.Cancel(now, leased[id]) || !core.Release(now, leased[id]) || core.Release(now, leased[id]) {
				t.Fatal("want one release, and no cancel, of what was granted")
			}
			stale = append(stale, leased[id])
			delete(leased, id)
			model.pool(pools[id]).leases--
			step("release", []string{pools[id]})
		},
		"load": func(t *rapid.T) {
			pool := rapid.SampledFrom([]string{"m", "n"}).Draw(t, "pool")
			engines := rapid.IntRange(0, 9).Draw(t, "engines")
			load := &admission.Load{}
			if engines > 0 {
				load.Endpoints = []admission.EndpointLoad{{ID: "e", BatchCapacity: admission.Read(float64(engines))}}
			}
			model.pool(pool).engines = engines
			step("load", []string{pool}, admission.PoolLoad{Pool: pool, Load: load})
		},
		"time": func(t *rapid.T) {
			now = now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond)
			step("time", nil)
		},
		"stale": func(t *rapid.T) {
			if len(stale) == 0 {
				return
			}
			s := rapid.SampledFrom(stale).Draw(t, "ticket")
			if s.ID() != 0 || core.Release(now, s) || core.Cancel(now, s) {
				t.Fatal("a ticket that had ended did something")
			}
		},
	})
}
