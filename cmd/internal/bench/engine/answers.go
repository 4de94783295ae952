package engine

import (
	"sync"

	"github.com/llmgw/llmgw/cmd/internal/bench/wire"
)

// answers keeps the writes of every answer that was asked for, so that an
// answer costs the engine its writes alone. A run asks for a handful.
type answers struct {
	m sync.Map // shape → [][]byte
}

// shape is what decides the bytes of an answer.
type shape struct {
	stream bool
	size   int // token events or bytes
	usage  wire.Usage
}

// writes returns the writes that answer ask. As vLLM does, a stream has a usage
// event only if the request asks for it, and usage in every event only if it
// asks for that too. Callers change nothing in what they get.
func (a *answers) writes(ask wire.Ask) [][]byte {
	s := shape{stream: ask.Stream, size: ask.AnswerBytes}
	if ask.Stream {
		s.size, s.usage = max(ask.Events, 1), wire.NoUsage
		switch {
		case ask.Usage && ask.Continuous:
			s.usage = wire.ContinuousUsage
		case ask.Usage:
			s.usage = wire.FinalUsage
		}
	}
	if v, ok := a.m.Load(s); ok {
		return v.([][]byte)
	}
	var w [][]byte
	if s.stream {
		w = wire.Frames(wire.StreamAnswer(s.size, s.usage))
	} else {
		w = [][]byte{wire.Reply(200, jsonType, wire.WholeAnswer(s.size).Body)}
	}
	a.m.Store(s, w)
	return w
}
