package provider_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/fleet/provider"
	"github.com/llmgw/llmgw/storage"
)

// Whatever happens in whatever order: names and addresses are one provider's alone;
// static ones and clouds stay, well and as they are; a dynamic one is removed only after
// 30 minutes of degradation whose first time never moved, and without a lease; what
// rotates was in the last answer of one that is well; and what is written makes a store
// hold what the core has.
func TestLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := provider.DefaultConfig()
		cfg.MaxProviders = 4
		now, ids := epoch, 0
		core := provider.NewCore(cfg, now, nil)
		store := map[string]storage.Provider{}
		served := map[string]map[string]bool{} // by the last answer; nil: it failed
		views := func() map[string]provider.View {
			out := map[string]provider.View{}
			core.Views(func(v provider.View) { out[v.ID] = v })
			return out
		}
		pick := func() string {
			all := []string{"prov_0"}
			for n := 1; n <= ids; n++ {
				if _, ok := core.View(fmt.Sprint("prov_", n)); ok {
					all = append(all, fmt.Sprint("prov_", n))
				}
			}
			return rapid.SampledFrom(all).Draw(t, "id")
		}
		urls := rapid.SampledFrom([]string{"http://a/v1", "http://b/v1", "http://c/v1"})
		names := rapid.SampledFrom([]string{"", "n1", "n2", "a", "http"})
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			before := views()
			var ev provider.Event
			ids++
			switch rapid.IntRange(0, 9).Draw(t, "event") {
			case 0, 1:
				ev = provider.Register{
					BaseURL: urls.Draw(t, "url"), Principal: rapid.SampledFrom([]string{"ada", "eve"}).Draw(t, "principal"),
					Node: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "node"), Name: names.Draw(t, "name"), NewID: fmt.Sprint("prov_", ids),
				}
			case 2, 3:
				a := provider.Answered{ID: pick()}
				if rapid.Bool().Draw(t, "fails") {
					a.Failure = "refused"
				} else {
					for _, m := range []string{"a", "b", "c"} {
						if rapid.Bool().Draw(t, m) {
							a.Models = append(a.Models, provider.Listed{Name: m})
						}
					}
				}
				served[a.ID] = nil
				if a.Failure == "" {
					served[a.ID] = map[string]bool{}
					for _, m := range a.Models {
						served[a.ID][m.Name] = true
					}
				}
				ev = a
			case 4:
				ev = provider.Add{
					NewID: fmt.Sprint("prov_", ids), BaseURL: urls.Draw(t, "url"), Kind: rapid.SampledFrom([]storage.ProviderKind{2, 3}).Draw(t, "kind"),
					Vendor: rapid.SampledFrom([]string{"", "openai"}).Draw(t, "vendor"), Name: names.Draw(t, "name"),
				}
			case 5:
				p := provider.Patch{ID: pick()}
				if rapid.Bool().Draw(t, "kind?") {
					p.Kind = new(rapid.SampledFrom([]storage.ProviderKind{1, 2, 3}).Draw(t, "kind"))
				}
				if rapid.Bool().Draw(t, "name?") {
					p.Name = new(names.Draw(t, "name"))
				}
				ev = p
			case 6:
				if !rapid.Bool().Draw(t, "really") {
					continue
				}
				ev = provider.Delete{ID: pick()}
			default:
				now = now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "seconds")) * time.Second)
				ev = provider.Tick{}
			}
			ticks := 1
			if _, is := ev.(provider.Tick); is {
				ticks = 3 // lapse and removal are steps of their own
			}
			var d provider.Decision
			var err error
			for range ticks {
				if ticks > 1 {
					now = now.Add(time.Second)
				}
				d, err = core.Step(now, ev)
				if err != nil && len(d.Writes) > 0 {
					t.Fatalf("%+v: refused with %v, and writes %v", ev, err, d.Writes)
				}
				for _, w := range d.Writes {
					p := w.Provider
					kept, there := store[p.ID]
					if err := p.Validate(); err != nil {
						t.Fatal(err)
					}
					switch {
					case w.Op == provider.WriteCreate && !there && p.Revision == 0:
						p.Revision = 1
						store[p.ID] = p
					case w.Op == provider.WriteUpdate && kept.Revision == p.Revision:
						p.Models, p.Revision = kept.Models, p.Revision+1
						store[p.ID] = p
					case w.Op == provider.WriteSeen && there:
						kept.DegradedAt, kept.DegradedReason, kept.Models = p.DegradedAt, p.DegradedReason, p.Models
						store[p.ID] = kept
					case w.Op == provider.WriteDelete && kept.Revision == p.Revision:
						delete(store, p.ID)
					default:
						t.Fatalf("%+v: write %+v on %+v", ev, w, kept)
					}
				}
			}
			after := views()
			byName, byURL := map[string]bool{}, map[string]bool{}
			held := map[string]storage.Provider{}
			for id, v := range after {
				held[id] = v.Provider
				if byName[v.Name] || byURL[v.BaseURL] {
					t.Fatalf("%q at %s is there twice", v.Name, v.BaseURL)
				}
				byName[v.Name], byURL[v.BaseURL] = true, true
				old, was := before[id]
				if v.Kind != storage.ProviderDynamic {
					if !v.DegradedAt.IsZero() || !v.LeaseUntil.IsZero() || !v.Rotates("a") {
						t.Fatalf("%v: %+v", v.Kind, v)
					}
				} else {
					for _, m := range []string{"a", "b", "c"} {
						if v.Rotates(m) && (!v.DegradedAt.IsZero() || !served[id][m]) {
							t.Fatalf("%s rotates: %+v, served %v", m, v, served[id])
						}
					}
					if was && !old.DegradedAt.IsZero() && !v.DegradedAt.IsZero() && !old.DegradedAt.Equal(v.DegradedAt) {
						t.Fatalf("the first failure moved from %v to %v", old.DegradedAt, v.DegradedAt)
					}
				}
				if _, patched := ev.(provider.Patch); was && old.Kind != v.Kind && !patched {
					t.Fatalf("%T made %v of %v", ev, v.Kind, old.Kind)
				}
			}
			for id, old := range before {
				if _, still := after[id]; still {
					continue
				}
				if del, is := ev.(provider.Delete); is && del.ID == id {
					continue
				}
				if old.Kind != storage.ProviderDynamic || old.DegradedAt.IsZero() || now.Sub(old.DegradedAt) < 30*time.Minute || now.Before(old.LeaseUntil) {
					t.Fatalf("%T at %v removed %+v", ev, now, old)
				}
			}
			if err != nil && !errors.Is(err, provider.ErrHeld) && !cmp.Equal(before, after, cmpopts.EquateEmpty()) {
				t.Fatalf("refused with %v, and changed %s", err, cmp.Diff(before, after))
			}
			if diff := cmp.Diff(store, held, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%+v: the store (-) and the core (+) differ: %s", ev, diff)
			}
		}
	})
}
