package sim

import "github.com/llmgw/llmgw/engines"

// logRules say what the lines of llmgw sim mean.
func logRules() []engines.LogRule {
	at := func(phase engines.Phase, match, reason string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: phase, Reason: reason}
	}
	failed := func(match, reason, advice string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: engines.PhaseFailed, Reason: reason, Advice: advice}
	}
	return []engines.LogRule{
		failed(`^llmgw: .*CUDA out of memory`, "the model does not fit on the card", "that is the fault fail_load: take it out of options.faults"),
		failed(`^llmgw: .*estimated maximum model length is (\d+)`, "the KV cache has no room for one request of the whole context",
			"set context_tokens to $1 or less, or take the fault fail_load out of options.faults"),
		failed(`^llmgw: gang: refused by the leader: (.*)`, "the leader refused the rank: $1", "see that nothing of another replica or generation is left at the leader's port"),
		failed(`^llmgw: gang: ranks are missing: ([\d, ]+) of \d+ have not joined`, "ranks $1 have not joined", "read the logs of those ranks"),
		failed(`^llmgw: gang: ranks are missing: (.*)`, "the gang has not gathered: $1", "see that rank 0 runs and that its node can be reached"),
		failed(`^llmgw: gang: a rank is lost: (.*)`, "a rank is lost: $1", "read that rank's log, then start the whole replica again"),
		failed(`^llmgw: .*address already in use`, "the port is taken", "see who has it with: ss -ltnp"),
		failed(`^llmgw: sim: crashed`, "the engine crashed", "that is the fault crash_after: take it out of options.faults"),
		failed(`^llmgw: (.*)`, "$1", "see llmgw sim serve --help"),

		at(engines.PhaseRendezvous, `msg="Waiting for the other ranks".* missing="?(\d[\d, ]*)`, "waits for ranks $1"),
		at(engines.PhaseRendezvous, `msg="A rank has (?:joined|left).* missing="?(\d[\d, ]*)`, "waits for ranks $1"),
		at(engines.PhaseRendezvous, `msg="Waiting for the leader"`, "looks for the leader"),
		at(engines.PhaseRendezvous, `msg="Joined; waiting for the other ranks"`, "waits for the other ranks"),
		at(engines.PhaseLoading, `msg="All ranks have joined"`, "all ranks are there"),
		at(engines.PhaseLoading, `Starting to load model`, ""),
		at(engines.PhaseLoading, `Loading safetensors checkpoint shards:\s+(\d+%)`, "weights: $1"),
		at(engines.PhaseLoading, `Loading weights took ([\d.]+) seconds`, "weights read in $1 s"),
		at(engines.PhaseWarming, `GPU KV cache size: ([\d,]+) tokens`, "the KV cache has room for $1 tokens"),
		at(engines.PhaseWarming, `init engine .* took ([\d.]+) s`, "warmed up in $1 s"),
		at(engines.PhaseListening, `^A simulated engine serves|"base_url":`, ""),
		at(engines.PhaseStopping, `\[shutdown\] told to end`, "finishes what runs"),
	}
}
