package openai

import "encoding/binary"

// plainInts steps over integers that are separated by a comma and at most one
// space, as in arrays of token ids, eight bytes at a time. It must stand where
// a value is expected, and returns such an index: the start of the first value
// that it did not step over.
func plainInts(b []byte, start int) int {
	i := start
	// A mark is the high bit of a byte; the other bits mean nothing. Shifting
	// gives each byte the mark of the one before it.
	var lastNotDigit, lastNotComma, lastZero uint64 = highs, 0, 0
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:]) ^ '0'*ones
		low := x &^ highs // so that no sum carries into the next byte
		notDigit := low + (0x80-10)*ones
		notZero := low + 0x7f*ones
		notComma := low ^ ('0'^',')*ones + 0x7f*ones
		notSpace := low ^ ('0'^' ')*ones + 0x7f*ones
		afterNoDigit := notDigit<<8 | lastNotDigit>>56
		afterNoComma := notComma<<8 | lastNotComma>>56
		// A zero that begins a number; no digit may follow it.
		zero := afterNoDigit &^ notZero
		afterZero := zero<<8 | lastZero>>56
		bad := x | notDigit&notComma&notSpace | afterNoDigit&^notComma |
			afterNoComma&^notSpace | afterZero&^notDigit
		if bad&highs != 0 {
			break
		}
		lastNotDigit, lastNotComma, lastZero = notDigit, notComma, zero
	}
	for i > start && b[i-1] != ',' {
		i--
	}
	return i
}
