package flight

import (
	"encoding/binary"

	"github.com/llmgw/llmgw/router/schedule"
)

// Route is one decision where a request goes.
type Route struct {
	// Request is the fingerprint of the request's id.
	Request uint64
	// Attempt counts the decisions of the request, from 1.
	Attempt int
	// Pinned: there was only one endpoint that the request could go to.
	Pinned bool
	Model  string
	Band   string
	// Tenant is the fingerprint of the tenant; 0: nobody in particular.
	Tenant uint64
	// Decision is what [schedule.Decision.AppendBinary] wrote.
	Decision []byte
}

func (t *Route) append(b []byte, d *schedule.Decision) []byte {
	b = append(b, version)
	b = binary.LittleEndian.AppendUint64(b, t.Request)
	b = binary.AppendUvarint(b, uint64(t.Attempt))
	b = appendBool(b, t.Pinned)
	b = appendText(b, t.Model)
	b = appendText(b, t.Band)
	b = binary.LittleEndian.AppendUint64(b, t.Tenant)
	b, _ = d.AppendBinary(b) // always nil
	return b
}

// parseRoute reads a Route, whose Decision is a part of payload.
func parseRoute(payload []byte) (Route, error) {
	r, err := open(payload)
	if err != nil {
		return Route{}, err
	}
	t := Route{
		Request: r.uint64(), Attempt: int(r.uvarint()), Pinned: r.bool(),
		Model: r.text(), Band: r.text(), Tenant: r.uint64(),
	}
	t.Decision, r.rest = r.rest, nil
	return t, r.end()
}

// decode makes the decision out of its record, with what the Route knows of it.
func (t *Route) decode(d *schedule.Decision) error {
	if err := d.UnmarshalBinary(t.Decision); err != nil {
		return err
	}
	d.Model, d.Band = t.Model, t.Band
	return nil
}
