package launch_test

import (
	"regexp"
	"testing"

	"github.com/llmgw/llmgw/engines/internal/launch"
)

// Lines as the libraries print them, with what their rules make of them.
func TestPythonFaults(t *testing.T) {
	tests := []struct{ line, reason string }{
		{"vllm: error: unrecognized arguments: --enable-reasoning --x 3", "this version of the engine does not know: --enable-reasoning --x 3"},
		{"launch_server.py: error: argument --dtype: invalid choice: 'int3' (choose from 'auto')", "the engine refuses the value of --dtype: invalid choice: 'int3' (choose from 'auto')"},
		{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "the card's memory is full"},
		{"OSError: [Errno 98] Address already in use", "another process holds a port of the engine"},
		{"huggingface_hub.errors.GatedRepoError: 401 Client Error.", "the model hub refuses this node the model"},
		{"ModuleNotFoundError: No module named 'ray'", "the engine's installation lacks the Python package ray"},
		{"INFO: 200 OK", ""},
	}
	for _, tt := range tests {
		reason := ""
		for _, r := range launch.PythonFaults() {
			re := regexp.MustCompile(r.Match)
			if m := re.FindStringSubmatchIndex(tt.line); m != nil {
				reason = string(re.ExpandString(nil, r.Reason, tt.line, m))
				break
			}
		}
		if reason != tt.reason {
			t.Errorf("%q means %q; want %q", tt.line, reason, tt.reason)
		}
	}
}
