package storage_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/llmgw/llmgw/storage"
)

// What stands for a value in stores, JSON and commands is read back as it.
func TestNames(t *testing.T) {
	for p := storage.PeriodDay; p <= storage.PeriodTotal; p++ {
		roundTrip(t, p)
	}
	for s := storage.SourceEngine; s <= storage.SourceNone; s++ {
		roundTrip(t, s)
	}
	roundTrip(t, storage.GrainHour)
	roundTrip(t, storage.GrainDay)
	for s := storage.AccountPending; s <= storage.AccountSuspended; s++ {
		roundTrip(t, s)
	}
	roundTrip(t, storage.LinkKey)
	roundTrip(t, storage.LinkReset)
	for k := storage.ProviderDynamic; k <= storage.ProviderCloud; k++ {
		roundTrip(t, k)
	}
}

func roundTrip[E comparable](t *testing.T, v E) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var back E
	if err := json.Unmarshal(b, &back); err != nil || back != v {
		t.Errorf("%v became %s, %v, %v", v, b, back, err)
	}
}

func TestNamesRefused(t *testing.T) {
	var p storage.Period
	for _, text := range []string{`""`, `"Day"`, `"fortnight"`} {
		if err := json.Unmarshal([]byte(text), &p); !errors.Is(err, storage.ErrInvalid) || p != 0 {
			t.Errorf("%s became %v, %v", text, p, err)
		}
	}
	for _, s := range []storage.Source{0, 6} {
		if _, err := json.Marshal(s); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%v: %v", s, err)
		}
	}
}
