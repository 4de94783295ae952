package launch

import "github.com/llmgw/llmgw/engines"

// PythonFaults returns the rules for failures whose wording is that of the
// libraries below an engine in Python. An adapter puts its own rules before
// them: the first that matches counts.
func PythonFaults() []engines.LogRule {
	failed := func(match, reason, advice string) engines.LogRule {
		return engines.LogRule{Match: match, Phase: engines.PhaseFailed, Reason: reason, Advice: advice}
	}
	return []engines.LogRule{
		failed(`error: unrecognized arguments: (.+)`, "this version of the engine does not know: $1",
			"run llmgw ctl engine-check, then remove the flag from extra_args or install a version that has it"),
		failed(`error: argument (\S+?):? (.+)`, "the engine refuses the value of $1: $2", "correct the field or the extra argument that sets $1"),
		failed(`CUDA out of memory|torch\.OutOfMemoryError|HIP out of memory`, "the card's memory is full",
			"lower memory_ratio, context_tokens or max_running, or spread the model over more cards"),
		failed(`(?i)\[Errno 98\]|address already in use`, "another process holds a port of the engine",
			"find it with: ss -ltnp; the launcher gives the next start other ports"),
		failed(`(?i)GatedRepoError|401 Client Error|403 Client Error|Access to model .+ is restricted`, "the model hub refuses this node the model",
			"set HF_TOKEN in env to a token that may read the model, or give the model as a path on the node"),
		failed(`RepositoryNotFoundError|RevisionNotFoundError|is not a local folder and is not a valid model identifier`, "there is no such model or revision",
			"check model and revision; a path must begin with /"),
		failed(`LocalEntryNotFoundError|OfflineModeIsEnabled|couldn't connect to 'https?://\S+'`, "the model is not on this node, and no hub can be reached",
			"place the model's files on the node and give their path, or let the node reach the hub"),
		failed(`\[Errno 28\]|No space left on device`, "a disk of this node is full", "free room where the model's files and the caches are"),
		failed(`NVIDIA driver on your system is too old|CUDA driver version is insufficient`, "the node's driver is too old for this version of the engine",
			"update the driver, or install a build of the engine for the older CUDA"),
		failed(`No CUDA GPUs are available|no CUDA-capable device is detected|No HIP GPUs are available`, "the engine sees no card",
			"check the driver with nvidia-smi or rocm-smi on the node; where the cards are fine, the engine is a build for other cards"),
		failed(`ModuleNotFoundError: No module named '([^']+)'`, "the engine's installation lacks the Python package $1", "install it for the interpreter that executable names"),
		failed(`NCCL error|ncclSystemError|ncclInternalError|ncclRemoteError`, "the cards cannot reach each other",
			"look at the lines before with NCCL_DEBUG: INFO in env; over nodes, check the interface and that nothing blocks ports between them"),
	}
}
