package flight

import (
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/router/schedule"
)

// PolicyResult is what a policy picks of the candidates of recorded decisions. It
// is an answer to each decision by itself: loads and caches are those that the
// recorded picks led to, not the policy's own.
type PolicyResult struct {
	Policy    string `json:"policy"`
	Decisions int    `json:"decisions"`
	// Changed are those where another endpoint was picked in the recording.
	Changed      int      `json:"changed"`
	ChangedShare *float64 `json:"changed_share"`
	// HitShare is the part of the prompts' bytes that the picked endpoints were
	// believed to hold; nil if no prompt was looked up.
	HitShare *float64 `json:"predicted_hit_share"`
	// ExtraLoad is how many more requests per unit of weight than the least busy
	// candidate the picked one had, in the mean.
	ExtraLoad *float64 `json:"extra_load"`
	// Spread is the share of the endpoints' picks that the busiest one got, beside
	// its share by weight: 1 is even. Used is how many endpoints were picked.
	Spread *float64 `json:"spread"`
	Used   int      `json:"endpoints_used"`
	// Failed are decisions that the policy could not make.
	Failed int `json:"failed,omitempty"`

	held, prompts int64
	extra         float64
	picks         map[uint64]int
	weights       map[uint64]float64
}

func newPolicyResult(name string) *PolicyResult {
	return &PolicyResult{Policy: name, picks: make(map[uint64]int), weights: make(map[uint64]float64)}
}

// add counts one decision.
func (r *PolicyResult) add(d *schedule.Decision, recorded, picked int) {
	c := &d.Candidates[picked]
	r.Decisions++
	if picked != recorded {
		r.Changed++
	}
	least, prompt := c.Requests()/c.Weight, 0
	for i := range d.Candidates {
		other := &d.Candidates[i]
		least = min(least, other.Requests()/other.Weight)
		prompt = max(prompt, other.Prefix.PromptBytes)
		r.weights[other.Hash] = other.Weight
	}
	r.extra += c.Requests()/c.Weight - least
	r.picks[c.Hash]++
	if d.Prompt {
		if prompt == 0 {
			prompt = d.PromptBytes // nobody holds any of it
		}
		r.held += int64(c.Prefix.Bytes)
		r.prompts += int64(prompt)
	}
}

// finish works out the shares.
func (r *PolicyResult) finish() {
	r.Used = len(r.picks)
	if r.Decisions == 0 {
		return
	}
	n := float64(r.Decisions)
	r.ChangedShare, r.ExtraLoad = new(float64(r.Changed)/n), new(r.extra/n)
	if r.prompts > 0 {
		r.HitShare = new(float64(r.held) / float64(r.prompts))
	}
	var weight, most float64
	for hash, w := range r.weights {
		weight += w
		most = max(most, float64(r.picks[hash])/w)
	}
	r.Spread = new(most * weight / n)
}

// compiledPolicy is a policy made from one recorded configuration.
type compiledPolicy struct {
	scheduler *schedule.Scheduler
	profile   string
}

func (p *Policy) compile(cfg schedule.Config) (*compiledPolicy, error) {
	profile := p.Profile(cfg)
	s, err := schedule.New(cfg, schedule.Deps{Profiles: []schedule.Profile{profile}})
	if err != nil {
		return nil, fmt.Errorf("flight: policy %s: %w", p.Name, err)
	}
	return &compiledPolicy{s, profile.Name}, nil
}

// policies asks each policy about a decision.
func (p *replayer) policies(r *run, t *Route, picked int) error {
	d := &p.record
	if picked < 0 {
		return nil // there was nothing to pick from
	}
	p.report.Policies[0].add(d, picked, picked)
	for i, policy := range r.policies {
		if err := t.decode(d); err != nil {
			return err
		}
		result := p.report.Policies[i+1]
		again, err := policy.scheduler.Replay(policy.profile, d)
		switch {
		case errors.Is(err, schedule.ErrBadScore):
			result.Failed++
		case err != nil:
			return err
		default:
			result.add(d, picked, again)
		}
	}
	return nil
}
