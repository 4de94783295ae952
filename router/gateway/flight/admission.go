package flight

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/llmgw/llmgw/admission"
	"github.com/llmgw/llmgw/storage/record"
)

// admissions writes down the steps of one admission core. Its calls come one at a
// time, as admission.Recorder promises.
type admissions struct {
	log Appender
	key record.Key
	buf []byte
	// base is what the core's times are counted from. They are differences of a
	// clock that no adjustment moves, and must be the same when they are replayed.
	base time.Time
	last map[string][]admission.EndpointLoad // as last written, by pool
	seq  uint64                              // of the next step
}

// Record implements [admission.Recorder].
func (a *admissions) Record(r *admission.Record) {
	if a.base.IsZero() {
		a.base = r.At
	}
	a.buf = a.append(a.buf[:0], r)
	_ = a.log.Append(TypeAdmission, a.at(r.At), a.buf) // counted there
}

func (a *admissions) at(t time.Time) time.Time { return a.base.Round(0).Add(t.Sub(a.base)) }

// append appends the step: what the core was asked, then what it answered.
func (a *admissions) append(b []byte, r *admission.Record) []byte {
	b = append(b, version, byte(r.Op))
	b = binary.AppendUvarint(b, a.seq)
	a.seq++
	switch r.Op {
	case admission.OpOffer:
		band := r.Request.Band
		if errors.Is(r.Err, admission.ErrUnknownBand) {
			// It is what a client wrote, and replays as well under another name.
			band = fmt.Sprintf("?%016x", a.key.Fingerprint(band))
		}
		b = appendText(b, r.Request.Pool)
		b = appendText(b, band)
		b = binary.LittleEndian.AppendUint64(b, fingerprint(a.key, r.Request.Tenant))
	case admission.OpCancel, admission.OpRelease:
		b = binary.AppendUvarint(b, r.ID)
	case admission.OpStep:
		b = binary.AppendUvarint(b, uint64(len(r.Loads)))
		for _, l := range r.Loads {
			b = a.appendLoad(b, l)
		}
	case admission.OpUnset, admission.OpForget, admission.OpClose:
	}
	return appendAnswer(b, r)
}

// appendAnswer appends what the core said.
func appendAnswer(b []byte, r *admission.Record) []byte {
	switch r.Op {
	case admission.OpOffer:
		b = appendBool(b, r.Granted)
		b = binary.AppendUvarint(b, r.ID)
		b = appendErr(b, r.Err)
		b = appendBool(b, r.HasSaturation)
		if r.HasSaturation {
			b = appendFloat(b, r.Saturation)
		}
	case admission.OpStep, admission.OpClose:
		b = binary.AppendUvarint(b, uint64(len(r.Decisions)))
		for _, d := range r.Decisions {
			b = binary.AppendUvarint(b, d.ID)
			b = appendErr(b, d.Err)
		}
	case admission.OpUnset, admission.OpCancel, admission.OpRelease, admission.OpForget:
	}
	return b
}

// What an error is in a record, beside an admission.Reason.
const (
	errNone        = 0
	errUnknownBand = 0xf0
	errOther       = 0xff
)

func appendErr(b []byte, err error) []byte {
	if err == nil {
		return append(b, errNone)
	}
	if errors.Is(err, admission.ErrUnknownBand) {
		return append(b, errUnknownBand)
	}
	rejected, ok := errors.AsType[*admission.RejectedError](err)
	if !ok {
		return append(b, errOther)
	}
	b = append(b, byte(rejected.Reason))
	b = binary.AppendVarint(b, int64(rejected.Waited))
	b = binary.AppendVarint(b, int64(rejected.Depth))
	return binary.AppendVarint(b, int64(rejected.RetryAfter))
}

// What is known of an endpoint's load, one bit each.
const (
	loadInFlight = 1 << iota
	loadMeasured
	loadMeasuredInFlight
	loadRunning
	loadWaiting
	loadKVUsed
	loadCapacity
	loadAssumed
)

// appendLoad appends the pool's load: of endpoints that are the same as when it
// was last written those that have changed, else all of them. Between two looks
// little changes, and there are many.
func (a *admissions) appendLoad(b []byte, l admission.PoolLoad) []byte {
	if a.last == nil {
		a.last = make(map[string][]admission.EndpointLoad)
	}
	b = appendText(b, l.Pool)
	now, before := l.Load.Endpoints, a.last[l.Pool]
	same := slices.EqualFunc(now, before, func(x, y admission.EndpointLoad) bool { return x.ID == y.ID })
	b = appendBool(b, same)
	if same {
		changed := 0
		for i := range now {
			if now[i] != before[i] {
				changed++
			}
		}
		b = binary.AppendUvarint(b, uint64(changed))
		for i := range now {
			if now[i] != before[i] {
				b = binary.AppendUvarint(b, uint64(i))
				b = a.appendEndpoint(b, &now[i])
			}
		}
	} else {
		b = binary.AppendUvarint(b, uint64(len(now)))
		for i := range now {
			b = appendText(b, now[i].ID)
			b = a.appendEndpoint(b, &now[i])
		}
	}
	a.last[l.Pool] = append(before[:0], now...)
	return b
}

func (a *admissions) appendEndpoint(b []byte, e *admission.EndpointLoad) []byte {
	at := len(b)
	b = append(b, 0)
	b = binary.AppendUvarint(b, e.Instance)
	b = appendFloat(b, e.Weight)
	var known byte
	if !e.MeasuredAt.IsZero() {
		known |= loadMeasured
		b = binary.AppendVarint(b, a.at(e.MeasuredAt).UnixNano())
	}
	for _, v := range [...]struct {
		bit byte
		r   admission.Reading
	}{
		{loadInFlight, e.InFlight},
		{loadMeasuredInFlight, e.MeasuredInFlight},
		{loadRunning, e.Running},
		{loadWaiting, e.Waiting},
		{loadKVUsed, e.KVUsedRatio},
		{loadCapacity, e.BatchCapacity},
		{loadAssumed, e.AssumedCapacity},
	} {
		if n, ok := v.r.Get(); ok {
			known |= v.bit
			b = appendFloat(b, n)
		}
	}
	b[at] = known
	return b
}

// steps reads the steps of one admission core again, in their order.
type steps struct {
	next  uint64                              // number of the next step
	loads map[string][]admission.EndpointLoad // by pool
}

// errStepsMissing: the step is not the one after that which was read last.
var errStepsMissing = errors.New("flight: steps before it are missing")

// parse reads what the core was asked; answer is what it said, a part of payload.
// What the record points to is valid until the next call. The error wraps
// errStepsMissing, ErrVersion or ErrBadRecord; nothing can be read after it.
func (s *steps) parse(at time.Time, payload []byte) (rec admission.Record, answer []byte, err error) {
	r, err := open(payload)
	if err != nil {
		return rec, nil, err
	}
	rec.Op, rec.At = admission.Op(r.byte()), at
	if seq := r.uvarint(); !r.short && seq != s.next {
		return rec, nil, fmt.Errorf("%w: it is number %d, and %d was expected", errStepsMissing, seq, s.next)
	}
	s.next++
	switch rec.Op {
	case admission.OpOffer:
		rec.Request = admission.Request{Pool: r.text(), Band: r.text()}
		if tenant := r.uint64(); tenant != 0 {
			rec.Request.Tenant = fmt.Sprintf("%016x", tenant)
		}
		ahead := r
		rec.Granted, rec.ID = ahead.bool(), ahead.uvarint()
	case admission.OpCancel, admission.OpRelease:
		rec.ID = r.uvarint()
	case admission.OpStep:
		for range r.count(2) {
			rec.Loads = append(rec.Loads, s.load(&r))
		}
	case admission.OpForget, admission.OpClose:
	case admission.OpUnset:
		fallthrough
	default:
		return rec, nil, fmt.Errorf("%w: admission knows no operation %d", ErrBadRecord, rec.Op)
	}
	if r.short {
		return rec, nil, r.end()
	}
	return rec, r.rest, nil
}

func (s *steps) load(r *reader) admission.PoolLoad {
	pool := r.text()
	all := s.loads[pool]
	if same := r.bool(); same {
		for range r.count(3) {
			i := r.uvarint()
			if i >= uint64(len(all)) {
				r.fail()
				break
			}
			all[i] = endpointLoad(r, all[i].ID)
		}
	} else {
		all = make([]admission.EndpointLoad, r.count(3))
		for i := range all {
			all[i] = endpointLoad(r, r.text())
		}
		if s.loads == nil {
			s.loads = make(map[string][]admission.EndpointLoad)
		}
		s.loads[pool] = all
	}
	return admission.PoolLoad{Pool: pool, Load: &admission.Load{Endpoints: all}}
}

func endpointLoad(r *reader, id string) admission.EndpointLoad {
	known := r.byte()
	e := admission.EndpointLoad{ID: id, Instance: r.uvarint(), Weight: r.float()}
	if known&loadMeasured != 0 {
		e.MeasuredAt = r.time()
	}
	read := func(bit byte) admission.Reading {
		if known&bit == 0 {
			return admission.Read(math.NaN())
		}
		return admission.Read(r.float())
	}
	e.InFlight, e.MeasuredInFlight = read(loadInFlight), read(loadMeasuredInFlight)
	e.Running, e.Waiting, e.KVUsedRatio = read(loadRunning), read(loadWaiting), read(loadKVUsed)
	e.BatchCapacity, e.AssumedCapacity = read(loadCapacity), read(loadAssumed)
	return e
}
