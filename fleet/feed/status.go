package feed

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
)

// ModelState is how a model of the catalog stands.
type ModelState uint8

// The states.
const (
	ModelUnset ModelState = iota // not known, or one that this version does not know
	// ModelOff: it does not run, and no request makes it.
	ModelOff
	// ModelAsleep: it does not run until it is asked for.
	ModelAsleep
	// ModelLoading: a replica of it is being started, or will be.
	ModelLoading
	// ModelServing: a replica of it serves.
	ModelServing
	// ModelFailing: its last start failed, and the next one waits.
	ModelFailing
	// ModelUnplaced: it is wanted, and there is no room for it.
	ModelUnplaced

	modelStates = int(ModelUnplaced) + 1
)

// String returns the state in lower case.
func (s ModelState) String() string {
	if int(s) >= modelStates {
		return "unset"
	}
	return [modelStates]string{"unset", "off", "asleep", "loading", "serving", "failing", "unplaced"}[s]
}

// ModelStatus is how a model of the catalog stands, as a control plane sees it.
type ModelStatus struct {
	// Model is the canonical name.
	Model string
	State ModelState
	// Ready is in how long it should serve, as of At. Not known: nobody can tell.
	Ready engines.Opt[time.Duration]
	// Progress is how far its engine has come with loading, for people.
	Progress string
	// Reason is why it fails, or finds no place, for people.
	Reason string
	// Retry is in how long the next start is tried, as of At. Not known: it is not
	// told.
	Retry engines.Opt[time.Duration]
	// At is when this was heard of. The publisher sets its own; what a router has, the
	// follower sets.
	At time.Time
}

// ReadyIn is Ready at a moment after At: not below 0.
func (s *ModelStatus) ReadyIn(now time.Time) engines.Opt[time.Duration] { return s.left(s.Ready, now) }

// RetryIn is Retry at a moment after At: not below 0.
func (s *ModelStatus) RetryIn(now time.Time) engines.Opt[time.Duration] { return s.left(s.Retry, now) }

func (s *ModelStatus) left(d engines.Opt[time.Duration], now time.Time) engines.Opt[time.Duration] {
	was, known := d.Get()
	if !known {
		return d
	}
	return engines.Known(max(was-max(now.Sub(s.At), 0), 0))
}

const (
	// progressEvery is how often progress alone, or a new estimate alone, is worth a
	// version.
	progressEvery = 2 * time.Second
	// estimateSlack is by how much an estimate has to be another one than what time
	// has made of the one before, besides a fifth of it.
	estimateSlack = 2 * time.Second
)

// SetStatuses says how models stand, in place of all that was said before; of those
// that are left out nothing is known. It may be called as often as one likes: the
// passing of time is no news, and progress alone is published every 2 s at most.
// What is at fault is left out, and the error names it; texts are cut to what a feed
// takes. Nothing of the slice is kept.
func (p *Publisher) SetStatuses(statuses []ModelStatus) error {
	now := time.Now()
	var errs []error
	good := make(map[string]ModelStatus, len(statuses))
	for _, s := range statuses {
		_, twice := good[s.Model]
		switch {
		case !validModel(s.Model):
			errs = append(errs, fmt.Errorf("feed: status of model %.80q: the name is empty or too long; want 1 to %d bytes of UTF-8", s.Model, catalog.MaxNameBytes))
		case s.State == ModelUnset || int(s.State) >= modelStates:
			errs = append(errs, fmt.Errorf("feed: status of model %.80q: it has no state", s.Model))
		case twice:
			errs = append(errs, fmt.Errorf("feed: status of model %.80q: it has two", s.Model))
		default:
			s.Progress, s.Reason, s.At = shown(s.Progress), shown(s.Reason), now
			good[s.Model] = s
		}
	}
	p.mu.Lock()
	p.statuses = good
	p.mu.Unlock()
	p.ring()
	return errors.Join(errs...)
}

// shown makes a text fit for a feed: short, valid, on one line.
func shown(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return -1
		case unicode.IsPrint(r):
			return r
		}
		return ' '
	}, text)
	text = strings.TrimSpace(text)
	for len(text) > MaxTextBytes {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// diffStatuses finds what has changed of statuses. One whose model is not in the
// catalog is not wanted.
func (p *Publisher) diffStatuses(d *apipb.FeedDelta) {
	now := time.Now()
	p.statusDue = false
	for model, s := range p.statuses {
		if _, known := p.table.models[model]; !known {
			continue
		}
		was, told := p.table.statuses[model]
		switch news := s.news(&was); {
		case told && news == noNews:
			continue
		case told && news == smallNews && now.Sub(was.At) < progressEvery:
			p.statusDue = true
			continue
		}
		p.table.statuses[model] = s
		d.Statuses = append(d.Statuses, s.wire(now))
	}
	for model := range p.table.statuses {
		_, known := p.table.models[model]
		if _, stays := p.statuses[model]; !stays || !known {
			delete(p.table.statuses, model)
			d.RemovedStatuses = append(d.RemovedStatuses, model)
		}
	}
}

type news uint8

const (
	noNews news = iota
	smallNews
	bigNews
)

// news is how much of s routers do not know that were told was.
func (s *ModelStatus) news(was *ModelStatus) news {
	switch {
	case s.State != was.State || s.Reason != was.Reason:
		return bigNews
	case s.Progress != was.Progress || differ(s.Ready, was.ReadyIn(s.At)) || differ(s.Retry, was.RetryIn(s.At)):
		return smallNews
	}
	return noNews
}

// differ reports whether an estimate is another one than what was believed.
func differ(is, believed engines.Opt[time.Duration]) bool {
	a, knownA := is.Get()
	b, knownB := believed.Get()
	if !knownA || !knownB {
		return knownA != knownB
	}
	return (a - b).Abs() > max(estimateSlack, b/5)
}

func statusKey(s *ModelStatus) string { return s.Model }

// wire is s as it is to be read now.
func (s *ModelStatus) wire(now time.Time) *apipb.FeedModelStatus {
	w := &apipb.FeedModelStatus{Model: s.Model, State: apipb.FeedModelState(s.State), Progress: s.Progress, Reason: s.Reason}
	if d, known := s.ReadyIn(now).Get(); known {
		w.Ready = durationpb.New(d)
	}
	if d, known := s.RetryIn(now).Get(); known {
		w.Retry = durationpb.New(d)
	}
	return w
}

func statusFromWire(w *apipb.FeedModelStatus, now time.Time) ModelStatus {
	return ModelStatus{
		Model: w.GetModel(), State: enum[ModelState](w.GetState(), apipb.FeedModelState_FEED_MODEL_STATE_UNPLACED),
		Ready: age(w.GetReady()), Progress: shown(w.GetProgress()), Reason: shown(w.GetReason()), Retry: age(w.GetRetry()), At: now,
	}
}

// Status returns how a model stands; false if no control plane has said.
func (s *State) Status(model string) (ModelStatus, bool) {
	i, found := slices.BinarySearchFunc(s.Statuses, model, func(s ModelStatus, model string) int { return cmp.Compare(s.Model, model) })
	if !found {
		return ModelStatus{}, false
	}
	return s.Statuses[i], true
}
