package flight

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/admission"
)

// All that admission is told of an endpoint is written down and read again, known
// or not.
func TestLoadIsWhole(t *testing.T) {
	at := time.Unix(1700000000, 123)
	a := &admissions{base: at}
	for name, want := range map[string]admission.EndpointLoad{
		"nothing known": {ID: "a"},
		"all known": {
			ID: "a", Instance: 1 << 40, Weight: 2, InFlight: admission.Read(1), MeasuredAt: at, MeasuredInFlight: admission.Read(2),
			Running: admission.Read(3), Waiting: admission.Read(4), KVUsedRatio: admission.Read(0.5),
			BatchCapacity: admission.Read(6), AssumedCapacity: admission.Read(7),
		},
	} {
		r := reader{rest: a.appendEndpoint(nil, &want)}
		got := endpointLoad(&r, "a")
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(admission.Reading{})); diff != "" || r.short || len(r.rest) > 0 {
			t.Errorf("%s: short %t, %d bytes left, (-want +got):\n%s", name, r.short, len(r.rest), diff)
		}
	}
}
