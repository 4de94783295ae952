package weights

import (
	"cmp"
	"maps"
	"slices"
)

// place is where in a model a tensor is.
type place struct {
	part   part
	expert bool // of inLayer
	layer  int  // of inLayer
}

type part uint8

const (
	elsewhere part = iota
	inEmbedding
	inOutput
	inLayer
)

// tally adds up tensors by where they are, and by their type.
type tally struct {
	facts Facts
	types map[string]*TypeBytes
}

// maxTypes bounds the types that are told apart: there are some 50.
const maxTypes = 100

// add counts a tensor. It returns what is wrong with it, or "".
func (t *tally) add(p place, kind string, bytes uint64) string {
	f := &t.facts
	sum := f.TensorBytes + bytes
	if sum < bytes {
		return "the tensors are larger than can be counted"
	}
	if p.part == inLayer && p.layer >= maxLayers {
		return "a tensor of a layer behind the last that there can be"
	}
	entry := t.types[kind]
	if entry == nil {
		if len(t.types) == maxTypes {
			return "more types of tensors than there are"
		}
		if t.types == nil {
			t.types = make(map[string]*TypeBytes)
		}
		entry = &TypeBytes{Type: kind}
		t.types[kind] = entry
	}
	entry.Tensors++
	entry.Bytes += bytes
	f.TensorBytes = sum

	switch p.part {
	case inEmbedding:
		f.EmbeddingBytes += bytes
	case inOutput:
		f.OutputBytes += bytes
	case elsewhere:
		f.OtherBytes += bytes
	case inLayer:
		if p.layer >= len(f.Layers) {
			f.Layers = append(f.Layers, make([]Layer, p.layer+1-len(f.Layers))...)
		}
		f.Layers[p.layer].Bytes += bytes
		if p.expert {
			f.Layers[p.layer].ExpertBytes += bytes
		}
	}
	return ""
}

// done returns the facts about tensors. Those in layers behind the first n, which
// the model is not run with unless it is asked to guess ahead, are counted apart.
// 0: what has tensors is a layer.
func (t *tally) done(n int) Facts {
	f := t.facts
	if n > 0 {
		for len(f.Layers) > n {
			last := len(f.Layers) - 1
			f.SpareBytes += f.Layers[last].Bytes
			f.Layers = f.Layers[:last]
		}
		f.Layers = append(f.Layers, make([]Layer, n-len(f.Layers))...)
	}
	for _, entry := range slices.SortedFunc(maps.Values(t.types), func(a, b *TypeBytes) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Type, b.Type))
	}) {
		f.Types = append(f.Types, *entry)
	}
	return f
}
