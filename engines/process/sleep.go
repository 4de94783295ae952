package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Errors of [Shard.Sleep], [Shard.Wake] and [Shard.Asleep].
var (
	// ErrSleepless: the engine was not launched so that it can sleep.
	ErrSleepless = errors.New("process: engine was not launched to sleep")
	// ErrTurn: the engine did not fall asleep, or did not wake. How it is is not
	// known: it may have done a part of it.
	ErrTurn = errors.New("process: engine did not do as it was asked")
)

// Sleeps reports whether the engine was launched so that it can sleep.
func (s *Shard) Sleeps() bool { return s.record.Launch.Sleep != nil }

// Asleep asks the engine whether it sleeps. The error is [ErrSleepless], or says
// why that is not known.
func (s *Shard) Asleep(ctx context.Context) (bool, error) {
	if !s.Sleeps() {
		return false, fmt.Errorf("%w: shard %s", ErrSleepless, s.id)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return s.asleep(ctx)
}

// Sleep has the engine give its cards' memory back, and returns when it says that
// it sleeps. One that sleeps is not asked again. Requests that it has are cut off.
// The error is [ErrSleepless], or wraps [ErrTurn] with what the engine said. The
// shard's state stays what it is: its processes run on.
func (s *Shard) Sleep(ctx context.Context) error {
	if !s.Sleeps() {
		return fmt.Errorf("%w: shard %s", ErrSleepless, s.id)
	}
	how := s.record.Launch.Sleep
	ctx, cancel := context.WithTimeoutCause(ctx, how.SleepTimeout, fmt.Errorf("it took more than %v", how.SleepTimeout))
	defer cancel()
	return s.turnTo(ctx, how.Sleep, true)
}

// Wake has the engine take its cards' memory again, and returns when it says that
// it is awake and ready. The rest is as with [Shard.Sleep].
func (s *Shard) Wake(ctx context.Context) error {
	if !s.Sleeps() {
		return fmt.Errorf("%w: shard %s", ErrSleepless, s.id)
	}
	how := s.record.Launch.Sleep
	ctx, cancel := context.WithTimeoutCause(ctx, how.WakeTimeout, fmt.Errorf("it took more than %v", how.WakeTimeout))
	defer cancel()
	if err := s.turnTo(ctx, how.Wake, false); err != nil {
		return err
	}
	probe := s.record.Launch.Ready.Probe
	if probe == nil {
		return nil
	}
	return s.again(ctx, func() (bool, string) {
		a := s.runner.ask(ctx, *probe, s.record.Address, s.secret)
		return a.ready, "its readiness: " + a.text
	})
}

// checkTimeout bounds one answer to the question whether an engine sleeps.
const checkTimeout = 5 * time.Second

// turnTo posts to path and waits until the engine is as it should be.
func (s *Shard) turnTo(ctx context.Context, path string, asleep bool) error {
	if is, err := s.Asleep(ctx); err == nil && is == asleep {
		return nil
	}
	status, body, err := s.request(ctx, http.MethodPost, path)
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: POST %s: %w", ErrTurn, path, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("%w: POST %s: %w", ErrTurn, path, err)
	case status != http.StatusOK:
		return fmt.Errorf("%w: POST %s: status %d: %s", ErrTurn, path, status, shown(body))
	}
	return s.again(ctx, func() (bool, string) {
		is, err := s.Asleep(ctx)
		if err != nil {
			return false, err.Error()
		}
		return is == asleep, fmt.Sprintf("it says that it is asleep: %t", is)
	})
}

// again asks until the answer is yes, or ctx is done.
func (s *Shard) again(ctx context.Context, ask func() (yes bool, said string)) error {
	said := "none"
	for {
		yes, now := ask()
		if yes {
			return nil
		}
		if ctx.Err() == nil { // else it is our own giving up
			said = now
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w; the last answer: %s", ErrTurn, context.Cause(ctx), said)
		case <-time.After(s.runner.cfg.ProbeEvery):
		}
	}
}

// asleep asks the engine once.
func (s *Shard) asleep(ctx context.Context) (bool, error) {
	how := s.record.Launch.Sleep
	status, body, err := s.request(ctx, http.MethodGet, how.Check)
	switch {
	case err != nil:
		return false, fmt.Errorf("process: shard %s: GET %s: %w", s.id, how.Check, err)
	case status != http.StatusOK:
		return false, fmt.Errorf("process: shard %s: GET %s: status %d: %s", s.id, how.Check, status, shown(body))
	case bytes.Contains(body, []byte(how.Asleep)):
		return true, nil
	case bytes.Contains(body, []byte(how.Awake)):
		return false, nil
	}
	return false, fmt.Errorf("process: shard %s: GET %s: neither %q nor %q in %s", s.id, how.Check, how.Asleep, how.Awake, shown(body))
}

// request makes one request of the engine's own server, on the first of its
// addresses that takes a connection.
func (s *Shard) request(ctx context.Context, method, path string) (status int, body []byte, err error) {
	how := s.record.Launch.Sleep
	for _, host := range hosts(s.record.Address) {
		var req *http.Request
		req, err = http.NewRequestWithContext(ctx, method, "http://"+net.JoinHostPort(host, strconv.Itoa(how.Port))+path, nil)
		if err != nil {
			return 0, nil, err
		}
		if how.Keyed && s.secret != "" {
			req.Header.Set("Authorization", "Bearer "+s.secret)
		}
		var resp *http.Response
		if resp, err = s.runner.client.Do(req); err != nil {
			if op, dials := errors.AsType[*net.OpError](err); dials && op.Op == "dial" {
				continue
			}
			return 0, nil, err
		}
		body, err = io.ReadAll(io.LimitReader(resp.Body, bodyBytes))
		return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
	}
	return 0, nil, err
}

// shown is an answer as it is told to people.
func shown(body []byte) string {
	const most = 200
	text := strings.TrimSpace(string(body[:min(len(body), most)]))
	if text == "" {
		return "an empty answer"
	}
	return strconv.Quote(text)
}

// sleeper makes of the question whether a process is ready one that an engine
// which sleeps need not answer: it is as ready as it was when it fell asleep.
func (s *Shard) sleeper(ask func(context.Context) answer) func(context.Context) answer {
	return func(ctx context.Context) answer {
		a := ask(ctx)
		if a.ready {
			return a
		}
		if asleep, err := s.Asleep(ctx); err == nil && asleep {
			return answer{ready: true, spoke: true, text: "it sleeps"}
		}
		return a
	}
}
