package sim

import (
	"unicode/utf8"
)

// The tokenizer stands in for byte-pair encoding: text is cut into words with
// their leading space, digits by threes, runs of space and punctuation; a
// word of up to 7 bytes is one token, a longer one is cut where a hash says.
// English prose has about 4.4 bytes a token. Equal text gives equal tokens in
// every process; a token's id is a hash of its bytes.

// vocabularySize is the number of token ids; the first reservedIDs are
// special tokens. It is Qwen3's.
const (
	vocabularySize = 151936
	reservedIDs    = 256
	maxWholeWord   = 7
)

// Special tokens of the chat template.
const (
	tokenStart  uint32 = 1 // <|im_start|>
	tokenEnd    uint32 = 2 // <|im_end|>
	tokenVision uint32 = 3 // <|vision_start|>
	tokenMedia  uint32 = 4 // <|vision_end|>
)

// Tokenize appends the tokens of text to dst. It allocates only to grow dst
// and may run concurrently.
func Tokenize(dst []uint32, text string) []uint32 {
	eachPiece(text, func(piece string) { dst = append(dst, tokenID(piece)) })
	return dst
}

// CountTokens is len(Tokenize(nil, text)).
func CountTokens(text string) int {
	n := 0
	eachPiece(text, func(string) { n++ })
	return n
}

type class uint8

const (
	classSpace class = iota
	classWord
	classDigit
	classOther
)

func classOf(b byte) class {
	switch {
	case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= utf8.RuneSelf:
		return classWord
	case b >= '0' && b <= '9':
		return classDigit
	case b == ' ', b == '\n', b == '\t', b == '\r':
		return classSpace
	default:
		return classOther
	}
}

// eachPiece calls yield with every token's bytes, in order.
func eachPiece(text string, yield func(piece string)) {
	for i := 0; i < len(text); {
		start := i
		k := classOf(text[i])
		if text[i] == ' ' && i+1 < len(text) && classOf(text[i+1]) != classSpace {
			i++ // one space belongs to what follows
			k = classOf(text[i])
		}
		limit := 1 << 30
		switch k {
		case classSpace:
			limit = 8
		case classDigit:
			limit = 3
		case classOther:
			limit = 2
		case classWord:
		}
		for n := 0; i < len(text) && n < limit && classOf(text[i]) == k; n++ {
			// The last space before a word goes with the word.
			if k == classSpace && n > 0 && text[i] == ' ' && i+1 < len(text) && classOf(text[i+1]) != classSpace {
				break
			}
			i++
		}
		piece := text[start:i]
		for len(piece) > maxWholeWord && k == classWord {
			n := 3 + int(fnv(piece[:maxWholeWord])%5) // 3 to 7 bytes
			yield(piece[:n])
			piece = piece[n:]
		}
		yield(piece)
	}
}

func tokenID(piece string) uint32 {
	return reservedIDs + uint32(fnv(piece)%(vocabularySize-reservedIDs))
}

// fnv is 64-bit FNV-1a with a final mix, so that its remainders are even.
func fnv(s string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 0x100000001b3
	}
	return mix(h, 0)
}
