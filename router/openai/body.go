package openai

// Bounds of what a Body keeps: rerank answers of engines have their usage in
// front, the others behind the answer itself.
const (
	bodyHead = 2 << 10
	bodyTail = 4 << 10
)

// Body finds the usage in one JSON answer while its bytes pass. It keeps the
// first 2 KiB and the last 4 KiB. The zero value reads DialectChat.
type Body struct {
	dialect Dialect
	head    []byte
	tail    []byte
}

// Reset makes b ready for another answer; buffers are kept.
func (b *Body) Reset(d Dialect) {
	b.dialect, b.head, b.tail = d, b.head[:0], b.tail[:0]
}

// Feed takes the next bytes of the answer. It neither changes nor keeps p.
func (b *Body) Feed(p []byte) {
	if room := bodyHead - len(b.head); room > 0 {
		n := min(room, len(p))
		b.head = append(b.head, p[:n]...)
	}
	b.tail = keepTail(b.tail, p, bodyTail)
}

// ResponseID is the "id" of an answer of DialectResponses, if it stands within
// the first 2 KiB and is plain text of at most 256 bytes; else empty.
func (b *Body) ResponseID() string { return idOf(b.head) }

// Usage is what the engine said in the bytes so far: the last usage object
// that starts in the last 4 KiB, else the last in the first 2 KiB.
func (b *Body) Usage() (Usage, bool) {
	s := Stream{opts: StreamOptions{Dialect: b.dialect}}
	s.lastUsage(lastBytes(b.tail, bodyTail))
	if s.used == (counters{}) {
		s.lastUsage(b.head)
	}
	return s.Usage()
}
