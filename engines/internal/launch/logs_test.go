package launch_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/internal/launch"
	"github.com/llmgw/llmgw/engines/internal/launch/launchtest"
)

// Lines as the libraries print them.
func TestPythonFaults(t *testing.T) {
	t.Parallel()
	failed := func(text, reason string) launchtest.Line {
		return launchtest.Line{Text: text, Phase: engines.PhaseFailed, Reason: reason}
	}
	launchtest.Explain(t, launch.PythonFaults(), []launchtest.Line{
		failed("vllm: error: unrecognized arguments: --enable-reasoning --x 3", "this version of the engine does not know: --enable-reasoning --x 3"),
		failed("launch_server.py: error: argument --dtype: invalid choice: 'int3' (choose from 'auto')", "the engine refuses the value of --dtype: invalid choice: 'int3' (choose from 'auto')"),
		failed("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "the card's memory is full"),
		failed("OSError: [Errno 98] Address already in use", "another process holds a port of the engine"),
		failed("huggingface_hub.errors.GatedRepoError: 401 Client Error.", "the model hub refuses this node the model"),
		failed("ModuleNotFoundError: No module named 'ray'", "the engine's installation lacks the Python package ray"),
		failed("OSError: [Errno 28] No space left on device", "a disk of this node is full"),
		{Text: "INFO 08-17 Port 5000 is already in use, trying port 5001"},
		{Text: `INFO:     10.0.0.9:1234 - "POST /v1/chat/completions HTTP/1.1" 401 Unauthorized`},
	})
}
