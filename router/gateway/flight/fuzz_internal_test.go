package flight

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/storage/record"
)

// Whatever stands in a record, it is read or refused with one of the two reasons,
// and what is read is written as it was.
func FuzzParse(f *testing.F) {
	var d schedule.Decision
	route := Route{Request: 1, Attempt: 2, Pinned: true, Model: "m", Band: "gold", Tenant: 3}
	f.Add(route.append(nil, &d))
	now := time.Unix(1, 0).UTC()
	outcome := Outcome{Model: "m", Start: now, FirstContent: now, End: now, PromptTokens: CountTokens(5), Blocks: []uint64{1, 2}, BlockBytes: 64}
	f.Add(outcome.appendBlocks(outcome.appendHead(nil), func(b []byte) uint64 { return uint64(b[0]) }))
	setup := Setup{Scoring: schedule.DefaultConfig(), Admission: new(admission.DefaultConfig()), Profiles: []string{"mine"}}
	text, err := setup.append(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte{version, byte(admission.OpStep), 0, 1, 1, 'm', 0, 1, 1, 'e', 0, 0, 0, 0})
	f.Add([]byte{version, byte(admission.OpOffer), 0, 1, 'm', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0})
	f.Fuzz(func(t *testing.T, payload []byte) {
		check := func(err error) bool {
			if err != nil && !errors.Is(err, ErrBadRecord) && !errors.Is(err, ErrVersion) && !errors.Is(err, errStepsMissing) {
				t.Fatalf("refused with %v", err)
			}
			return err == nil
		}
		if o, err := parseOutcome(payload); check(err) && o.End.Sub(o.Start) < math.MaxInt64/2 && o.Start.Year() > 1970 && o.Start.Year() < 2200 {
			again := o.appendHead(nil)
			if len(o.Blocks) > 0 {
				next, err := parseOutcome(again)
				if err != nil {
					t.Fatal(err)
				}
				next.Blocks, next.BlockBytes = o.Blocks, o.BlockBytes
				if diff := cmp.Diff(o, next, cmp.AllowUnexported(Tokens{})); diff != "" && o.FirstContent.Year() < 2200 && o.End.Year() < 2200 {
					t.Fatalf("written and read (-want +got):\n%s", diff)
				}
			}
		}
		if r, err := parseRoute(payload); check(err) {
			var d schedule.Decision
			_ = r.decode(&d) // has a fuzz test of its own kind
			if routeModel(payload) != r.Model {
				t.Fatal("two models")
			}
		}
		_, err := parsePool(payload)
		check(err)
		_, err = parseSetup(payload)
		check(err)
		var s steps
		for range 3 {
			if _, _, err = s.parse(time.Unix(1, 0), payload); !check(err) {
				break
			}
		}
	})
}

// memory keeps the last record.
type memory struct{ payload []byte }

func (m *memory) Append(_ record.Type, _ time.Time, payload []byte) error {
	m.payload = bytes.Clone(payload)
	return nil
}

// Loads are written by what changed, and read as they were.
func TestLoadsRoundTrip(t *testing.T) {
	// A field more is one that a core may decide by: write it down, too.
	if n := reflect.TypeFor[admission.EndpointLoad]().NumField(); n != 11 {
		t.Errorf("admission.EndpointLoad has %d fields, and 11 are recorded", n)
	}
	if n := reflect.TypeFor[admission.Request]().NumField(); n != 3 {
		t.Errorf("admission.Request has %d fields, and 3 are recorded", n)
	}
	rapid.Check(t, func(t *rapid.T) {
		log := new(memory)
		a := &admissions{log: log, key: record.NewKey()}
		var s steps
		var loads [2][]admission.EndpointLoad
		start := time.Unix(1_700_000_000, 0).UTC()
		reading := func(name string) admission.Reading {
			return admission.Read(rapid.SampledFrom([]float64{math.NaN(), 0, 0.25, 1, 7, 1e9}).Draw(t, name))
		}
		for i := range rapid.IntRange(1, 8).Draw(t, "steps") {
			now := start.Add(time.Duration(i) * time.Millisecond)
			which := rapid.IntRange(0, 1).Draw(t, "pool")
			ids := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 3).Draw(t, "ids")
			if i > 0 && rapid.Bool().Draw(t, "same") {
				ids = nil
				for _, e := range loads[which] {
					ids = append(ids, e.ID)
				}
			}
			loads[which] = nil
			for _, id := range ids {
				e := admission.EndpointLoad{
					ID: id, Instance: rapid.SampledFrom([]uint64{0, 1, math.MaxUint64}).Draw(t, "instance"), Weight: rapid.SampledFrom([]float64{0, 1, 2.5}).Draw(t, "weight"),
					InFlight: reading("in flight"), MeasuredInFlight: reading("measured in flight"), Running: reading("running"),
					Waiting: reading("waiting"), KVUsedRatio: reading("kv"), BatchCapacity: reading("capacity"), AssumedCapacity: reading("assumed"),
				}
				if rapid.Bool().Draw(t, "measured") {
					e.MeasuredAt = now.Add(-time.Second)
				}
				loads[which] = append(loads[which], e)
			}
			pool := []string{"m", "n"}[which]
			rec := admission.Record{
				Op: admission.OpStep, At: now,
				Loads:     []admission.PoolLoad{{Pool: pool, Load: &admission.Load{Endpoints: loads[which]}}},
				Decisions: []admission.Decision{{ID: uint64(i)}, {ID: 9, Err: &admission.RejectedError{Reason: admission.ReasonExpired, Depth: i}}},
			}
			a.Record(&rec)
			got, answer, err := s.parse(now, log.payload)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(answer, appendAnswer(nil, &rec)) {
				t.Fatalf("answer %x", answer)
			}
			if len(got.Loads) != 1 || got.Loads[0].Pool != pool {
				t.Fatalf("%+v", got.Loads)
			}
			diff := cmp.Diff(loads[which], got.Loads[0].Load.Endpoints, cmpopts.EquateEmpty(), cmp.AllowUnexported(admission.Reading{}))
			if diff != "" {
				t.Fatal(diff)
			}
		}
	})
}
