package router

import (
	"bufio"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/llmgw/llmgw/router/openai"
)

const acceptedEncodings = "zstd, gzip, deflate"

// maxWindow bounds the memory that a zstd frame may ask its decoder for.
const maxWindow = 8 << 20

var (
	errTooLong = errors.New("router: encoded body too long")
	errCorrupt = errors.New("router: body does not decode")
)

// decoder undoes a body's content coding. The decoded length is bounded by who
// reads it, while it decodes; the encoded length is bounded here.
type decoder struct {
	dec  io.Reader
	src  *encoded
	rest io.Reader // what dec leaves of src
	uses int64     // memory that dec itself may take, where that is much
	free func()
}

// encoded counts the bytes of the body as it came.
type encoded struct {
	r    io.Reader
	left int64
	err  error // of the body itself, which decoders hide
}

func (e *encoded) Read(p []byte) (int, error) {
	n, err := e.r.Read(p[:min(int64(len(p)), e.left+1)])
	if e.left -= int64(n); e.left < 0 {
		e.err = errTooLong
		return 0, e.err
	}
	if err != nil && !errors.Is(err, io.EOF) {
		e.err = err
	}
	return n, err
}

func newDecoder(encoding string, r io.Reader, limit int64) (*decoder, *openai.Error) {
	src := &encoded{r: r, left: limit}
	d := &decoder{src: src, rest: src, free: func() {}}
	var err error
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "gzip", "x-gzip":
		d.dec, err = gzip.NewReader(src)
	case "deflate":
		one := bufio.NewReader(src) // zlib takes no byte too many from one of these
		d.rest = one
		d.dec, err = zlib.NewReader(one)
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
		if err == nil {
			d.dec, d.free, d.uses = z, z.Close, maxWindow
		}
	default:
		return nil, openai.UnsupportedEncoding(encoding, acceptedEncodings)
	}
	if err != nil {
		return nil, bodyError(d.cause(err), encoding, limit)
	}
	return d, nil
}

// cause tells a body that could not be read from one that does not decode.
func (d *decoder) cause(err error) error {
	if d.src.err != nil {
		return d.src.err
	}
	return fmt.Errorf("%w: %w", errCorrupt, err)
}

func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.dec.Read(p)
	switch {
	case errors.Is(err, io.EOF) && d.src.err != nil:
		// Decoders take a body that broke off between two frames for its end.
		return n, d.cause(err)
	case errors.Is(err, io.EOF):
		// The body has to be read to its own end, too: until then the server
		// does not watch for the client to leave.
		if more, end := io.Copy(io.Discard, d.rest); end != nil {
			return n, d.cause(end)
		} else if more > 0 {
			return n, fmt.Errorf("%w: data after its end", errCorrupt)
		}
	case err != nil:
		err = d.cause(err)
	}
	return n, err
}

func (d *decoder) close() { d.free() }
