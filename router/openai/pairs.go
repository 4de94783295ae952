package openai

import (
	"math"
	"math/bits"
)

// Requests that rank or score texts have a model read pairs of them: a query with
// each of many documents, or the first of one list with the first of another, and so
// on. Engines' names for the two sides: Cohere's and Jina's query and documents,
// which vLLM, SGLang, llama.cpp and Infinity have for ranking; TEI's texts; vLLM's
// text_1 and text_2, data_1 and data_2, queries and documents or items, and SGLang's
// query and items for scoring. A text alone is a list of one. In vLLM a list is as
// long as the other, or one of them has one text.

// pairSide reports whether a member holds texts of which pairs are made.
func pairSide(name []byte) bool {
	switch string(name) {
	case "query", "queries", "documents", "texts", "items", "text_1", "text_2", "data_1", "data_2":
		return true
	}
	return false
}

// pairNotes are what is known of the pairs of a body.
type pairNotes struct {
	counted Span  // the list that was passed last, and
	entries int64 // how many texts are in it

	longest int64 // how many pairs; 0 and 1 are one
	once    int64 // bytes of the lists of so many texts
	unsure  bool  // whether these may be one text
	sides   int64 // bytes of all texts
}

// list returns the index after the list that begins at b[start], in which the
// scanner stands below the top level, and counts its texts; -1 when s.err is set.
func (n *pairNotes) list(s *scanner, start int) int {
	b := s.b
	n.entries = 0
	i := skipSpace(b, start+1)
	if i < len(b) && b[i] == ']' {
		n.counted = Span{start, i + 1}
		return i + 1
	}
	for {
		i = skipSpace(b, plainInts(b, i))
		first := i
		if i = s.value(i, 2); i < 0 {
			return -1
		}
		if c := b[first]; c == '"' || c == '{' || c == '[' {
			n.entries++ // numbers are the tokens of one text
		}
		if i = skipSpace(b, i); i >= len(b) {
			return s.fail(len(b), ErrTruncated, "an object or array does not end")
		}
		switch b[i] {
		case ',':
			i++
		case ']':
			n.counted = Span{start, i + 1}
			return i + 1
		default:
			return s.fail(i, ErrNotJSON, "a comma or the end of the object or array is expected")
		}
	}
}

// side takes note of a member that holds texts.
func (n *pairNotes) side(b []byte, v Span) {
	bytes := int64(v.Len())
	n.sides += bytes
	entries, sure := n.texts(b, v)
	switch {
	case entries <= 1: // read with each of the others
	case n.longest <= 1:
		n.longest, n.once, n.unsure = entries, bytes, !sure
	case n.longest == entries && sure && n.unsure: // what came before may be one text, read with each
		n.once, n.unsure = bytes, false
	case n.longest == entries && !sure && !n.unsure: // it may be one text, read with each
	case n.longest == entries:
		n.once += bytes
	default:
		// Lists of which no engine known makes pairs: each text with each.
		n.longest, n.once = product(n.longest, entries), 0
	}
}

// texts is how many texts a value of a side holds at most, and whether it is surely
// as many.
func (n *pairNotes) texts(b []byte, v Span) (entries int64, sure bool) {
	switch {
	case n.counted == v && v.Len() > 0:
		return n.entries, true
	case b[v.Start] == '[': // its key has an escape
		n.list(&scanner{b: b}, v.Start)
		return n.entries, true
	case b[v.Start] == '{':
		// What is in one object's content is one text of several parts to vLLM, and
		// was as many texts to its earlier versions.
		var key [32]byte
		m := members{s: scanner{b: b}, at: v.Start}
		for m.next() {
			if string(m.name(key[:])) == "content" && b[m.value.Start] == '[' {
				n.list(&scanner{b: b}, m.value.Start)
				return n.entries, false
			}
		}
	}
	return 1, true
}

// Pairs is how many pairs of texts a model reads for a body that has texts ranked or
// scored; 0 if it holds none. Where its lists have different lengths it is as many as
// there are ways to take a text of each.
func (p *Peek) Pairs() int64 {
	if p.pairs.sides == 0 {
		return 0
	}
	return max(p.pairs.longest, 1)
}

// PairBytes is how many bytes of text a model reads for those pairs, quotes and
// escapes included: a query, or whatever stands beside a list, anew for each.
func (p *Peek) PairBytes() int64 { return p.pairs.read(p.pairs.sides) }

// MostPairBytes is PairBytes as if all of a body of that many bytes were read anew
// for each pair, but for the lists that the pairs are taken from: an engine may put
// an instruction, or whatever else is in a request, into each.
func (p *Peek) MostPairBytes(body int64) int64 { return p.pairs.read(body) }

// read is how many of so many bytes are read.
func (n *pairNotes) read(all int64) int64 {
	again := product(all-n.once, max(n.longest, 1))
	if again > math.MaxInt64-n.once {
		return math.MaxInt64
	}
	return again + n.once
}

// product is that of two numbers of at least zero, at most what an int64 holds.
func product(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi > 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}
