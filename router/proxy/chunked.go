package proxy

// maxChunkLine bounds a chunk's size line with its extensions, and each trailer
// line.
const maxChunkLine = 4 << 10

// maxTrailer bounds the trailer section, which is dropped.
const maxTrailer = 16 << 10

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkPad             // white space after the size
	chunkExt
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkTrailer     // at the start of a trailer line
	chunkTrailerLine // within one
	chunkTrailerLF   // after its CR
	chunkLastLF      // after the CR of the empty line
	chunkDone
)

// chunked decodes the chunked transfer coding in the raw bytes of each read. It
// keeps its place between reads, so a chunk, a size or a line end may be split
// anywhere. The zero value stands at the start of a body.
type chunked struct {
	state  chunkState
	digits uint8
	line   int // bytes of the size line or trailer so far
	left   uint64
}

// decode moves the payload within b to b's front and returns it with the number
// of bytes of b that belong to this body; fewer than len(b) once the body ended.
// A bare LF ends no line: what one parser takes for a line end and another does
// not is an error here (RFC 9112 §7.1).
func (d *chunked) decode(b []byte) (payload []byte, used int, err error) {
	// The frequent case by far is one whole chunk a read; then the payload
	// stays where it is.
	start, out := -1, 0
	i := 0
	for i < len(b) {
		switch d.state {
		case chunkData:
			n := len(b) - i
			if uint64(n) > d.left {
				n = int(d.left)
			}
			if start < 0 {
				start, out = i, i
			}
			if out != i {
				copy(b[out:], b[i:i+n])
			}
			out += n
			i += n
			d.left -= uint64(n)
			if d.left == 0 {
				d.state = chunkDataCR
			}
			continue
		case chunkSize:
			c := b[i]
			v, ok := unhex(c)
			switch {
			case ok:
				if d.digits++; d.digits > 15 {
					return nil, 0, errChunk
				}
				d.left = d.left<<4 | uint64(v)
			case d.digits == 0:
				return nil, 0, errChunk
			case c == '\r':
				d.state = chunkSizeLF
			case c == ';':
				d.state = chunkExt
			case c == ' ' || c == '\t':
				d.state = chunkPad
			default:
				return nil, 0, errChunk
			}
		case chunkPad:
			switch b[i] {
			case '\r':
				d.state = chunkSizeLF
			case ';':
				d.state = chunkExt
			case ' ', '\t':
				if d.line++; d.line > maxChunkLine {
					return nil, 0, errChunk
				}
			default:
				return nil, 0, errChunk
			}
		case chunkExt:
			if b[i] == '\r' {
				d.state = chunkSizeLF
			} else if b[i] == '\n' {
				return nil, 0, errChunk
			} else if d.line++; d.line > maxChunkLine {
				return nil, 0, errChunk
			}
		case chunkSizeLF:
			if b[i] != '\n' {
				return nil, 0, errChunk
			}
			d.line, d.digits = 0, 0
			d.state = chunkData
			if d.left == 0 {
				d.state = chunkTrailer
			}
		case chunkDataCR:
			if b[i] != '\r' {
				return nil, 0, errChunk
			}
			d.state = chunkDataLF
		case chunkDataLF:
			if b[i] != '\n' {
				return nil, 0, errChunk
			}
			d.state = chunkSize
		case chunkTrailer, chunkTrailerLine:
			if d.line++; d.line > maxTrailer || b[i] == '\n' {
				return nil, 0, errChunk
			}
			switch {
			case b[i] != '\r':
				d.state = chunkTrailerLine
			case d.state == chunkTrailer:
				d.state = chunkLastLF
			default:
				d.state = chunkTrailerLF
			}
		case chunkTrailerLF:
			if b[i] != '\n' {
				return nil, 0, errChunk
			}
			d.state = chunkTrailer
		case chunkLastLF:
			if b[i] != '\n' {
				return nil, 0, errChunk
			}
			d.state = chunkDone
		case chunkDone:
			return slice(b, start, out), i, nil
		}
		i++
	}
	return slice(b, start, out), i, nil
}

func (d *chunked) done() bool { return d.state == chunkDone }

func slice(b []byte, start, end int) []byte {
	if start < 0 {
		return nil
	}
	return b[start:end]
}

func unhex(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
