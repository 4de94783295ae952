package agent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/frames"
)

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// What ends a session from this side.
var (
	// errSilent: the control plane answered no heartbeat for three of them. The
	// connection may look well: a machine that is gone says nothing.
	errSilent = errors.New("agent: the control plane answers no heartbeat")
	// errUnwelcome: it did not welcome the node in time.
	errUnwelcome = errors.New("agent: the control plane did not welcome the node in time")
	// errEnding: the agent ends.
	errEnding = errors.New("agent: ends")
	// errOver: the session is over.
	errOver = errors.New("agent: the stream is over")
	// errForeign: the control plane is not one for this node.
	errForeign = errors.New("agent: not this node's control plane")
)

// silentBeats is how many heartbeats may stay without an answer.
const silentBeats = 3

// maxMessageBytes bounds a message of a control plane's.
const maxMessageBytes = 4 << 20

// link keeps one stream to a control plane, for as long as the agent runs.
type link struct {
	log     *slog.Logger
	cfg     Reconnect
	servers []string
	node    string
	dial    DialFunc
	dialTLS DialFunc
	// certificate says what the node proves itself with, for messages.
	certificate func() string
	// begin makes the session's part of the agent.
	begin func(ctx context.Context) *session

	said   map[string]time.Time // failures that were logged, without their numbers, and when
	barred bool                 // the other end's last word was that it does not take the certificate
}

// saidAgain is after which time a failure is logged again, and maxSaid how many
// different ones are remembered for that.
const (
	saidAgain = time.Minute
	maxSaid   = 32
)

// run dials the servers in turn until ctx is done. It never gives up.
func (l *link) run(ctx context.Context) {
	pause := backoff{cfg: l.cfg}
	for at := 0; ; {
		server := l.servers[at%len(l.servers)]
		worked, err := l.connect(ctx, server)
		if ctx.Err() != nil {
			return
		}
		if worked {
			pause.reset()
		} else {
			at++
		}
		l.barred = !worked && barred(err, l.barred)
		refused := l.barred || refuses(err)
		wait := pause.next(refused)
		l.tell(server, worked, refused, err, wait)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// tell says once why there is no link, and again each minute.
func (l *link) tell(server string, worked, refused bool, err error, wait time.Duration) {
	level := slog.LevelDebug
	if l.news(server, err) || worked {
		level = slog.LevelWarn
		if refused {
			level = slog.LevelError
		}
	}
	pause := wait.Round(time.Millisecond).String()
	switch {
	case refused:
		l.log.Log(context.Background(), level, "the control plane refuses this node; its engines run on",
			"server", server, "claimed_node", l.node, "certificate", l.certificate(), "code", connect.CodeOf(err).String(), "err", err, "again_in", pause)
	case worked:
		l.log.Log(context.Background(), level, "the link to the control plane is lost; engines run on", "server", server, "err", err, "again_in", pause)
	default:
		l.log.Log(context.Background(), level, "there is no link to the control plane; engines run on", "server", server, "err", err, "again_in", pause)
	}
}

// news reports whether a failure was not logged for a while. Numbers do not make
// another one of it: the port of this end is one.
func (l *link) news(server string, err error) bool {
	what := server + " " + strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
	if time.Since(l.said[what]) < saidAgain {
		return false
	}
	if l.said == nil || len(l.said) >= maxSaid {
		l.said = make(map[string]time.Time)
	}
	l.said[what] = time.Now()
	return true
}

// barred reports whether the other end of TLS does not take the node's
// certificate, or shows none that it asks for. It says so after the handshake, and
// the connection may be seen to break before that is read: what breaks after such
// a word is taken for the same. HTTP/2 keeps the text of an alert and not its type.
func barred(err error, before bool) bool {
	text := err.Error()
	if strings.Contains(text, "remote error: tls: ") {
		return true
	}
	return before && slices.ContainsFunc([]string{"broken pipe", "connection reset by peer", "client conn could not be established", "EOF"},
		func(broken string) bool { return strings.Contains(text, broken) })
}

// refuses reports whether an error says that the control plane will not have this
// node as it is.
func refuses(err error) bool {
	if errors.Is(err, errForeign) {
		return true
	}
	switch connect.CodeOf(err) {
	case connect.CodePermissionDenied, connect.CodeUnauthenticated, connect.CodeAlreadyExists, connect.CodeFailedPrecondition, connect.CodeInvalidArgument:
		return true
	default:
		return false
	}
}

// connect holds one stream until it ends, and says whether it was seen to work:
// a heartbeat was answered. When ctx is done it says goodbye and returns.
func (l *link) connect(ctx context.Context, server string) (worked bool, err error) {
	transport := l.transport()
	defer transport.CloseIdleConnections()
	client := fleetpb.NewAgentServiceClient(&http.Client{Transport: frames.Whole(transport)}, server, connect.WithReadMaxBytes(maxMessageBytes))
	s := l.begin(ctx)
	defer s.end()
	err = s.hold(ctx, client, l.cfg.Timeout)
	return s.worked.Load(), err
}

// transport is one of its own for each stream, so that a connection that is dead
// is not used again.
func (l *link) transport() *http.Transport {
	t := &http.Transport{DialContext: l.dial, DialTLSContext: l.dialTLS, Protocols: new(http.Protocols), DisableCompression: true}
	t.Protocols.SetHTTP2(true)
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

func describe(err error) error {
	if err == nil {
		return errOver
	}
	return err
}
