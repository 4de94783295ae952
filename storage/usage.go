package storage

import (
	"context"
	"time"
)

// Usage is what one request came to. Every request of a known caller has exactly
// one, whatever its end.
type Usage struct {
	// RequestID is the row's identity: the same request is kept once, however
	// often it is inserted. 1 to 128 bytes, and made by us: rows of two requests
	// to which a client gave one ID would be one row.
	RequestID string
	KeyID     string // empty where nobody is known; at most 64 bytes, other texts 256
	Owner     string
	Asked     string // canonical model that was asked for
	Model     string // canonical model that answered; else the one asked for
	Endpoint  string // that answered last; empty if none did
	Provider  string // whose endpoint it is; empty for the fleet's own
	Path      string // of the route, as /v1/chat/completions
	Router    string // the process that served it
	Stream    bool

	At      time.Time      // it came
	Latency time.Duration  // until its end
	TTFT    *time.Duration // until its first content; nil if none came

	// Status is what the client got; 0 if nothing.
	Status int
	// Result is what became of it, as the router's Result says.
	Result  string
	Code    string // of the error; empty for none
	Retries int    // tries after the first

	Tokens Tokens
	// Source says where the tokens come from.
	Source Source
	// CostNanos is the price of the tokens, in 10^-9 of the currency unit; nil
	// where the model has none.
	CostNanos *int64
	// Charged is the budget's period that pays for it; nil if none does.
	Charged *BudgetPeriod
}

// Tokens are counts by kind. Nil is not known; zero is none.
type Tokens struct {
	Input       *int64 `json:"input,omitempty"`        // all of the prompt
	CachedInput *int64 `json:"cached_input,omitempty"` // that of Input that an engine held already
	Output      *int64 `json:"output,omitempty"`       // all of the answer
	Reasoning   *int64 `json:"reasoning,omitempty"`    // that of Output which is thought, not said
}

// Source says where a count of tokens comes from. The zero value is unset.
type Source uint8

// The sources, with the text that stands for them.
const (
	SourceEngine    Source = iota + 1 // "engine": the engine's last word
	SourcePartial                     // "partial": the engine's word so far; the answer ended early
	SourceCounted                     // "counted": pieces of the answer were counted
	SourceEstimated                   // "estimated": from the length of the text
	SourceNone                        // "none": nothing ran
)

// UsageQuery chooses rows. Zero fields choose nothing out.
type UsageQuery struct {
	From, To            time.Time // At in [From, To); zero is unbounded
	KeyID, Owner, Model string
	Lineage             string // rows of the keys of that Lineage
	Page
}

// Grain is the length of a roll-up.
type Grain uint8

// The grains, with the text that stands for them.
const (
	GrainHour Grain = iota + 1 // "hour", of UTC
	GrainDay                   // "day", of UTC
)

// Rollup is the sum of the rows of one key, owner and model in one hour or day.
// Tokens and costs that are not known add nothing.
type Rollup struct {
	Start               time.Time // of the hour or day
	KeyID, Owner, Model string
	Requests            int64
	Failed              int64 // of them: Status not 2xx
	Input, CachedInput  int64
	Output, Reasoning   int64
	CostNanos           int64
}

// RollupQuery chooses roll-ups.
type RollupQuery struct {
	Grain               Grain     // required
	From, To            time.Time // Start in [From, To); zero is unbounded
	KeyID, Owner, Model string    // empty: any
	Lineage             string    // likewise: roll-ups of the keys of that Lineage
	Page
}

// Retention says what may be forgotten. Zero times keep all.
type Retention struct {
	Rows  time.Time // usage rows before this
	Hours time.Time // roll-ups by hour before this
	Days  time.Time // roll-ups by day before this
	// Most bounds how many rows of each are deleted in one step, so that nobody
	// else waits long; positive.
	Most int
}

// UsageLog keeps usage.
type UsageLog interface {
	// InsertUsage keeps rows, adds them to their roll-ups, and moves their cost to
	// what is spent of the budget that pays, in one step. Rows that are there
	// already are left out, of the sums too; those that PruneUsage forgot are new
	// again, so that retention has to be longer than rows wait. It returns how many
	// were new. One row that is ErrInvalid refuses all: see [Usage.Validate] and
	// [Usage.Tidy].
	InsertUsage(ctx context.Context, rows []Usage) (inserted int, err error)
	// ListUsage returns rows, the oldest first, and the cursor of the next page,
	// empty after the last.
	ListUsage(ctx context.Context, q UsageQuery) (rows []Usage, next string, err error)
	// ListRollups returns roll-ups by Start, key, owner and model, and the cursor
	// of the next page.
	ListRollups(ctx context.Context, q RollupQuery) (sums []Rollup, next string, err error)
	// PruneUsage forgets what r says may be forgotten, and gives the space back to
	// the database or the file system. Rows and roll-ups go apart: sums stay when
	// their rows go. more says that r.Most may have left some.
	PruneUsage(ctx context.Context, r Retention) (deleted int, more bool, err error)
}
