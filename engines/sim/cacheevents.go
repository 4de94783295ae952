package sim

import "github.com/llmgw/llmgw/engines/kvevents"

// cacheLog notes what happens to the prefix cache, as events that refer to the
// hashes and tokens of requests. All methods may be called on nil, which notes
// nothing.
type cacheLog struct {
	blockSize int
	events    []kvevents.Event

	// The last event is of sequence's blocks up to block-1, so that block goes
	// there as well.
	sequence *Sequence
	block    int
}

// take returns the events since the last call. They are valid until the next
// one that notes anything.
func (l *cacheLog) take() []kvevents.Event {
	if l == nil || len(l.events) == 0 {
		return nil
	}
	taken := l.events
	l.events, l.sequence = nil, nil
	return taken
}

// stored notes that block i of s can be found. Blocks that follow each other
// make one event, as in vLLM.
func (l *cacheLog) stored(s *Sequence, i int) {
	if l == nil {
		return
	}
	if l.sequence != s || l.block != i {
		e := kvevents.Event{
			Kind: kvevents.KindStored, BlockSize: l.blockSize, Medium: kvevents.GPU,
			Hashes: s.hashes[i:i], Tokens: s.content[i*l.blockSize : i*l.blockSize],
		}
		if i > 0 {
			e.Parent, e.HasParent = s.hashes[i-1], true
		}
		l.events = append(l.events, e)
	}
	// Longer by one block, which stands where the slices end.
	e := &l.events[len(l.events)-1]
	e.Hashes = e.Hashes[:len(e.Hashes)+1]
	e.Tokens = e.Tokens[:len(e.Tokens)+l.blockSize]
	var keys kvevents.ExtraKeys
	if i == 0 && s.salt != "" {
		keys = kvevents.NewExtraKeys(s.salt) // spreads by the chain of hashes
	}
	e.Extra = append(e.Extra, keys)
	l.sequence, l.block = s, i+1
}

// removed notes that a block can be found no more.
func (l *cacheLog) removed(hash uint64) {
	if l == nil {
		return
	}
	l.sequence = nil
	if n := len(l.events); n > 0 && l.events[n-1].Kind == kvevents.KindRemoved {
		l.events[n-1].Hashes = append(l.events[n-1].Hashes, hash)
		return
	}
	l.events = append(l.events, kvevents.Event{Kind: kvevents.KindRemoved, Hashes: []uint64{hash}, Medium: kvevents.GPU})
}

// cleared notes that nothing can be found.
func (l *cacheLog) cleared() {
	if l == nil {
		return
	}
	l.sequence = nil
	l.events = append(l.events, kvevents.Event{Kind: kvevents.KindCleared})
}
