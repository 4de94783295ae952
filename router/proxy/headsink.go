package proxy

import (
	"errors"
	"strings"
	"time"
)

// headSink reads an answer's head, interim ones before it included, and leaves
// what came after it in conn.data.
type headSink struct {
	r       *Response
	method  string
	until   time.Time
	have    int // bytes of conn.buf that hold a part of a head
	got     int // bytes that came
	interim int
	long    *[]byte // conn.buf was exchanged for it
	err     error
}

func (s *headSink) limit() time.Time { return s.until }
func (s *headSink) room() []byte     { return s.r.conn.buf[s.have:] }

func (s *headSink) took(n int) (more bool) {
	c := s.r.conn
	from := s.have
	s.have += n
	s.got += n
	if from == 0 && !strings.HasPrefix("HTTP/1.", string(c.buf[:min(n, 7)])) {
		s.err = errStatusLine
		return false
	}
	for {
		end := headEnd(c.buf[:s.have], from)
		if end == 0 {
			return s.grow()
		}
		c.hbuf = append(c.hbuf[:0], c.buf[:end]...)
		if s.err = s.r.head.parse(c.hbuf, s.method); s.err != nil {
			return false
		}
		switch status := s.r.head.status; {
		case status == 101:
			s.err = errUpgrade
		case status < 200:
			if s.interim++; s.interim > max1xx {
				s.err = errTooMany1xx
				return false
			}
			s.have, from = copy(c.buf, c.buf[end:s.have]), 0
			continue
		default:
			c.data = c.buf[end:s.have]
		}
		return false
	}
}

// grow makes room for the rest of a head that fills the buffer.
func (s *headSink) grow() bool {
	c := s.r.conn
	switch {
	case s.have < len(c.buf):
	case s.long != nil:
		s.err = errHeadTooLong
		return false
	default:
		s.long = headBuffers.Get().(*[]byte)
		copy(*s.long, c.buf)
		c.buf = *s.long
	}
	return true
}

// release gives the buffer of a long head back; what followed the head stays.
func (s *headSink) release() {
	if s.long == nil {
		return
	}
	c := s.r.conn
	rest := append([]byte(nil), c.data...)
	c.buf, c.data = make([]byte, readBuffer), rest
	headBuffers.Put(s.long)
}

func isProtocol(err error) bool {
	for _, e := range []error{
		errStatusLine, errHeadTooLong, errHeaderLine, errObsFold, errTEAndCL, errTwoLengths, errLength, errTE,
		errUpgrade, errChunk, errTooMany1xx, errEncoding,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
