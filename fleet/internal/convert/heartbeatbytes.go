package convert

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// HeartbeatReader reads the heartbeats of one stream from their bytes. They are
// most of what agents say, and one says little that the one before did not: the
// generated code makes some two hundred objects of it, this one or two. It reads
// heartbeats as agents write them and leaves every other message, and every one
// that is at fault, to the generated code: what it reads, it reads as that and
// [HeartbeatFromWire] do (FuzzHeartbeatBytes).
type HeartbeatReader struct {
	beat Heartbeat
}

// mostRows bounds the rows of a list that are read here, and so what a reader
// keeps of one heartbeat for the next.
const mostRows = 1024

// Read reads a ConnectRequest that is a heartbeat. It returns nil for one that the
// generated code has to read. What it returns holds until the next Read, its State
// for ever; of data it keeps nothing.
func (r *HeartbeatReader) Read(data []byte) *Heartbeat {
	f := fields{rest: data}
	if !f.next() || f.number != 2 || f.kind != protowire.BytesType || len(f.rest) > 0 {
		return nil // no heartbeat, or one in several parts
	}
	if !r.beat.read(f.bytes) {
		return nil
	}
	return &r.beat
}

// read reads a heartbeat over the one before. False: it is not whole.
func (h *Heartbeat) read(data []byte) bool {
	last := *h
	h.Sequence, h.At, h.State, h.Strangers = 0, time.Time{}, engines.NodeState{}, nil
	shards, timed, stated := 0, false, false
	f := fields{rest: data}
	for f.next() {
		switch f.number {
		case 1:
			h.Sequence = f.number64()
		case 2:
			f.want(!timed) // parts are merged
			h.At, timed = f.time(), true
		case 3:
			f.want(!stated)
			f.want(readState(f.message(), &h.State, &last.State))
			stated = true
		case 4:
			if shards == len(h.Shards) {
				h.Shards = append(h.Shards, Brief{})
			}
			f.want(shards < mostRows && h.Shards[shards].read(f.message()))
			shards++
		case 5:
			held := new(fleetpb.PortHeld)
			f.generated(held)
			f.want(len(h.Strangers) < mostRows)
			h.Strangers = append(h.Strangers, held)
		}
	}
	h.Shards = h.Shards[:shards]
	return !f.odd
}

// read reads a shard in short over what was in its row of the heartbeat before.
func (b *Brief) read(data []byte) bool {
	last := b.ID.Replica
	*b = Brief{}
	f := fields{rest: data}
	for f.next() {
		switch f.number {
		case 1:
			b.ID.Replica = f.text(last)
		case 2:
			b.ID.Rank = int(uint32(f.number64())) //nolint:gosec // as the generated code reads it
		case 3:
			b.Generation = f.number64()
		case 4:
			b.Revision = f.number64()
		case 6:
			b.Running = f.optCount()
		case 7:
			b.Waiting = f.optCount()
		}
	}
	return !f.odd
}

// readState reads how a node is. Lists that are as they were are not made anew.
func readState(data []byte, state, last *engines.NodeState) bool {
	gpus := rows[engines.GPUState]{last: last.GPUs, same: sameGPU}
	ports := rows[engines.PortState]{last: last.Ports, same: equal[engines.PortState]}
	fabrics := rows[engines.FabricState]{last: last.Fabrics, same: sameFabric}
	problems := rows[engines.Warning]{last: last.Problems, same: equal[engines.Warning]}
	f := fields{rest: data}
	for f.next() {
		switch f.number {
		case 1:
			state.MemoryAvailableBytes = f.optNumber64()
		case 2:
			f.want(gpus.read(f.message(), readGPU))
		case 3:
			f.want(state.GPUsAge == 0) // parts are merged
			state.GPUsAge = f.duration()
		case 4:
			f.want(ports.read(f.message(), readPort))
		case 5:
			f.want(state.PortsAge == 0)
			state.PortsAge = f.duration()
		case 6:
			f.want(fabrics.read(f.message(), readFabric))
		case 7:
			f.want(problems.read(f.message(), readWarning))
		}
	}
	state.GPUs, state.Ports, state.Fabrics, state.Problems = gpus.list(), ports.list(), fabrics.list(), problems.list()
	return !f.odd
}

// rows is a list that is read row by row. While its rows are those of the list
// before, it is that list.
type rows[T any] struct {
	last []T
	same func(a, b T) bool
	n    int // rows that were read
	own  []T // the rows, once one of them was not the last list's
}

// read reads a row, given the one that was in its place.
func (r *rows[T]) read(data []byte, read func(data []byte, last T) (row T, ok bool)) bool {
	var last T
	if r.n < len(r.last) {
		last = r.last[r.n]
	}
	row, ok := read(data, last)
	if !ok || r.n == mostRows {
		return false
	}
	if r.own == nil && (r.n >= len(r.last) || !r.same(row, last)) {
		r.own = append(make([]T, 0, max(r.n+1, len(r.last))), r.last[:r.n]...)
	}
	if r.own != nil {
		r.own = append(r.own, row)
	}
	r.n++
	return true
}

func (r *rows[T]) list() []T {
	switch {
	case r.n == 0:
		return nil
	case r.own != nil:
		return r.own
	}
	return r.last[:r.n:r.n]
}

func equal[T comparable](a, b T) bool { return a == b }

func sameGPU(a, b engines.GPUState) bool {
	return a.GPU == b.GPU && a.MemoryUsedBytes == b.MemoryUsedBytes && a.MemoryFreeBytes == b.MemoryFreeBytes &&
		a.UtilizationRatio == b.UtilizationRatio && a.TemperatureC == b.TemperatureC && a.Memory == b.Memory &&
		slices.Equal(a.Foreign, b.Foreign) && a.Health.State == b.Health.State && slices.Equal(a.Health.Reasons, b.Health.Reasons)
}

func sameFabric(a, b engines.FabricState) bool {
	return a.Name == b.Name && a.Verdict == b.Verdict && slices.Equal(a.Reasons, b.Reasons)
}

func readGPU(data []byte, last engines.GPUState) (row engines.GPUState, ok bool) {
	f := fields{rest: data}
	for f.next() {
		switch f.number {
		case 1:
			row.GPU = f.text(last.GPU)
		case 2:
			row.MemoryUsedBytes = f.optNumber64()
		case 3:
			row.MemoryFreeBytes = f.optNumber64()
		case 4:
			row.UtilizationRatio = f.optFloat()
		case 5:
			row.TemperatureC = f.optFloat()
		case 6:
			row.Memory.Corrected = f.optNumber64()
		case 7:
			row.Memory.Uncorrected = f.optNumber64()
		case 8:
			row.Memory.RemapPending = f.optBool()
		case 9:
			row.Memory.RemapFailed = f.optBool()
		case 10:
			var m fleetpb.GPUProcess
			f.generated(&m)
			row.Foreign = append(row.Foreign, gpuProcessFromWire(&m))
		case 11:
			row.Health.State = engines.HealthState(f.text(string(last.Health.State)))
		case 12:
			var m fleetpb.HealthReason
			f.generated(&m)
			row.Health.Reasons = append(row.Health.Reasons, healthReasonFromWire(&m))
		}
	}
	return row, !f.odd
}

func readPort(data []byte, last engines.PortState) (row engines.PortState, ok bool) {
	f := fields{rest: data}
	for f.next() {
		switch f.number {
		case 1:
			row.Device = f.text(last.Device)
		case 2:
			row.Port = int(int64(f.number64())) //nolint:gosec // as the generated code reads it
		case 3:
			row.State = f.text(last.State)
		case 4:
			row.Physical = f.text(last.Physical)
		case 5:
			row.RateGbps = f.optFloat()
		case 6:
			row.GIDPrefix = f.text(last.GIDPrefix)
		case 7:
			row.LinkDowned = f.optNumber64()
		case 8:
			row.SymbolErrors = f.optNumber64()
		}
	}
	return row, !f.odd
}

func readFabric(data []byte, last engines.FabricState) (row engines.FabricState, ok bool) {
	f := fields{rest: data}
	for f.next() {
		switch f.number {
		case 1:
			row.Name = f.text(last.Name)
		case 2:
			row.Verdict = engines.Verdict(f.text(string(last.Verdict)))
		case 3:
			row.Reasons = append(row.Reasons, f.text(""))
		}
	}
	return row, !f.odd
}

func readWarning(data []byte, last engines.Warning) (row engines.Warning, ok bool) {
	f := fields{rest: data}
	for f.next() {
		switch f.number {
		case 1:
			row.Part = f.text(last.Part)
		case 2:
			row.Problem = f.text(last.Problem)
		case 3:
			row.Advice = f.text(last.Advice)
		}
	}
	return row, !f.odd
}
