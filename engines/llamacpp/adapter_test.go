package llamacpp_test

import (
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/enginetest"
	"github.com/llmgw/llmgw/engines/internal/launch/launchtest"
	"github.com/llmgw/llmgw/engines/llamacpp"
)

func TestAdapter(t *testing.T) { enginetest.Run(t, llamacpp.Adapter{}) }

// Lines as builds b10068 to b10434 printed them.
func TestLogs(t *testing.T) {
	t.Parallel()
	l, err := llamacpp.Adapter{}.Launch(t.Context(), engines.Shard{
		Profile: engines.Profile{Engine: engines.LlamaCPP, Model: "/m.gguf", ServedNames: []string{"m"}, CPU: true},
		Dir:     "/run", Bind: "127.0.0.1", Ports: map[string]int{engines.PortHTTP: 8080},
	})
	if err != nil {
		t.Fatal(err)
	}
	says := launchtest.Says
	launchtest.Explain(t, l.Logs, []launchtest.Line{
		says("0.00.002.336 I cmn  common_param: common_params_print_info: verbosity = 3", engines.PhaseUnset, "", ""),
		says("0.00.003.507 I srv    load_model: loading model '/m.gguf'", engines.PhaseLoading, "", ""),
		says("0.00.066.655 I srv    load_model: initializing, n_slots = 4, n_ctx_slot = 512, kv_unified = 'false'", engines.PhaseWarming, "", ""),
		says("0.00.068.480 I srv  llama_server: listening on http://127.0.0.1:8080", engines.PhaseListening, "", ""),
		says("0.00.398.611 I srv    operator(): operator(): cleaning up before exit...", engines.PhaseStopping, "", ""),
		says("0.00.012.928 E gguf_init_from_file: failed to open GGUF file '/m.gguf' (No such file or directory)", engines.PhaseFailed, "the model's file /m.gguf cannot be opened: No such file or directory", ""),
		says("0.00.007.248 E gguf_init_from_reader: invalid magic characters: 'junk', expected 'GGUF'", engines.PhaseFailed, "the model's file is no GGUF file", ""),
		says("0.00.004.767 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080", engines.PhaseFailed, "its address is taken, or is not this node's", ""),
		says("0.00.005.964 E srv    load_model: failed to create_context with model 'm.gguf'", engines.PhaseFailed, "the cache for context_tokens × max_running could not be made", ""),
		says("0.00.007.860 E srv  llama_server: exiting due to model loading error", engines.PhaseFailed, "the model could not be loaded", ""),
	})
}
