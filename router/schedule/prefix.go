package schedule

import "github.com/llmgw/llmgw/router/endpoint"

// PrefixIndex knows which endpoints hold the beginning of a prompt in their KV
// cache. Its methods may be called concurrently, though not for one request, and
// must neither block nor allocate. They keep no argument, and change none but what
// Request.Prompt points to, which is the index's own.
type PrefixIndex interface {
	// Holders writes into out the endpoints that hold some beginning of
	// req.Prompt for req.Model, at most len(out), and returns how many it wrote
	// and the length of the whole prompt in bytes. The longest beginnings come
	// first and, of equal ones, those that have it most surely: what does not
	// fit is taken to hold nothing. No endpoint is there twice. An endpoint that
	// the decision's pool does not have is ignored. Where req.Trial is set, it
	// counts and remembers nothing.
	Holders(req *Request, out []Holder) (n int, promptBytes int)
	// Picked tells that req goes to e, which is about to hold all of the prompt.
	// It is called once for each decision that ends with a place in flight,
	// whatever the scorers proposed, and never for another.
	Picked(req *Request, e *endpoint.Endpoint)
}

// Holder is an endpoint that holds the beginning of a prompt.
type Holder struct {
	// Endpoint is the instance.
	Endpoint *endpoint.Endpoint
	// Bytes is how much of the prompt it holds, 0 to the whole. An index that
	// counts tokens says what they are in bytes of this prompt.
	Bytes int
	// Exact: the engine has said so. Otherwise it was inferred from what the
	// endpoint was sent.
	Exact bool
	// Seen is how often a prompt with this beginning was sent there, 0 if nobody
	// counts.
	Seen int
	// Doubt is the share of such beliefs about this endpoint that proved wrong
	// lately, in [0,1]: 0 for an index that is sure, 1/2 for one that has not
	// heard of the endpoint's answers.
	Doubt float64
}

// PrefixMatch is how much of a prompt a candidate holds. The zero value is
// nothing.
type PrefixMatch struct {
	// Bytes of the prompt's PromptBytes are held: 0 to PromptBytes.
	Bytes, PromptBytes int
	// Exact, Seen and Doubt are those of [Holder].
	Exact bool
	Seen  int
	Doubt float64
}

// Ratio returns the share of the prompt that is held, in [0,1].
func (m PrefixMatch) Ratio() float64 {
	if m.Bytes <= 0 || m.PromptBytes <= 0 {
		return 0
	}
	return min(float64(m.Bytes)/float64(m.PromptBytes), 1)
}

// untrusted is the weight of recent failures from which an endpoint is not
// followed for what it holds: one failure, until it has lost half its weight.
// What fails may have been started again, and then its cache is empty.
const untrusted = 0.5

// homeFactor is how much more the home of a prompt's beginning is worth than
// another endpoint that holds as much: about as much as one request less on an
// endpoint that is nearly idle.
const homeFactor = 1.0625

// PrefixAffinity votes for the endpoints that hold the beginning of the prompt,
// by the share of the prefill that each would save; it votes for all alike if
// nobody does. A beginning so short that computing it again costs next to
// nothing counts little, however great its share: the vote is
//
//	held/prompt × held/(held+TargetBytes) × min(1, 2×(1-doubt))
//
// so that an engine that never has what it should, as one without a prefix cache,
// is soon treated like any other. Of those that hold the most and as much, the one
// that has seen it most often is a little ahead: a beginning then stays at its home
// and does not fill every cache.
//
// An endpoint is passed over while it is much busier than the least busy
// candidate, by MaxGap as well as by MaxRatio: on an idle pool every ratio is
// great, on a busy one every gap. So is one that has failed of late. Short of
// that the load scorers weigh against the vote as against any other.
type PrefixAffinity struct {
	// TargetBytes is the length for a second factor of 1/2; positive.
	TargetBytes float64
	// MaxGap is how many more requests per weight an endpoint may have than the
	// least busy candidate, whatever the ratio; at least 0.
	MaxGap float64
	// MaxRatio is how many times as many it may have, whatever the gap; at
	// least 1.
	MaxRatio float64
}

// Name returns "prefix".
func (PrefixAffinity) Name() string { return "prefix" }

// Score votes by what the candidates hold.
func (s PrefixAffinity) Score(_ *Request, cs []Candidate, out []float64) {
	var some bool
	if least, held := leastLoad(cs); held {
		var most PrefixMatch // of those that get a vote
		for i := range cs {
			out[i] = s.vote(&cs[i], least)
			some = some || out[i] > 0
			if m := cs[i].Prefix; out[i] > 0 && (m.Bytes > most.Bytes || m.Bytes == most.Bytes && m.Seen > most.Seen) {
				most = m
			}
		}
		for i := range cs {
			if m := cs[i].Prefix; most.Seen > 0 && m.Bytes == most.Bytes && m.Seen == most.Seen {
				out[i] = min(out[i]*homeFactor, 1)
			}
		}
	}
	if some {
		return
	}
	for i := range out {
		out[i] = neutral
	}
}

// leastLoad returns the fewest requests per weight that a candidate has, and
// whether some candidate holds anything; without, it does not look.
func leastLoad(cs []Candidate) (least float64, held bool) {
	for i := range cs {
		held = held || cs[i].Prefix.Bytes > 0
	}
	if !held {
		return 0, false
	}
	least = cs[0].load()
	for i := range cs {
		least = min(least, cs[i].load())
	}
	return least, true
}

func (s PrefixAffinity) vote(c *Candidate, least float64) float64 {
	if c.Prefix.Bytes <= 0 || c.Failures >= untrusted || s.Yields(c.load(), least) {
		return 0
	}
	held := float64(c.Prefix.Bytes)
	return c.Prefix.Ratio() * held / (held + s.TargetBytes) * min(1, 2*(1-c.Prefix.Doubt))
}

// Yields reports whether an endpoint with so many requests per weight is too
// busy to be followed for what it holds, the least busy candidate having least.
func (s PrefixAffinity) Yields(load, least float64) bool {
	return load-least > s.MaxGap && load > s.MaxRatio*least
}
