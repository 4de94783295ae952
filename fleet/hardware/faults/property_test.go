package faults_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
)

// model is what a person who watches one card knows, told in another way than
// the book tells it.
type model struct {
	book *faults.Book
	now  time.Time
	seq  uint64
	boot int

	excluded bool      // an excluding XID or reading came, and no return since
	xid      bool      // an XID came, and no repair since
	bad      time.Time // when it was last not seen to be well
	last     time.Time // when it was last read
	returns  []time.Time
}

func (m *model) unwell() { m.bad = m.now }

// A card that was excluded is used again only after a repair and ten minutes
// without a flaw, by itself not more than thrice a week, whatever happens in
// which order; and it is used again then.
func TestSafeWayBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := faults.DefaultPolicy()
		book, err := faults.New(policy)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{book: book, now: time.Unix(1_800_000_000, 0), boot: 1}
		m.bad, m.last = m.now, m.now
		reload := func(boot int) {
			record, err := m.book.Marshal(bootName(m.boot))
			if err != nil {
				t.Fatal(err)
			}
			m.book, _ = faults.New(policy)
			if err := m.book.Load(record, bootName(boot)); err != nil {
				t.Fatal(err)
			}
			m.boot = boot
			m.unwell()
		}
		event := func(e faults.Event) {
			m.seq++
			e.Seq, e.Bus = m.seq, bus
			m.book.Kernel(m.now, e)
		}
		observe := func(o faults.Observation, well bool) {
			if !well || m.now.Sub(m.last) > policy.CleanFor/5 {
				m.unwell()
			}
			m.last = m.now
			m.book.Observe(m.now, bus, o)
			if m.excluded && m.book.Health(m.now, bus).Usable() {
				if m.xid {
					t.Fatal("back without a repair")
				}
				if m.now.Sub(m.bad) < policy.CleanFor {
					t.Fatalf("back %v after it was last not well", m.now.Sub(m.bad))
				}
				m.excluded = false
				m.returns = append(m.returns, m.now)
				recent := 0
				for _, r := range m.returns {
					if m.now.Sub(r) < policy.ReturnsWithin {
						recent++
					}
				}
				if recent > policy.MaxReturns {
					t.Fatalf("back for the %dth time within a week", recent)
				}
			}
		}
		check := func() {
			if m.excluded && m.book.Health(m.now, bus).Usable() {
				t.Fatal("usable between two readings")
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"wait": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 900).Draw(t, "seconds")) * time.Second)
			},
			"runs well": func(t *rapid.T) {
				for range rapid.IntRange(1, 25).Draw(t, "half minutes") {
					m.now = m.now.Add(30 * time.Second)
					observe(good(), true)
				}
			},
			"XID that excludes": func(t *rapid.T) {
				event(faults.Event{Kind: faults.XID, XID: rapid.SampledFrom([]int{48, 79, 95}).Draw(t, "xid")})
				m.excluded, m.xid = true, true
				m.unwell()
			},
			"falls and is mended": func(*rapid.T) {
				event(faults.Event{Kind: faults.XID, XID: 79})
				m.excluded = true
				event(faults.Event{Kind: faults.CardReset})
				m.xid = false
				m.unwell()
				for range 23 {
					m.now = m.now.Add(30 * time.Second)
					observe(good(), true)
				}
			},
			"XID that is ignored": func(*rapid.T) { event(faults.Event{Kind: faults.XID, XID: 31}) },
			"XID for the engine": func(*rapid.T) {
				event(faults.Event{Kind: faults.XID, XID: 94})
				m.unwell()
			},
			"reads badly": func(*rapid.T) {
				o := good()
				o.Errors.RemapPending = engines.Known(true)
				observe(o, false)
				m.excluded = true
			},
			"is not read": func(*rapid.T) { observe(faults.Observation{Unread: true}, false) },
			"reads without values": func(*rapid.T) {
				// Clean where nothing was read before; for the model it never is.
				m.book.Observe(m.now, bus, faults.Observation{})
				m.last = m.now
				if m.excluded && m.book.Health(m.now, bus).Usable() {
					m.excluded = false
					if m.xid || m.now.Sub(m.bad) < policy.CleanFor {
						t.Fatal("back too early")
					}
					m.returns = append(m.returns, m.now)
				}
			},
			"is reset": func(*rapid.T) {
				event(faults.Event{Kind: faults.CardReset})
				if m.xid {
					m.unwell()
				}
				m.xid = false
			},
			"agent restarts": func(*rapid.T) { reload(m.boot) },
			"machine restarts": func(*rapid.T) {
				reload(m.boot + 1)
				m.seq, m.xid = 0, false
			},
			"operator clears": func(*rapid.T) {
				if m.book.Clear(bus) {
					m.excluded, m.xid, m.returns = false, false, nil
				}
			},
		})

		// After a restart and a quiet while it is back, unless it has used up its
		// returns.
		reload(m.boot + 1)
		m.xid = false
		recent := 0
		for _, r := range m.returns {
			if m.now.Add(11*time.Minute).Sub(r) < policy.ReturnsWithin {
				recent++
			}
		}
		for range 23 {
			m.now = m.now.Add(30 * time.Second)
			observe(good(), true)
		}
		if h := m.book.Health(m.now, bus); !h.Usable() && recent < policy.MaxReturns {
			t.Fatalf("never back after %d returns: %+v", recent, h)
		}
	})
}

func bootName(n int) string { return "boot-" + string(rune('a'+n%26)) + string(rune('a'+n/26%26)) }
