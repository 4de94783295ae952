package workload

// Prompter makes prompt texts for the requests of a trace, its clones
// included. It is immutable and may be used concurrently.
type Prompter struct {
	blockTokens int
}

// NewPrompter returns a Prompter for the requests of t. It keeps nothing of t.
func NewPrompter(t *Trace) *Prompter { return &Prompter{blockTokens: t.BlockTokens} }

// Append appends the prompt of r, a request of the trace or of one made from
// it, to dst, and returns the longer slice: r.Text if it has one, else exactly
// r.PromptTokens tokens in the count of [sim.CountTokens], as words of ASCII
// letters joined by single spaces, which JSON need not escape. It allocates
// only to grow dst, by [Prompter.MaxBytes] at most.
//
// A chat template adds tokens of its own.
func (p *Prompter) Append(dst []byte, r *Request) []byte { return append(dst, r.Text...) }

// MaxBytes bounds what Append adds for r.
func (p *Prompter) MaxBytes(r *Request) int { return max(len(r.Text), 7*r.PromptTokens) }
