package twin

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestDue: the first is always the least, of equals the lowest number.
func TestDue(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 2, 7, 64} {
		d := newDue(n)
		for range 5000 {
			at := time.Duration(rng.IntN(20))
			if at == 0 {
				at = never
			}
			d.set(rng.IntN(n), at)
			want := 0
			for i, at := range d.at {
				if at < d.at[want] {
					want = i
				}
			}
			if got, at := d.first(); got != want || at != d.at[want] {
				t.Fatalf("%d of %d is first, want %d: %v", got, n, want, d.at)
			}
		}
	}
}

// TestTurns: shares are kept exactly, and spread evenly.
func TestTurns(t *testing.T) {
	var p turns
	var picks []byte
	for range 8 {
		i, err := p.Pick(nil, []float64{0.5, 1, 0.5})
		if err != nil {
			t.Fatal(err)
		}
		picks = append(picks, byte('a'+i))
	}
	if order := string(picks); order != "babcbabc" && order != "bacbbacb" {
		t.Errorf("picked in the order %s", order)
	}
	if _, err := p.Pick(nil, nil); err == nil {
		t.Error("picked one of none")
	}
}
