package schedule

// The names of the built-in profiles.
const (
	// Chat suits people who wait for a first token: short queues first, and
	// conversations stay where their prefix is cached.
	Chat = "chat"
	// Batch suits jobs that want throughput: it fills engines by KV cache and
	// queue and knows no sessions.
	Batch = "batch"
	// LongContext suits prompts of many thousand tokens: one of them fills a
	// cache that a short queue says nothing about, and recomputing it is what
	// affinity saves most on.
	LongContext = "long-context"
	// Debug decides as Chat does but never on a sample; who uses it is shown the
	// decision.
	Debug = "debug"
)

// ProfileNames returns the names of the built-in profiles. The caller owns the
// slice.
func ProfileNames() []string { return []string{Chat, Batch, LongContext, Debug} }

// Profiles returns the built-in profiles with scorers made from cfg. The caller
// owns them.
//
// The weights: queue and in-flight count alike, because the first is what makes
// a person wait and the second what slows every token down. An affinity counts
// as much as both, because within its bound the loads differ little and a lost
// prefix costs a whole prefill; that its endpoint is stale, failing and full
// together outvotes it. A record of failures counts as a signal of load does, for one
// failure costs its request a whole second try. Weight itself counts next to
// nothing: it is in the load votes already.
//
// What is known of a prompt's prefix counts for less than the loads together, so
// that they can outvote it, and for more than either of them. It counts for less
// in batches, where nobody waits for a first token and work lost on a prefill is
// only that.
//
// Every picker is MaxScore: the reservation within each decision spreads what
// this router sends, and the others are seen through the engines' queues.
func Profiles(cfg Config) []Profile {
	filters := []Filter{Present{}, Untried{}, Admitting{}}
	build := func(name string, queue, inflight, kv, session, prefix float64) Profile {
		p := Profile{
			Name:    name,
			Filters: filters,
			Scorers: []Weighted{
				{QueueDepth{Target: cfg.TargetWaiting, TargetInFlight: cfg.TargetInflight}, queue},
				{LeastLoaded{Target: cfg.TargetInflight}, inflight},
				{KVHeadroom{Ceiling: cfg.KVCeiling, TargetInFlight: cfg.TargetInflight}, kv},
				{Freshness{StaleAfter: cfg.StaleAfter}, 1},
				{CleanRecord{}, 2},
				{LargerFirst{}, 0.02},
			},
			Picker: MaxScore{},
		}
		if prefix > 0 {
			p.Scorers = append(p.Scorers, Weighted{PrefixAffinity{
				TargetBytes: cfg.TargetPrefixBytes, MaxGap: cfg.PrefixMaxGap, MaxRatio: cfg.PrefixMaxRatio,
			}, prefix})
		}
		if session > 0 {
			p.Scorers = append(p.Scorers, Weighted{SessionAffinity{LoadFactor: cfg.SessionLoadFactor}, session})
		}
		return p
	}
	debug := build(Debug, 2, 2, 1, 4, cfg.PrefixWeight)
	debug.Full = true
	return []Profile{
		build(Chat, 2, 2, 1, 4, cfg.PrefixWeight),
		build(Batch, 2, 1, 2, 0, cfg.PrefixWeightBatch),
		build(LongContext, 1, 1, 3, 4, cfg.PrefixWeight),
		debug,
	}
}
