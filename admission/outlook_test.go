package admission_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/admission"
)

func counted(t *testing.T, reg *prometheus.Registry) string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(families)
}

// An outlook says what Admit then does, with why, and changes nothing.
func TestOutlook(t *testing.T) { synctest.Test(t, testOutlook) }

func testOutlook(t *testing.T) {
	reg, load := prometheus.NewRegistry(), &capacity{n: 2}
	ctl := newController(t, admission.Deps{Load: load, Registerer: reg}, func(c *admission.Config) { c.QueueCapacityPerBand = 1 })
	look := func(band string) admission.Outlook {
		t.Helper()
		was := counted(t, reg)
		o, err := ctl.Outlook(admission.Request{Pool: "m", Band: band, Tenant: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if now := counted(t, reg); now != was {
			t.Errorf("something was counted:\n%s\nbefore:\n%s", now, was)
		}
		return o
	}
	var leases []admission.Lease
	admit := func(band string) {
		t.Helper()
		lease, err := ctl.Admit(t.Context(), admission.Request{Pool: "m", Band: band, Tenant: "t"})
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, lease)
	}

	o := look("") // of a pool that nobody has used
	want := admission.Outlook{
		Fate: admission.FatePasses, Band: admission.Band{Name: "gold", Priority: 300, SaturationCeiling: 0.85}, HasSaturation: true,
		Saturation: admission.Saturation{Capacity: 2, Endpoints: 1, Blind: 1}, Capacity: 1, QueueTTL: 30 * time.Second,
	}
	if diff := cmp.Diff(want, o, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	admit("gold")
	if o := look("bronze"); o.Fate != admission.FateHeld || o.Saturation.Value != 0.5 || o.Leases != 1 || o.Ahead != 0 {
		t.Errorf("bronze at one half: %+v", o)
	}
	admit("gold")
	ended := make(chan error, 1)
	go func() {
		lease, err := ctl.Admit(t.Context(), admission.Request{Pool: "m", Band: "gold", Tenant: "u"})
		lease.Release()
		ended <- err
	}()
	synctest.Wait()
	if o := look("gold"); o.Fate != admission.FateFull || o.Waiting != 1 || o.Ahead != 1 || o.BandWaiting != 1 {
		t.Errorf("gold behind a full queue: %+v", o)
	}
	if o := look("platinum"); o.Fate != admission.FatePasses || o.Saturation.Value != 1 {
		t.Errorf("platinum at its ceiling: %+v", o)
	}
	if o := look("silver"); o.Fate != admission.FateHeld || o.Ahead != 0 {
		t.Errorf("silver: %+v", o) // gold is held itself, so nobody goes first
	}
	for _, l := range leases {
		l.Release()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := ctl.Outlook(admission.Request{Pool: "m", Band: "nope"}); !errors.Is(err, admission.ErrUnknownBand) {
		t.Errorf("%v", err)
	}
}

// Of requests at random, each fares as its outlook said: the two read the same
// state by the same rules.
func TestOutlookIsWhatOfferDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 7))
	load := &capacity{n: 6}
	ctl := newController(t, admission.Deps{Load: load}, func(c *admission.Config) { c.QueueCapacityPerBand = 0 })
	bands := []string{"platinum", "gold", "silver", "bronze"}
	var leases []admission.Lease
	seen := map[admission.Fate]int{}
	for range 400 {
		if len(leases) > 0 && rng.IntN(3) == 0 {
			i := rng.IntN(len(leases))
			leases[i].Release()
			leases = append(leases[:i], leases[i+1:]...)
			continue
		}
		r := admission.Request{Pool: "m", Band: bands[rng.IntN(len(bands))]}
		o, err := ctl.Outlook(r)
		if err != nil {
			t.Fatal(err)
		}
		seen[o.Fate]++
		lease, err := ctl.Admit(t.Context(), r)
		if passes := o.Fate == admission.FatePasses; passes != (err == nil) {
			t.Fatalf("%s at saturation %v: outlook %v, then %v", r.Band, o.Saturation.Value, o.Fate, err)
		}
		if err == nil {
			leases = append(leases, lease)
		}
	}
	for _, l := range leases {
		l.Release()
	}
	if seen[admission.FatePasses] == 0 || seen[admission.FateFull] == 0 {
		t.Errorf("seen %v", seen)
	}
}
