package account

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// signInOutcome is what became of an attempt to sign in. Its String is a metric label.
type signInOutcome uint8

const (
	signInOpened    signInOutcome = iota
	signInRefused                 // ErrRefused
	signInInvalid                 // ErrRefused, too: nobody can have that address or that password
	signInThrottled               // ErrThrottled
	signInPending                 // ErrPending
	signInSuspended               // ErrSuspended
	signInBusy                    // ErrBusy
	signInFailed                  // the store, or who asked has left
	signInOutcomes
)

var signInNames = [signInOutcomes]string{"opened", "refused", "invalid", "throttled", "pending", "suspended", "busy", "failed"} //nolint:gochecknoglobals // constant table

func (o signInOutcome) String() string { return signInNames[o] }

// signUpOutcome is what became of a sign-up, likewise.
type signUpOutcome uint8

const (
	signUpNew     signUpOutcome = iota
	signUpTaken                 // nil, too
	signUpInvalid               // ErrInvalid
	signUpClosed                // ErrClosed
	signUpFull                  // ErrFull
	signUpBusy                  // ErrBusy
	signUpFailed                // the store, or who asked has left
	signUpOutcomes
)

var signUpNames = [signUpOutcomes]string{"new", "taken", "invalid", "closed", "full", "busy", "failed"} //nolint:gochecknoglobals // constant table

func (o signUpOutcome) String() string { return signUpNames[o] }

// metrics are counts that are read when they are collected.
type metrics struct {
	signIns             [signInOutcomes]atomic.Uint64
	signUps             [signUpOutcomes]atomic.Uint64
	opened, keys, links atomic.Uint64
}

type collector struct {
	service *Service

	signIns, signUps, opened, keys, links, hashes *prometheus.Desc
}

func newCollector(s *Service) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("llmgw_account_"+name, help, labels, nil)
	}
	return &collector{
		service: s,
		signIns: desc("sign_ins_total", "Attempts to sign in by what became of them (opened, refused, invalid, throttled, pending, suspended, busy, failed).", "outcome"),
		signUps: desc("sign_ups_total", "Sign-ups by what became of them (new, taken, invalid, closed, full, busy, failed).", "outcome"),
		opened:  desc("sessions_opened_total", "Sessions that were opened."),
		keys:    desc("keys_created_total", "Keys that people made for their accounts."),
		links:   desc("links_opened_total", "One-time links that were opened."),
		hashes:  desc("hashes", "Passwords that are being hashed or wait for it, by state (running, waiting).", "state"),
	}
}

// Describe sends what there is.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.signIns, c.signUps, c.opened, c.keys, c.links, c.hashes} {
		out <- d
	}
}

// Collect sends the counts.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v *atomic.Uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v.Load()), labels...)
	}
	m := &c.service.metrics
	for o := range signInOutcomes {
		counter(c.signIns, &m.signIns[o], o.String())
	}
	for o := range signUpOutcomes {
		counter(c.signUps, &m.signUps[o], o.String())
	}
	counter(c.opened, &m.opened)
	counter(c.keys, &m.keys)
	counter(c.links, &m.links)
	h := c.service.hasher
	out <- prometheus.MustNewConstMetric(c.hashes, prometheus.GaugeValue, float64(h.Running()), "running")
	out <- prometheus.MustNewConstMetric(c.hashes, prometheus.GaugeValue, float64(h.Waiting()), "waiting")
}

// notice is a kind of line in the log of which anybody can cause any number.
type notice uint8

const (
	noticeTaken notice = iota
	noticeFull
	noticeInvalid
	noticeThrottled
	noticeBusy
	noticeFailed
	noticeKinds
)

// noticeEvery is how often one of a kind is logged at most.
const noticeEvery = 10 * time.Second

// notices bounds what is logged, whatever comes.
type notices struct {
	next [noticeKinds]atomic.Int64  // when one may be logged again, in Unix nanoseconds
	left [noticeKinds]atomic.Uint64 // how many were not since the last
}

// note logs a line at warn, now and then.
func (s *Service) note(ctx context.Context, kind notice, message string, args ...any) {
	now := s.deps.Now().UnixNano()
	next := s.notices.next[kind].Load()
	// A clock that was set back does not silence the log for long.
	if next != 0 && now < next && next-now <= int64(noticeEvery) || !s.notices.next[kind].CompareAndSwap(next, now+int64(noticeEvery)) {
		s.notices.left[kind].Add(1)
		return
	}
	args = append(args, "since_last", s.notices.left[kind].Swap(0))
	s.deps.Logger.Log(ctx, slog.LevelWarn, message, args...) //nolint:sloglint // the callers' messages are constant
}
