package gateway

import (
	"fmt"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/feed"
	"github.com/llmgw/llmgw/router/internal/secret"
	"github.com/llmgw/llmgw/router/openai"
)

// The codes of what a request is told that no endpoint serves, besides
// openai.CodeModelLoading and openai.CodeNoEndpoint.
const (
	codeModelFailing  = "model_failing"
	codeModelUnplaced = "model_unplaced"
)

// standing is how a model stands, as far as its requests go. It never changes.
type standing struct {
	declared bool // the catalog says how it is run
	runs     bool // and lets it
	onDemand bool // but starts none before somebody asks
	told     bool // a control plane has said how it stands
	status   feed.ModelStatus
}

// managed reports whether a control plane has to do with the model.
func (s *standing) managed() bool { return s.declared || s.told }

// wakeable reports whether a request could bring the model up, or has.
func (s *standing) wakeable() bool {
	switch s.status.State {
	case feed.ModelAsleep, feed.ModelLoading, feed.ModelServing:
		return s.onDemand && s.told
	case feed.ModelUnset, feed.ModelOff, feed.ModelFailing, feed.ModelUnplaced:
	}
	return false
}

// judge says whether a request may wait for the model, or else why not; nil: nobody
// but the configuration has to do with it, and it is as if nobody were asked.
//
// A control plane that has not said how it stands, or not since it came to lead, may
// be about to start it. One that has said that it is off may not know yet what the
// catalog says here, which it wrote.
func (s *standing) judge(now time.Time) (why *refused, waits bool) {
	if !s.managed() {
		return nil, false
	}
	switch s.status.State {
	case feed.ModelFailing:
		// When the next start is due it is as good as loading.
		if left, known := s.status.RetryIn(now).Get(); !known || left > 0 {
			return s.refuse(wakeFailing, now), false
		}
		return nil, true
	case feed.ModelAsleep, feed.ModelLoading, feed.ModelServing, feed.ModelUnplaced:
		return nil, true
	case feed.ModelUnset, feed.ModelOff:
	}
	if s.runs {
		return nil, true
	}
	return s.refuse(wakeOff, now), false
}

// wakeOutcome is what became of a request for a model that nothing served.
type wakeOutcome uint8

// The outcomes, as metrics name them.
const (
	wakeReady    wakeOutcome = iota // there was an endpoint in time
	wakeExpired                     // there was none
	wakeUnplaced                    // there was none, since there was no room for one
	wakeFull                        // as many waited as may
	wakeFailing                     // the model does not start
	wakeOff                         // nobody starts it
	wakeCanceled                    // the client left

	wakeOutcomes = int(wakeCanceled) + 1
)

// String returns the value of the label.
func (o wakeOutcome) String() string {
	return [wakeOutcomes]string{"ready", "expired", "unplaced", "full", "failing", "off", "canceled"}[o]
}

// refused is why a request does not go on, and what there is to say of it.
type refused struct {
	outcome          wakeOutcome
	ready            engines.Opt[time.Duration] // in how long the model should serve, or its next start is tried
	progress, reason string
}

// refuse is o with what is known of the model.
func (s *standing) refuse(o wakeOutcome, now time.Time) *refused {
	r := &refused{outcome: o, ready: s.status.ReadyIn(now), progress: s.status.Progress, reason: s.status.Reason}
	switch {
	case o == wakeFailing:
		r.ready = s.status.RetryIn(now)
	case o == wakeExpired && s.status.State == feed.ModelUnplaced:
		r.outcome = wakeUnplaced
	}
	return r
}

// overdueRetry is when a client may come again for a model that should serve already.
const overdueRetry = 2 * time.Second

// answer is what the client is told. It may come again when the model should be
// there, though no later than its SDK would by itself. What takes the room of a model,
// and so which others there are and where, is told to who may know.
func (r *refused) answer(model string, explain bool) *openai.Error {
	again := r.ready.Or(openai.MaxLoadingRetry)
	if r.ready.Is(0) {
		again = overdueRetry
	}
	e := openai.ModelLoading(model, again)
	name := "'" + model + "'"
	switch r.outcome {
	case wakeOff:
		e = openai.NoEndpoint(model, 0)
		e.RetryAfter, e.NoRetry = 0, true
		e.Message = fmt.Sprintf("No engine serves the model %s, and none is started for it. Use another model, or ask the operator to run it.", name)
	case wakeFailing:
		e.Code = codeModelFailing
		e.Message = fmt.Sprintf("The model %s does not start%s. %sSend the request again later, or use another model.",
			name, around(": ", r.reason, ""), about("The next start is tried in about %s. ", r.ready))
	case wakeUnplaced:
		e.Code = codeModelUnplaced
		if !explain {
			r = &refused{}
		}
		e.Message = fmt.Sprintf("There is no room for the model %s at the moment%s. Send the request again later, or use another model.",
			name, around(": ", r.reason, ""))
	case wakeFull:
		e.Message = fmt.Sprintf("The model %s is loading%s%s, and as many requests wait for it as may. Wait for the time in Retry-After and send it again.",
			name, around(" (", r.said(), ")"), about(" and should serve in about %s", r.ready))
	case wakeReady, wakeExpired, wakeCanceled:
		e.Message = fmt.Sprintf("The model %s is loading%s%s. Wait for the time in Retry-After and send the request again.",
			name, around(" (", r.said(), ")"), about(" and should serve in about %s", r.ready))
	}
	return e
}

// said is how far the model has come, where that is more than that it loads.
func (r *refused) said() string {
	if r.progress == "loading" {
		return ""
	}
	return r.progress
}

// around is a text of an engine's or a control plane's with what stands around it; "" if
// there is none.
func around(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + secret.Without(text) + after
}

// about is a sentence with a duration, "" if that is not known, or over.
func about(format string, d engines.Opt[time.Duration]) string {
	v := d.Or(0)
	if v <= 0 {
		return ""
	}
	return fmt.Sprintf(format, max(v.Round(time.Second), time.Second))
}

// ModelState implements [router.StateTeller].
func (k *wakes) ModelState(model string) string {
	m := (*k.at.Load())[model]
	if m == nil || !k.following.Load() {
		return ""
	}
	s := m.state.Load()
	switch {
	case k.served(m):
		return feed.ModelServing.String()
	case !s.managed():
		return ""
	case s.told && s.status.State == feed.ModelServing: // and its endpoint has not come yet
		return feed.ModelLoading.String()
	case s.told && s.status.State != feed.ModelUnset:
		return s.status.State.String()
	case s.runs:
		return "" // nobody has said
	}
	return feed.ModelOff.String()
}
