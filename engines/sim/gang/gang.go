// Package gang lets the processes of one simulated replica find each other, as
// the ranks of a real engine do: rank 0 leads and binds a port, the others dial
// it, and nobody goes on before all are there. A rank that is lost afterwards
// ends all, for a lone rank cannot rejoin.
//
// [Lead] and [Join] block until the gang has gathered, and return a [Session]:
//
//	s, err := gang.Join(ctx, member, dial, gang.Options{Timeout: 10 * time.Minute})
//	defer s.Close()
//	load()
//	err = s.Loaded(ctx) // the leader's returns when every rank has said so
//	<-s.Done()          // a rank is lost: s.Err says which
//
// On the wire it is TCP with one JSON object a line. The port believes who
// knows replica, generation and rank, and no more is asked, as with real engines:
// it belongs on the network between the nodes and nowhere else.
//
//	worker → leader  {"kind":"hello","member":{…}}
//	leader → worker  {"kind":"joined"} or {"kind":"refused","why":"…"}
//	leader → worker  {"kind":"gathered"}
//	worker → leader  {"kind":"loaded"}
//
// A connection that ends is a rank that is lost. One that hangs is not noticed
// but by TCP's own keep-alive, about three minutes.
package gang

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"
)

var (
	// ErrMissing ends [Lead] and [Join] when the gang has not gathered in time.
	ErrMissing = errors.New("gang: ranks are missing")
	// ErrRefused ends [Join]: the leader says that the member is not of its gang.
	ErrRefused = errors.New("gang: refused by the leader")
	// ErrLost ends a gang one of whose ranks is gone.
	ErrLost = errors.New("gang: a rank is lost")
)

// Member says which rank of which replica a process is.
type Member struct {
	// Replica and Generation are the same for every rank. Replica may be empty.
	Replica    string `json:"replica"`
	Generation uint64 `json:"generation"`
	// Ranks is how many processes the replica has, 2 to 4096.
	Ranks int `json:"ranks"`
	// Rank is 0 up to Ranks - 1; 0 leads.
	Rank int `json:"rank"`
}

const mostRanks = 4096

// Validate says what is wrong with m.
func (m Member) Validate() error {
	switch {
	case m.Ranks < 2 || m.Ranks > mostRanks:
		return fmt.Errorf("gang: there are %d ranks; want 2 to %d", m.Ranks, mostRanks)
	case m.Rank < 0 || m.Rank >= m.Ranks:
		return fmt.Errorf("gang: rank %d of %d; want 0 to %d", m.Rank, m.Ranks, m.Ranks-1)
	case len(m.Replica) > maxReplica:
		return fmt.Errorf("gang: the replica's name has %d bytes; want at most %d", len(m.Replica), maxReplica)
	}
	return nil
}

const maxReplica = 256

// Options are what [Lead] and [Join] need beside the member.
type Options struct {
	// Timeout bounds the time until the gang has gathered. 0: only the context
	// does.
	Timeout time.Duration
	Logger  *slog.Logger // nil discards
}

func (o Options) logger() *slog.Logger {
	if o.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Logger
}

// What is said on the wire.
const (
	kindHello    = "hello"
	kindJoined   = "joined"
	kindRefused  = "refused"
	kindGathered = "gathered"
	kindLoaded   = "loaded"
)

type message struct {
	Kind   string  `json:"kind"`
	Member *Member `json:"member,omitempty"`
	Why    string  `json:"why,omitempty"`
}

const (
	// patience is how long one who connects may take to say hello, and how long
	// a message may take to be sent.
	patience = 10 * time.Second
	// longestLine bounds a message.
	longestLine = 4096
)

// wire is a connection that carries messages.
type wire struct {
	net.Conn
	lines *bufio.Reader
}

func newWire(c net.Conn) *wire { return &wire{c, bufio.NewReaderSize(c, longestLine)} }

// receive reads one message; one that is too long or no message is an error.
func (w *wire) receive() (m message, err error) {
	line, err := w.lines.ReadSlice('\n')
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, fmt.Errorf("gang: %.60q is no message: %w", line, err)
	}
	return m, nil
}

func (w *wire) send(m message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_ = w.SetWriteDeadline(time.Now().Add(patience)) // only fails where closed, and then Write does
	_, err = w.Write(append(b, '\n'))
	return err
}

// list writes ranks for people: "1, 2, 5".
func list(ranks []int) string {
	texts := make([]string, len(ranks))
	for i, r := range ranks {
		texts[i] = strconv.Itoa(r)
	}
	return strings.Join(texts, ", ")
}
