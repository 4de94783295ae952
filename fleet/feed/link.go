package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"
	"unicode"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// What ends a stream from the router's side.
var (
	// errSilent: no frame came. The connection may look well: a machine that is gone
	// says nothing.
	errSilent = errors.New("feed: nothing was heard")
	// errUnheard: frames come, and reports do not get through.
	errUnheard = errors.New("feed: the control plane takes no reports")
	// errProtocol: the other end speaks another protocol.
	errProtocol = errors.New("feed: not a stream that this router understands")
	errEnded    = errors.New("feed: the router ends")
	errOver     = errors.New("feed: the stream is over")
)

const (
	// reportTimeout bounds one report, goodbyeTimeout the last one.
	reportTimeout  = 5 * time.Second
	goodbyeTimeout = 500 * time.Millisecond
	// reportRetry is after which time a report that failed is tried again.
	reportRetry = time.Second
	// hurryEvery is the least time between two reports that are hurried.
	hurryEvery = 100 * time.Millisecond
	// resyncRetry is after which time everything is asked for again.
	resyncRetry = 2 * time.Second
	// saidAgain is after which time a failure is logged again, and maxSaid how many
	// different ones are remembered for that.
	saidAgain = time.Minute
	maxSaid   = 32
)

// link is what is kept from one stream to the next.
type link struct {
	tries int                  // without one that worked
	said  map[string]time.Time // failures that were logged, without their numbers, and when
}

// follow keeps one stream, to one source after the other, until ctx is done.
func (f *Follower) follow(ctx context.Context) {
	for at := 0; ; {
		source := f.deps.Sources[at%len(f.deps.Sources)]
		worked, err := f.hold(ctx, source)
		if ctx.Err() != nil {
			return
		}
		if worked {
			f.link.tries = 0
		}
		if !worked || errors.Is(err, errSilent) || errors.Is(err, errUnheard) || errors.Is(err, ErrStale) || refuses(err) || connect.CodeOf(err) == connect.CodeUnavailable {
			at++
		}
		wait := f.pause(refuses(err))
		f.tell(source.Name(), worked, err, wait)
		f.metrics.lost.Inc()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// pause returns how long to wait before the next try. Pauses are spread over the
// whole of their bound, so that routers that lost a control plane at one moment do
// not come back at one moment; one that is refused will be again, and waits for
// half of its bound at least.
func (f *Follower) pause(refused bool) time.Duration {
	limit := f.cfg.Reconnect.MaxDelay
	if refused {
		limit = f.cfg.Reconnect.RefusedMaxDelay
	}
	bound := limit
	if f.link.tries < 30 {
		bound = min(limit, f.cfg.Reconnect.Delay<<f.link.tries)
	}
	f.link.tries++
	if refused {
		return bound/2 + rand.N(bound/2+1)
	}
	return rand.N(bound + 1)
}

// tell says once why there is no stream, and again each minute.
func (f *Follower) tell(source string, worked bool, err error, wait time.Duration) {
	level, what := slog.LevelWarn, "the feed cannot be reached; this router serves by what it knows"
	switch {
	case refuses(err):
		level, what = slog.LevelError, "the feed is refused; this router serves by what it knows"
	case worked:
		what = "the feed is lost; this router serves by what it knows"
	}
	if !f.news(source, err) && !worked {
		level = slog.LevelDebug
	}
	f.log.Log(context.Background(), level, what, "source", source, "router", f.cfg.Router, "code", connect.CodeOf(err).String(), "err", err, "again_in", wait.Round(time.Millisecond).String())
}

// news reports whether a failure was not logged for a while. Numbers do not make
// another one of it: the port of this end is one.
func (f *Follower) news(source string, err error) bool {
	what := source + " " + strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, err.Error())
	if time.Since(f.link.said[what]) < saidAgain {
		return false
	}
	if f.link.said == nil || len(f.link.said) >= maxSaid {
		f.link.said = make(map[string]time.Time)
	}
	f.link.said[what] = time.Now()
	return true
}

// refuses reports whether an error says that the control plane will not have this
// router as it is, or that this router will not have what it says.
func refuses(err error) bool {
	if errors.Is(err, ErrForeign) || errors.Is(err, ErrFrame) || errors.Is(err, errProtocol) || strings.Contains(err.Error(), "remote error: tls: ") {
		return true
	}
	switch connect.CodeOf(err) {
	case connect.CodePermissionDenied, connect.CodeUnauthenticated, connect.CodeFailedPrecondition, connect.CodeInvalidArgument:
		return true
	default:
		return false
	}
}

// hold follows one stream until it ends, and says whether it was seen to work: a
// report got through. When ctx is done it says goodbye and returns.
func (f *Follower) hold(ctx context.Context, source Source) (worked bool, err error) {
	// The stream outlives ctx by the time that a goodbye takes.
	streaming, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(errOver)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(goodbyeTimeout, func() { cancel(errEnded) }) })
	defer stop()
	silence := time.AfterFunc(f.cfg.Silence, func() { cancel(fmt.Errorf("%w for %v", errSilent, f.cfg.Silence)) })
	defer silence.Stop()

	stream, err := source.Open(streaming, f.request())
	if err != nil {
		return false, causeOf(streaming, err)
	}
	defer stream.Close()
	frame, err := stream.Receive()
	if err != nil {
		return false, causeOf(streaming, err)
	}
	welcome := frame.GetWelcome()
	if welcome.GetProtocol() != protocol || welcome.GetSession() == "" {
		return false, fmt.Errorf("%w: it begins with no welcome in version %d of the protocol", errProtocol, protocol)
	}
	if _, err := f.take(frame); err != nil {
		return false, err
	}
	r := &reports{follower: f, stream: stream, session: welcome.GetSession(), every: every(welcome), cancel: cancel, gap: make(chan struct{}, 1)}
	var reporting sync.WaitGroup
	reporting.Go(func() { r.run(ctx, streaming) })
	f.connected(source.Name())
	defer f.connected("")
	f.log.Info("following the feed", "source", source.Name(), "cluster", frame.GetVersion().GetCluster(), "term", frame.GetVersion().GetTerm())
	for err == nil {
		silence.Reset(f.cfg.Silence)
		if frame, err = stream.Receive(); err == nil {
			var out outcome
			if out, err = f.take(frame); out == outcomeGap {
				r.resync()
			}
		}
	}
	err = causeOf(streaming, err)
	cancel(errOver)
	reporting.Wait()
	return r.worked, err
}

// every is how often reports are wanted.
func every(w *apipb.FeedWelcome) time.Duration {
	if d := w.GetReport(); d != nil && d.CheckValid() == nil {
		return min(max(d.AsDuration(), leastReport), reportEvery)
	}
	return reportEvery
}

// request opens a stream.
func (f *Follower) request() *apipb.WatchFeedRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &apipb.WatchFeedRequest{
		ProtocolLeast: protocol, ProtocolMost: protocol, Router: f.cfg.Router, Run: f.run, Software: f.deps.Software,
		Cluster: f.mirror.cluster, Term: f.mirror.heard,
	}
}

func (f *Follower) connected(source string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.source = source
}

// causeOf is why a stream ended: what this side ended it for, or what it says.
func causeOf(streaming context.Context, err error) error {
	if why := context.Cause(streaming); why != nil && !errors.Is(why, errOver) {
		return why
	}
	if errors.Is(err, io.EOF) {
		return errOver
	}
	return err
}

// reports is what goes up beside a stream.
type reports struct {
	follower *Follower
	stream   Stream
	session  string
	every    time.Duration
	cancel   context.CancelCauseFunc // of the stream
	gap      chan struct{}           // has an element when everything is to be sent anew

	number  uint64
	hurried time.Time // when a report was hurried last
	worked  bool      // one got through; to be read when run has returned
	asked   time.Time // when everything was asked for last; receiving goroutine only
}

// resync asks for everything, but not while it may be on its way.
func (r *reports) resync() {
	if time.Since(r.asked) < resyncRetry {
		return
	}
	r.asked = time.Now()
	select {
	case r.gap <- struct{}{}:
	default:
	}
}

// run reports until the stream is over; when ctx is done it says goodbye.
func (r *reports) run(ctx, streaming context.Context) {
	resync, heard := false, time.Now()
	for {
		wait := r.every
		err := r.report(streaming, reportTimeout, resync, false)
		switch {
		case err == nil:
			resync, heard, r.worked = false, time.Now(), true
		case streaming.Err() != nil:
			return
		case connect.CodeOf(err) != connect.CodeUnavailable && connect.CodeOf(err) != connect.CodeDeadlineExceeded:
			r.cancel(err)
			return
		case time.Since(heard) > r.follower.cfg.Silence:
			r.cancel(fmt.Errorf("%w for %v: %w", errUnheard, r.follower.cfg.Silence, err))
			return
		default:
			wait = reportRetry
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.follower.nudge:
		case <-r.follower.hurry:
			r.gather(ctx, streaming)
		case <-r.gap:
			resync = true
		case <-streaming.Done():
		case <-ctx.Done():
			_ = r.report(streaming, goodbyeTimeout, false, true) // else its lease ends by itself
			r.cancel(errEnded)
		}
		timer.Stop()
		if streaming.Err() != nil {
			return
		}
	}
}

// gather waits until a report may be hurried again, for what else begins to wait.
func (r *reports) gather(ctx, streaming context.Context) {
	wait := time.NewTimer(hurryEvery - time.Since(r.hurried))
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-r.follower.nudge:
	case <-streaming.Done():
	case <-ctx.Done():
	}
	r.hurried = time.Now()
}

func (r *reports) report(streaming context.Context, timeout time.Duration, resync, goodbye bool) error {
	ctx, cancel := context.WithTimeout(streaming, timeout)
	defer cancel()
	// First what the router goes by, then what it does: what it has at an instance
	// that it has let go is then no less than is said.
	applied := *r.follower.applied.Load()
	r.number++
	req := &apipb.ReportUseRequest{Session: r.session, Number: r.number, Resync: resync, Goodbye: goodbye}
	if applied != (Version{}) {
		req.Applied = applied.wire()
	}
	for _, u := range r.follower.deps.Reporter.Reports() {
		if engines.ValidID(u.Replica) == nil {
			req.Uses = append(req.Uses, u.wire())
		}
	}
	if d, tells := r.follower.deps.Reporter.(DemandReporter); tells {
		for _, one := range d.Demand() {
			if validModel(one.Model) {
				req.Demands = append(req.Demands, one.wire())
			}
		}
	}
	return r.stream.Report(ctx, req)
}
