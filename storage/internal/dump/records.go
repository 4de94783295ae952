package dump

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/llmgw/llmgw/storage"
	"github.com/llmgw/llmgw/storage/internal/rows"
)

// Times are microseconds since 1970, absent for zero.

// Mark is up to when something was forgotten.
type Mark struct {
	Name string `json:"name"`
	At   int64  `json:"at"`
}

// Key is a key's record.
type Key struct {
	ID        string            `json:"id"`
	Hash      string            `json:"hash"`
	Hint      string            `json:"hint,omitempty"`
	Name      string            `json:"name,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Models    []string          `json:"models,omitempty"`
	Band      string            `json:"band,omitempty"`
	Limits    storage.Limits    `json:"limits,omitzero"`
	Budget    *storage.Budget   `json:"budget,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	CreatedAt int64             `json:"created_at"`
	ExpiresAt *int64            `json:"expires_at,omitempty"`
	RevokedAt *int64            `json:"revoked_at,omitempty"`
	Replaces  string            `json:"replaces,omitempty"`
	Lineage   string            `json:"lineage,omitempty"` // empty: its own ID
	Account   string            `json:"account,omitempty"`
	Explain   bool              `json:"may_explain,omitempty"`
	Revision  int64             `json:"revision"`
}

// FromKey is k as a line.
func FromKey(k storage.Key) Record {
	out := &Key{
		ID: k.ID, Hash: hex.EncodeToString(k.Hash[:]), Hint: k.Hint, Name: k.Name, Owner: k.Owner, Models: k.Models, Band: k.Band,
		Limits: k.Limits, Budget: k.Budget, Tags: k.Tags, CreatedAt: k.CreatedAt.UnixMicro(), ExpiresAt: micros(k.ExpiresAt),
		RevokedAt: micros(k.RevokedAt), Replaces: k.Replaces, Explain: k.MayExplain, Revision: k.Revision, Account: k.Account,
	}
	if k.Lineage != k.ID {
		out.Lineage = k.Lineage
	}
	return Record{Key: out}
}

// Storage is the key, or ErrInvalid.
func (k *Key) Storage() (storage.Key, error) {
	out := storage.Key{
		ID: k.ID, Hint: k.Hint, Name: k.Name, Owner: k.Owner, Models: k.Models, Band: k.Band, Limits: k.Limits, Budget: k.Budget,
		Tags: k.Tags, CreatedAt: rows.FromMicros(k.CreatedAt), ExpiresAt: fromMicros(k.ExpiresAt), RevokedAt: fromMicros(k.RevokedAt),
		Replaces: k.Replaces, Lineage: cmp.Or(k.Lineage, k.ID), Account: k.Account, MayExplain: k.Explain, Revision: k.Revision,
	}
	if err := unhex(out.Hash[:], k.Hash); err != nil {
		return out, invalid(fmt.Sprintf("key %q: %v", k.ID, err))
	}
	if k.Revision < 1 {
		return out, invalid(fmt.Sprintf("key %q: revision %d", k.ID, k.Revision))
	}
	return out, out.Validate()
}

// Audit is an audit row.
type Audit struct {
	ID        string          `json:"id"`
	At        int64           `json:"at"`
	Actor     string          `json:"actor,omitempty"`
	Action    string          `json:"action"`
	Target    string          `json:"target,omitempty"`
	Before    json.RawMessage `json:"before,omitempty"`
	After     json.RawMessage `json:"after,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
}

// FromAudit is a as a line.
func FromAudit(a storage.Audit) Record {
	return Record{Audit: &Audit{a.ID, a.At.UnixMicro(), a.Actor, a.Action, a.Target, a.Before, a.After, a.RequestID}}
}

// Storage is the row, or ErrInvalid.
func (a *Audit) Storage() (storage.Audit, error) {
	out := storage.Audit{
		ID: a.ID, At: rows.FromMicros(a.At), Actor: a.Actor, Action: a.Action, Target: a.Target,
		Before: a.Before, After: a.After, RequestID: a.RequestID,
	}
	return out, out.Validate()
}

// Period is a budget's period. Start is absent for a total.
type Period struct {
	KeyID  string         `json:"key"`
	Period storage.Period `json:"period"`
	Start  *int64         `json:"start,omitempty"`
}

func fromPeriod(b storage.BudgetPeriod) Period { return Period{b.KeyID, b.Period, micros(b.Start)} }

func (p Period) storage() storage.BudgetPeriod {
	return storage.BudgetPeriod{KeyID: p.KeyID, Period: p.Period, Start: fromMicros(p.Start)}
}

// Budget is where a budget stands.
type Budget struct {
	Period
	// Settled is what was granted and not given back of grants that are settled.
	Settled int64 `json:"settled"`
	Granted int64 `json:"granted"`
	Spent   int64 `json:"spent"`
}

// FromBudget is a budget as a line.
func FromBudget(b storage.BudgetPeriod, settled, granted, spent int64) Record {
	return Record{Budget: &Budget{fromPeriod(b), settled, granted, spent}}
}

// Storage is the budget's period, or ErrInvalid.
func (b *Budget) Storage() (storage.BudgetPeriod, error) {
	out := b.storage()
	if b.Settled < 0 || b.Granted < b.Settled || b.Spent < 0 {
		return out, invalid(fmt.Sprintf("the budget of key %q: sums below zero", b.KeyID))
	}
	return out, out.Validate()
}

// Grant is a grant.
type Grant struct {
	ID string `json:"id"`
	Period
	Router   string `json:"router"`
	Nanos    int64  `json:"nanos"`
	At       int64  `json:"at"`
	Returned *int64 `json:"returned,omitempty"` // when it was given back
}

// FromGrant is a grant as a line.
func FromGrant(g storage.Grant, at time.Time, returned time.Time) Record {
	return Record{Grant: &Grant{g.ID, fromPeriod(g.Budget), g.Router, g.Nanos, at.UnixMicro(), micros(returned)}}
}

// Storage is the grant, when it was made and when given back, or ErrInvalid.
func (g *Grant) Storage() (out storage.Grant, at, returned time.Time, err error) {
	out = storage.Grant{ID: g.ID, Budget: g.storage(), Router: g.Router, Nanos: g.Nanos}
	at, returned = rows.FromMicros(g.At), fromMicros(g.Returned)
	r := storage.GrantRequest{ID: g.ID, Budget: out.Budget, Router: g.Router, LimitNanos: g.Nanos, WantNanos: g.Nanos, LeastNanos: g.Nanos, At: at}
	return out, at, returned, r.Validate()
}

// Usage is a usage row.
type Usage struct {
	RequestID string         `json:"request_id"`
	KeyID     string         `json:"key,omitempty"`
	Owner     string         `json:"owner,omitempty"`
	Asked     string         `json:"asked,omitempty"`
	Model     string         `json:"model,omitempty"`
	Endpoint  string         `json:"endpoint,omitempty"`
	Provider  string         `json:"provider,omitempty"`
	Path      string         `json:"path,omitempty"`
	Router    string         `json:"router,omitempty"`
	Stream    bool           `json:"stream,omitempty"`
	At        int64          `json:"at"`
	Latency   int64          `json:"latency_ns"`
	TTFT      *int64         `json:"ttft_ns,omitempty"`
	Status    int            `json:"status"`
	Result    string         `json:"result,omitempty"`
	Code      string         `json:"code,omitempty"`
	Retries   int            `json:"retries,omitempty"`
	Tokens    storage.Tokens `json:"tokens,omitzero"`
	Source    storage.Source `json:"source"`
	Cost      *int64         `json:"cost_nanos,omitempty"`
	Charged   *Period        `json:"charged,omitempty"`
}

// FromUsage is u as a line.
func FromUsage(u storage.Usage) Record {
	out := &Usage{
		RequestID: u.RequestID, KeyID: u.KeyID, Owner: u.Owner, Asked: u.Asked, Model: u.Model, Endpoint: u.Endpoint, Provider: u.Provider,
		Path: u.Path, Router: u.Router, Stream: u.Stream, At: u.At.UnixMicro(), Latency: int64(u.Latency), TTFT: (*int64)(u.TTFT),
		Status: u.Status, Result: u.Result, Code: u.Code, Retries: u.Retries, Tokens: u.Tokens, Source: u.Source, Cost: u.CostNanos,
	}
	if u.Charged != nil {
		p := fromPeriod(*u.Charged)
		out.Charged = &p
	}
	return Record{Usage: out}
}

// Storage is the row, or ErrInvalid.
func (u *Usage) Storage() (storage.Usage, error) {
	out := storage.Usage{
		RequestID: u.RequestID, KeyID: u.KeyID, Owner: u.Owner, Asked: u.Asked, Model: u.Model, Endpoint: u.Endpoint, Provider: u.Provider,
		Path: u.Path, Router: u.Router, Stream: u.Stream, At: rows.FromMicros(u.At), Latency: time.Duration(u.Latency),
		TTFT: (*time.Duration)(u.TTFT), Status: u.Status, Result: u.Result, Code: u.Code, Retries: u.Retries, Tokens: u.Tokens,
		Source: u.Source, CostNanos: u.Cost,
	}
	if u.Charged != nil {
		p := u.Charged.storage()
		out.Charged = &p
	}
	return out, out.Validate()
}

// Rollup is a sum.
type Rollup struct {
	Start       int64  `json:"start"`
	KeyID       string `json:"key,omitempty"`
	Owner       string `json:"owner,omitempty"`
	Model       string `json:"model,omitempty"`
	Requests    int64  `json:"requests"`
	Failed      int64  `json:"failed,omitempty"`
	Input       int64  `json:"input,omitempty"`
	CachedInput int64  `json:"cached_input,omitempty"`
	Output      int64  `json:"output,omitempty"`
	Reasoning   int64  `json:"reasoning,omitempty"`
	CostNanos   int64  `json:"cost_nanos,omitempty"`
}

// FromRollup is r as a line.
func FromRollup(g storage.Grain, r storage.Rollup) Record {
	out := &Rollup{
		r.Start.UnixMicro(), r.KeyID, r.Owner, r.Model, r.Requests, r.Failed, r.Input, r.CachedInput, r.Output, r.Reasoning, r.CostNanos,
	}
	if g == storage.GrainHour {
		return Record{Hour: out}
	}
	return Record{Day: out}
}

// Storage is the sum, or ErrInvalid.
func (r *Rollup) Storage() (storage.Rollup, error) {
	out := storage.Rollup{
		Start: rows.FromMicros(r.Start), KeyID: r.KeyID, Owner: r.Owner, Model: r.Model, Requests: r.Requests, Failed: r.Failed,
		Input: r.Input, CachedInput: r.CachedInput, Output: r.Output, Reasoning: r.Reasoning, CostNanos: r.CostNanos,
	}
	// The texts and the time have the bounds of the rows that were summed.
	if min(r.Requests, r.Failed, r.Input, r.CachedInput, r.Output, r.Reasoning, r.CostNanos) < 0 {
		return out, invalid("a sum below zero")
	}
	row := storage.Usage{RequestID: "r", KeyID: r.KeyID, Owner: r.Owner, Model: r.Model, At: out.Start, Source: storage.SourceNone}
	return out, row.Validate()
}

func micros(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	us := t.UnixMicro()
	return &us
}

func fromMicros(us *int64) time.Time {
	if us == nil {
		return time.Time{}
	}
	return rows.FromMicros(*us)
}

// Valid says whether the record can be kept, or ErrInvalid.
func (r *Record) Valid() (err error) {
	switch {
	case r.Key != nil:
		_, err = r.Key.Storage()
	case r.Audit != nil:
		_, err = r.Audit.Storage()
	case r.Budget != nil:
		_, err = r.Budget.Storage()
	case r.Grant != nil:
		_, _, _, err = r.Grant.Storage()
	case r.Usage != nil:
		_, err = r.Usage.Storage()
	case r.Hour != nil:
		_, err = r.Hour.Storage()
	case r.Day != nil:
		_, err = r.Day.Storage()
	case r.Term != nil:
		_, err = r.Term.Storage()
	case r.Node != nil:
		_, err = r.Node.Storage()
	case r.Cordon != nil:
		_, err = r.Cordon.Storage()
	case r.Replica != nil:
		_, err = r.Replica.Storage()
	case r.Model != nil:
		_, err = r.Model.Storage()
	case r.Account != nil:
		_, err = r.Account.Storage()
	case r.Link != nil:
		_, err = r.Link.Storage()
	case r.Provider != nil:
		_, err = r.Provider.Storage()
	}
	return err
}
