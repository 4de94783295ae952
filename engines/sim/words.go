package sim

import "strings"

// Generated text is a walk through a fixed vocabulary of 4096 words of two
// syllables ("bato", "kémi"), one word per token. Each word determines the
// one after it, so a reader can tell from the text alone whether anything was
// lost, doubled or mixed in on the way, multi-byte characters included.

const (
	vocabulary = 4096
	stride     = 2731 // odd, so that word → number is a bijection
)

// syllable is one of 64; an é in every fourth makes text not plain ASCII.
func appendSyllable(dst []byte, n uint) []byte {
	dst = append(dst, "bdfgklmnprstvzhj"[n&15])
	return append(dst, [4]string{"a", "i", "o", "é"}[n>>4&3]...)
}

// appendWord appends token i of the text with this key, with its leading
// space unless it is the first.
func appendWord(dst []byte, key uint64, i int) []byte {
	if i > 0 {
		dst = append(dst, ' ')
	}
	w := (uint(key%vocabulary) + uint(i)) * stride % vocabulary
	return appendSyllable(appendSyllable(dst, w>>6), w&63)
}

// Text is what an engine generates in n tokens for the given key: n words
// joined by spaces. Keys that are equal modulo 4096 give the same text.
func Text(key uint64, n int) string {
	b := make([]byte, 0, n*6)
	for i := range n {
		b = appendWord(b, key, i)
	}
	return string(b)
}

// CheckText reports how many tokens a generated text has and whether it is
// whole: every word the successor of the one before it. A text cut at its end
// is whole; compare tokens with the usage. The empty text is whole.
func CheckText(text string) (tokens int, whole bool) {
	if text == "" {
		return 0, true
	}
	words := strings.Split(text, " ")
	var key uint64
	for i, w := range words {
		n, ok := wordNumber(w)
		if !ok {
			return i, false
		}
		if i == 0 {
			key = n
		} else if n != (key+uint64(i))%vocabulary {
			return i, false
		}
	}
	return len(words), true
}

// wordNumber is the position of a word in the walk.
func wordNumber(w string) (uint64, bool) {
	first, rest, ok1 := cutSyllable(w)
	second, rest, ok2 := cutSyllable(rest)
	if !ok1 || !ok2 || rest != "" {
		return 0, false
	}
	return uint64(first<<6|second) * strideInverse % vocabulary, true
}

// strideInverse × stride ≡ 1 modulo 4096.
const strideInverse = 3

func cutSyllable(s string) (n uint, rest string, ok bool) {
	if s == "" {
		return 0, s, false
	}
	c := strings.IndexByte("bdfgklmnprstvzhj", s[0])
	if c < 0 {
		return 0, s, false
	}
	for v, vowel := range [4]string{"a", "i", "o", "é"} {
		if rest, ok := strings.CutPrefix(s[1:], vowel); ok {
			return uint(c) | uint(v)<<4, rest, true
		}
	}
	return 0, s, false
}
