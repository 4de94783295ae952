package router

import (
	"context"
	"net/http"
	"time"

	"github.com/llmgw/llmgw/router/openai"
	"github.com/llmgw/llmgw/router/schedule"
)

// The hooks are where other parts of a gateway plug in. Each has one method; a nil hook in [Deps] is one that lets everything pass and keeps
// nothing. They may be called concurrently. A hook that panics drops the
// client's connection; what was taken before is given back all the same.

// Caller says who sent a request.
//
// It refuses one with an error that is, or wraps, an [*openai.Error], such as
// [openai.Unauthorized]: the client gets its status, code, message and
// Retry-After, in the shape of the API it called. Any other error is a failure
// of the hook: the client gets 503 overloaded and none of its text, and it is
// logged.
type Caller interface {
	// Identify looks at the request's headers and must not touch its body, of
	// which nothing has been read. With an error the Identity is not used.
	Identify(r *http.Request) (Identity, error)
}

// Identity is who sent a request, and what that one may do. The zero value is
// an unnamed caller who may use every model.
type Identity struct {
	// Tenant is whose turn it is within a band, and who pays. Empty: nobody in
	// particular.
	Tenant string
	// Band is the priority class. Empty: the admission's default.
	Band string
	// Priority is the band's: of those that wait the higher goes first. It is set
	// by the hook of admission, and HasPriority with it; engines whose endpoints
	// say that they order by priority are told.
	Priority    int64
	HasPriority bool
	// MayUse reports whether the canonical model may be used; nil allows all.
	// A model that may not be used is answered as one that does not exist.
	MayUse func(model string) bool
	// MayExplain: the caller may learn which endpoints there are, how busy they
	// are, and why one was chosen, by the header x-llmgw-explain. Default false.
	MayExplain bool
	// Ref is the Caller's own: what the other hooks may need to know of who this
	// is. The router does not look at it.
	Ref any
}

func (i *Identity) allows(model string) bool { return i.MayUse == nil || i.MayUse(model) }

// Charger checks a request against its caller's limits and charges it, in one
// step, on an estimate.
//
// It refuses one with an error that is, or wraps, an [*openai.Error], such as
// [openai.RateLimited]. Any other error is a failure of the hook: the client
// gets 503 overloaded and none of its text, and it is logged.
type Charger interface {
	// Charge is called once for each request that was understood and allowed.
	// The Charge it returns is settled exactly once, whatever becomes of the
	// request; with an error there is none.
	Charge(ctx context.Context, e Estimate) (Charge, error)
}

// Charge is what one request has been charged.
type Charge interface {
	// Settle replaces the estimate by what came of the request. Only the first
	// call counts.
	Settle(o *Outcome)
}

// Bounder is what a [Charge] may be besides: it covers answers of some length only.
type Bounder interface {
	// OutputBound returns how many tokens of each answer of the canonical model are
	// covered, for a request that says no bound of its own; 0: all that an engine
	// gives. The request is sent with it as its bound, on the paths whose member for
	// that is known. It must not block.
	OutputBound(model string) int64
}

// Headers is what a [Charge], and an error by which a hook refuses, may be
// besides: it has something to say in the headers of the answer.
type Headers interface {
	// AnswerHeader adds to the headers of the answer before they are sent, more
	// than once perhaps. It must not block.
	AnswerHeader(h http.Header)
}

// Work is what a request has an engine compute.
type Work uint8

// The kinds of work.
const (
	WorkUnset Work = iota
	// WorkNone: nothing that a model does, such as counting tokens, or looking up
	// what is stored.
	WorkNone
	// WorkRead: a model reads a prompt and writes nothing, as for embeddings.
	WorkRead
	// WorkAnswer: a model reads a prompt and writes an answer.
	WorkAnswer
)

// Estimate is what is known of a request before it runs.
type Estimate struct {
	Identity *Identity
	Model    string // canonical
	Work     Work
	// PromptBytes is the length of the prompt, and BodyBytes that of all that was
	// sent: a token takes at least a byte of it. Where a model reads pairs of texts,
	// what is read anew for each pair counts as often: in PromptBytes the texts, in
	// BodyBytes all that was sent but for the lists that the pairs are taken from.
	PromptBytes int
	BodyBytes   int64
	// Pairs is how many pairs of texts the model reads, as a query with each of the
	// documents to be ranked; 0 if it reads none.
	Pairs int64
	// Refers: the prompt begins with what an engine keeps of an earlier answer, and
	// so has more than what was sent.
	Refers bool
	// Several: there may be any number of prompts, each with a context of its own, as
	// of embeddings, so that a context bounds none of all together.
	Several bool
	// MaxTokens is the longest that the request says of one answer, in whichever of
	// the members that bound one; 0 if in none. Bounded: no engine goes beyond it.
	// Else the engine's own bound counts, or that which it reads there.
	MaxTokens int64
	Bounded   bool
	// Answers is how many answers are asked for, at least 1.
	Answers int64
	// Anthropic: the client speaks that API, and not OpenAI's.
	Anthropic bool
}

// Waker has requests wait for models that nothing serves at the moment.
//
// It refuses one with an error that is, or wraps, an [*openai.Error], such as
// [openai.ModelLoading]; the client gets that, unless a fallback answers. Any other
// error is a failure of the hook: the client gets 503 overloaded and none of its text,
// and it is logged, unless the client had left, as ctx then says.
type Waker interface {
	// Wake is called before Admit, for each model that a request is to be tried on. It
	// returns at once where the model has endpoints, or where there is nothing to wait
	// for; the request then goes on. Else it blocks no longer than ctx lasts, nor
	// beyond w.Deadline. A request that waits holds no lease.
	Wake(ctx context.Context, w *Wake) error
}

// Wake is a request that wants a model.
type Wake struct {
	Model string // canonical: that asked for, or a fallback's
	// Arrived is when the request came, Deadline when it has to have ended.
	Arrived, Deadline time.Time
	// Explain: the caller may know how endpoints are chosen, and what else there is.
	Explain bool
	// Waited is for how long it has waited for models. The hook adds to it.
	Waited time.Duration
}

// StateTeller is what a [Waker] may be besides: it knows how models stand.
type StateTeller interface {
	// ModelState returns how a canonical model stands in a word for clients, such as
	// asleep; empty: that is not known, and they are told nothing. It must not block.
	ModelState(model string) string
}

// Admitter decides whether a request may run now.
//
// It refuses one with an error that is, or wraps, an [*openai.Error], such as
// [openai.Overloaded] or [openai.RateLimited]. Any other error is a failure of
// the hook: the client gets 503 overloaded and none of its text, and it is
// logged, unless the client had left, as ctx then says.
type Admitter interface {
	// Admit returns once the request may run, or refuses it. It blocks no longer
	// than ctx lasts. The Lease it returns is released exactly once; with an
	// error there is none. Further endpoints of the same model are tried under
	// the same lease. Before a fallback is, the lease is released and Admit is
	// called for its model, so a request never waits while it holds one.
	Admit(ctx context.Context, a Admission) (Lease, error)
}

// Lease is a request's permission to run.
type Lease interface {
	// Release gives the permission back. Only the first call counts.
	Release()
}

// TimedLease is what a [Lease] may be besides, to spare looks at the clock, which cost
// as much as all else of an admission.
type TimedLease interface {
	// AdmittedAt returns when the request was admitted if that was at once, so that it
	// is still about now; else false. It is not called after a release.
	AdmittedAt() (time.Time, bool)
	// ReleaseAt is called in place of Release, and told the time.
	ReleaseAt(now time.Time)
}

// Admission is what a request is admitted by.
type Admission struct {
	// Identity is who sent it. Where its Band is empty the hook may set it, so
	// that scorers and the outcome show the band that the request was admitted
	// in, and it may set the Priority. The rest is not the hook's to change.
	Identity *Identity
	// AskedBand is what the header Config.BandHeader says, as the client sent
	// it; empty if there is none. Whether it counts is the hook's to say.
	AskedBand string
	// RemoteAddr is the address that the request came from, as net/http has it:
	// mostly host:port, in tests anything.
	RemoteAddr  string
	Model       string // canonical: that asked for, or a fallback's
	Session     string // the affinity key, or empty
	PromptBytes int
	MaxTokens   int64 // 0 if the request names none
	// Background: the engine answers at once and works after that. The lease is
	// released with the answer; how long the work counts is the hook's to say.
	Background bool
}

// Recorder is told of every request once it has ended.
type Recorder interface {
	// Record must not block. The Outcome and all it points to are valid until
	// it returns.
	Record(o *Outcome)
}

// DecisionRecorder is what a [Recorder] may be besides: it is then told of each
// decision, those that a retry or a fallback follows included.
type DecisionRecorder interface {
	// RecordDecision is called when a decision has been made, before anything is
	// sent, and must not block. The Outcome and all it points to are valid until
	// it returns; it has what is known by then, and Decision. Its Attempts are
	// those before this one. pinned: there was only one endpoint that the request
	// could go to.
	RecordDecision(o *Outcome, pinned bool)
}

// Models is the router's view of the catalog.
type Models interface {
	// Catalog returns the models as they are now. A request calls it once and
	// finishes on what it got, which never changes. It must not block.
	Catalog() Catalog
}

// Catalog is an immutable set of models. Its methods must not block.
type Catalog interface {
	// Resolve returns the model that name is the name or an alias of.
	Resolve(name string) (Model, bool)
	// List returns the models that a client may be shown, by name. The caller
	// must not change it.
	List() []Model
}

// Model is what a router needs to know of a model.
type Model struct {
	// Name is the canonical name: what endpoints are chosen by, metrics are
	// labelled with and permissions speak of.
	Name string
	// Fallbacks are canonical names of models that stand in for this one, in
	// order. Theirs are not followed.
	Fallbacks []string
	// Profile is the routing profile; empty is Config.DefaultProfile.
	Profile string
}

// Result is how a request ended. Its String is a metric label.
type Result uint8

// The results.
const (
	ResultUnset Result = iota
	// ResultOK: a whole answer of an engine with a status below 400.
	ResultOK
	// ResultEngineRefused: a whole answer of an engine with a status of 400 or
	// above, passed on.
	ResultEngineRefused
	// ResultRefused: refused by the router or a hook before an engine was asked.
	ResultRefused
	// ResultNoEndpoint: there was no endpoint to send it to, 503.
	ResultNoEndpoint
	// ResultFailed: every endpoint tried failed before a byte of an answer, 502
	// or 504.
	ResultFailed
	// ResultCut: the answer began and did not end, or ended in an error event of
	// the engine's.
	ResultCut
	// ResultCanceled: the client left, or stopped reading.
	ResultCanceled
	// ResultFault: a hook or the router itself panicked; the connection was
	// dropped.
	ResultFault
)

var resultNames = [...]string{"unset", "ok", "engine_refused", "refused", "no_endpoint", "failed", "cut", "canceled", "fault"} //nolint:gochecknoglobals // constant table

// String returns the result as metrics show it.
func (r Result) String() string {
	if int(r) < len(resultNames) {
		return resultNames[r]
	}
	return "unknown"
}

// Outcome is what became of one request.
type Outcome struct {
	ID       string
	ClientID bool // ID is the client's own word, and may be that of other requests
	Identity *Identity
	Charge   Charge // settled, once it is recorded; nil if the request was not charged
	Work     Work
	Path     string // of the route, such as /v1/chat/completions
	Model    string // canonical, as asked for; empty if it was not understood
	Served   string // canonical model that answered; differs after a fallback
	Endpoint string // that answered last; empty if none did
	Session  string // the affinity key, or empty

	Status int // sent to the client; 0 if nothing was
	Code   string
	Result Result
	Stream bool

	Start        time.Time
	FirstContent time.Time // zero if no content came
	End          time.Time

	Attempts    int // endpoints the request was sent to
	PromptBytes int
	BytesOut    int64
	// TextBytes is BytesOut of an answer that is JSON or events; 0 for others, such
	// as sound. Events is how many events a stream had so far, whatever they said.
	TextBytes int64
	Events    int64
	// Usage is the engine's last word, and with a Result of ResultCut or
	// ResultCanceled perhaps not its final one.
	Usage    openai.Usage
	HasUsage bool

	// Decision is the record of the last decision; nil if none was made.
	Decision *schedule.Decision
	// Prompt is what Deps.Prompts made of the prompt; nil if it was not asked.
	Prompt Prompt
}
