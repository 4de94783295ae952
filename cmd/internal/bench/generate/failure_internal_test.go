package generate

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestKindOf(t *testing.T) {
	dial := func(err error) error {
		return &url.Error{Op: "Post", URL: "http://a", Err: &net.OpError{Op: "dial", Net: "tcp", Err: err}}
	}
	read := func(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }
	tests := []struct {
		name string
		err  error
		at   phase
		want Kind
	}{
		{"no such host", dial(&net.DNSError{IsNotFound: true}), phaseDial, KindDNS},
		{"the resolver gave up", dial(&net.DNSError{IsTimeout: true}), phaseDial, KindDNS},
		{"deadline while resolving", fmt.Errorf("%w: %w", &net.DNSError{}, context.DeadlineExceeded), phaseDial, KindTimeoutDial},
		{"refused", dial(syscall.ECONNREFUSED), phaseDial, KindDial},
		{"no route", dial(syscall.EHOSTUNREACH), phaseDial, KindDial},
		{"the kernel gave up", dial(syscall.ETIMEDOUT), phaseDial, KindTimeoutDial},
		{"unknown authority", &url.Error{Err: x509.UnknownAuthorityError{}}, phaseDial, KindTLS},
		{"ended in the handshake", &url.Error{Err: io.EOF}, phaseDial, KindDial},
		{"deadline before the head", &url.Error{Err: context.DeadlineExceeded}, phaseHead, KindTimeoutHead},
		{"deadline before content", context.DeadlineExceeded, phaseContent, KindTimeoutContent},
		{"read deadline", read(os.ErrDeadlineExceeded), phaseAnswer, KindTimeoutAnswer},
		{"reset before the head", &url.Error{Err: read(syscall.ECONNRESET)}, phaseHead, KindReset},
		{"idle connection", &url.Error{Err: errors.New("http: server closed idle connection")}, phaseHead, KindReset},
		{"pipe", &url.Error{Err: read(syscall.EPIPE)}, phaseHead, KindReset},
		{"reset in the answer", read(syscall.ECONNRESET), phaseAnswer, KindCut},
		{"cut", io.ErrUnexpectedEOF, phaseContent, KindCut},
		{"no HTTP", &url.Error{Err: errors.New(`malformed HTTP response "x"`)}, phaseHead, KindProtocol},
		{"a head without end", &url.Error{Err: errors.New("net/http: server response headers exceeded 262144 bytes; aborted")}, phaseHead, KindTooLong},
		{"chunks", errors.New("invalid byte in chunk length"), phaseAnswer, KindProtocol},
		{"something else", &url.Error{Err: errors.New("odd")}, phaseHead, KindOther},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := failure(tt.err, tt.at)
			if f.Kind != tt.want || !errors.Is(f, tt.err) {
				t.Errorf("%v is %s, want %s", tt.err, f.Kind, tt.want)
			}
		})
	}
}

func TestFailureSaysAll(t *testing.T) {
	f := refused(503, "application/json", []byte(`{"error":{"message":"`+strings.Repeat("é", 400)+`","code":"overloaded"}}`))
	if got := f.Error(); !strings.HasPrefix(got, "status 503 overloaded: éé") || len(got) > 400 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

func TestErrorRowsAreBounded(t *testing.T) {
	r := newRecorder(false, SLO{}, at(0))
	for i := range 10 * maxErrorRows {
		r.fail(&RequestError{Kind: KindStatus, Status: 400, Code: fmt.Sprint(i), Message: "x"})
	}
	rows := r.errorRows()
	if len(rows) != maxErrorRows+1 || rows[0].Kind != KindOther || rows[0].Count != 9*maxErrorRows {
		t.Errorf("%d rows, the first %+v", len(rows), rows[0])
	}
}
