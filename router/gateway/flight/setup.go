package flight

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/schedule"
)

// Setup is what the deciding parts of one process were made from.
type Setup struct {
	Scoring schedule.Config
	// Admission is nil where it was switched off.
	Admission *admission.Config
	// Profiles are the names of routing profiles beside the built-in ones. Who
	// replays decisions of theirs has to bring them.
	Profiles []string
}

// setupRecord is a Setup's form in a log: JSON, since it is written once a minute
// and gets fields that older programs need not know.
type setupRecord struct {
	Scoring   json.RawMessage
	Admission json.RawMessage `json:",omitempty"`
	Profiles  []string        `json:",omitempty"`
}

func (s *Setup) append(b []byte) ([]byte, error) {
	var rec setupRecord
	var err error
	if rec.Scoring, err = json.Marshal(s.Scoring); err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	if s.Admission != nil {
		if rec.Admission, err = json.Marshal(s.Admission); err != nil {
			return nil, fmt.Errorf("flight: %w", err)
		}
	}
	rec.Profiles = s.Profiles
	text, err := json.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("flight: %w", err)
	}
	return append(append(b, version), text...), nil
}

// parseSetup reads a Setup. What its writer did not know yet has its default.
func parseSetup(payload []byte) (*Setup, error) {
	r, err := open(payload)
	if err != nil {
		return nil, err
	}
	var rec setupRecord
	if err := json.Unmarshal(r.rest, &rec); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	s := &Setup{Scoring: schedule.DefaultConfig(), Profiles: rec.Profiles}
	if err := json.Unmarshal(rec.Scoring, &s.Scoring); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadRecord, err)
	}
	if len(rec.Admission) > 0 {
		cfg := admission.DefaultConfig()
		cfg.Bands = nil // JSON would write into the default ones
		if err := json.Unmarshal(rec.Admission, &cfg); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadRecord, err)
		}
		s.Admission = &cfg
	}
	return s, nil
}

// Endpoint is one endpoint of a Pool.
type Endpoint struct {
	Hash   uint64
	ID     string
	Weight float64
	Models []string
}

// Pool is what the router could send to at one moment, or a part of it.
type Pool struct {
	// Version is the endpoint set's.
	Version uint64
	// First is where in the set the part begins, of All.
	First, All int
	Endpoints  []Endpoint
}

// poolPart is how many endpoints stand in one record.
const poolPart = 1000

// appendPool appends the part of the snapshot that begins at first.
func appendPool(b []byte, s *endpoint.Snapshot, first int) []byte {
	all := s.All()
	part := all[first:min(first+poolPart, len(all))]
	b = append(b, version)
	for _, v := range []uint64{s.Version(), uint64(first), uint64(len(all)), uint64(len(part))} {
		b = binary.AppendUvarint(b, v)
	}
	for _, e := range part {
		b = binary.LittleEndian.AppendUint64(b, e.Hash())
		b = appendText(b, e.ID())
		b = appendFloat(b, e.Weight())
		models := e.Spec().Models
		b = binary.AppendUvarint(b, uint64(len(models)))
		for _, m := range models {
			b = appendText(b, m.Name)
		}
	}
	return b
}

func parsePool(payload []byte) (*Pool, error) {
	r, err := open(payload)
	if err != nil {
		return nil, err
	}
	p := &Pool{Version: r.uvarint(), First: int(r.uvarint()), All: int(r.uvarint())}
	const least = 8 + 1 + 1 + 1
	p.Endpoints = make([]Endpoint, r.count(least))
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		e.Hash, e.ID, e.Weight = r.uint64(), r.text(), r.float()
		e.Models = make([]string, r.count(1))
		for j := range e.Models {
			e.Models[j] = r.text()
		}
	}
	return p, r.end()
}
