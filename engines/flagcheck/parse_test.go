package flagcheck_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/flagcheck"
)

// Each text is written as the parser named writes its own.
func TestParseFindsWhatIsDeclared(t *testing.T) {
	tests := []struct {
		name, text string
		want       []string
		not        []string // spoken of, or a part of another
	}{
		{"argparse", `usage: engine serve [-h] [--port PORT] [--host HOST]
                    [--served-model-name NAME [NAME ...]]
                    model

positional arguments:
  model                 The model; see --model-help.

options:
  -h, --help            show this help message and exit
  --host HOST           Host name. --bind is its old name.
  --port PORT           Port, not
                        --port-range (default: 8000)
  --served-model-name NAME [NAME ...]
                        What it answers to.
  --dtype {auto,half,float16}, -d {auto,half,float16}
                        Kind of numbers.
  --tool-call-parser {hermes,mistral} or name registered in --parser-plugin
                        Which of them.
  --tensor-parallel-size TENSOR_PARALLEL_SIZE, -tp TENSOR_PARALLEL_SIZE
                        Cards.
  --enable-prefix-caching, --no-enable-prefix-caching
                        Whether to.
  --max_num_seqs N      The most.
`, []string{
			"--dtype", "--enable-prefix-caching", "--help", "--host", "--max_num_seqs", "--no-enable-prefix-caching", "--port",
			"--served-model-name", "--tensor-parallel-size", "--tool-call-parser", "-d", "-h", "-tp",
		}, []string{"--bind", "--port-range", "--model-help", "--max-num-seqs", "--po"}},
		{"llama.cpp", `----- common params -----

-h,    --help, --usage                  print usage and exit
--version                               show version and build info
-t,    --threads N                      number of CPU threads, like --no-such
                                        --nor-this
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
--mmap, --no-mmap                       whether to memory-map model
-ngl,  --gpu-layers, --n-gpu-layers N   max. number of layers to store in VRAM
-ts,   --tensor-split N0,N1,N2,...      fraction of the model
-sm,   --split-mode {none,layer,row}    how to split the model
--spec-draft-one, --spec-draft-two,
--spec-draft-three N                    a list that goes on


----- server-specific params -----

-np,   --parallel N                     number of server slots (default: -1, -1 = auto)
                                        (env: LLAMA_ARG_N_PARALLEL)
`, []string{
			"--flash-attn", "--gpu-layers", "--help", "--mmap", "--n-gpu-layers", "--no-mmap", "--parallel", "--spec-draft-one", "--spec-draft-three",
			"--spec-draft-two", "--split-mode", "--tensor-split", "--threads", "--usage", "--version", "-fa", "-h", "-ngl", "-np", "-sm", "-t", "-ts",
		}, []string{"--no-such", "--nor-this", "-1", "-n"}},
		{"clap", `Text Generation Launcher

Usage: text-generation-launcher [OPTIONS]

Options:
      --model-id <MODEL_ID>
          The name of the model to load, or a path of the form
          
          --not-a-flag is spoken of

          [env: MODEL_ID=]
          [default: bigscience/bloom-560m]

  -p, --port <PORT>
          The port to listen on
          
          [env: PORT=]

      --trust-remote-code
          Whether you want to execute hub modelling code

  -h, --help
          Print help (see a summary with '-h')
`, []string{"--help", "--model-id", "--port", "--trust-remote-code", "-h", "-p"}, []string{"--not-a-flag"}},
		{"click", `Usage: infinity_emb v2 [OPTIONS]

  Infinity API. Set --hopeless and despair.

Options:
  --model-id TEXT                 Model. [env var: INFINITY_MODEL_ID]
  --preload-only / --no-preload-only
                                  Only load.  [default: no-preload-only]
  --port INTEGER RANGE            Port.  [1<=x<=65535]
  -v, --verbose
  --help                          Show this message and exit.
`, []string{"--help", "--model-id", "--no-preload-only", "--port", "--preload-only", "--verbose", "-v"}, []string{"--hopeless"}},
		{"typer", "\x1b[1m                                                            \x1b[0m\n" + ` Usage: infinity_emb v2 [OPTIONS]

╭─ Options ────────────────────────────────────────────────────────────────────╮
│ *  --model-id              -m       TEXT     huggingface repo [env var:      │
│                                              INFINITY_MODEL_ID]              │
│    --preload-only      --no-preload-only     nothing, not --this or that    │
│    --device                         [cpu|cuda|mps|auto]  device to use       │
│    --help                                    Show this message and exit.     │
╰──────────────────────────────────────────────────────────────────────────────╯
`, []string{"--device", "--help", "--model-id", "--no-preload-only", "--preload-only", "-m"}, nil},
		{"Go's package flag", `Usage of engine:
  -host string
    	where to listen (default "127.0.0.1")
  -port int
    	port; see -range
  -v	be verbose
`, []string{"--port", "-host", "-port", "-v"}, []string{"-range", "--range"}},
		{"cobra", `Start the engine

Usage:
  ollama serve [flags]

Aliases:
  serve, start

Flags:
  -h, --help            help for serve
      --keepalive string   Duration (e.g. --5m)

Environment Variables:
      OLLAMA_DEBUG               Show additional debug information (e.g. OLLAMA_DEBUG=1)
      OLLAMA_HOST                IP Address for the ollama server (default 127.0.0.1:11434)
`, []string{"--help", "--keepalive", "-h"}, []string{"--5m"}},
		{"a pair in brackets", "Options:\n  --[no-]mmap, -m  Map it.\n  --color[=WHEN]   Colours.\n  -a | --all       All.\n  --level=N        A level.\n", []string{
			"--all", "--color", "--level", "--mmap", "--no-mmap", "-a", "-m",
		}, nil},
		{"a sentence", "  --foo and then some more words.\n  - a list with --bar\n", nil, []string{"--foo", "--bar"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := flagcheck.Parse(tt.text)
			for _, flag := range tt.want {
				if !h.Has(flag) {
					t.Errorf("%s is not found", flag)
				}
			}
			for _, flag := range tt.not {
				if h.Has(flag) {
					t.Errorf("%s is found", flag)
				}
			}
			for _, flag := range h.Flags() {
				if !slices.Contains(tt.want, flag) {
					t.Errorf("%s is found as well", flag)
				}
			}
			if len(h.Doubts) > 0 {
				t.Errorf("doubts about a whole text: %q", h.Doubts)
			}
			if lines := strings.Count(strings.TrimRight(tt.text, "\n "), "\n") + 1; h.Lines != lines {
				t.Errorf("%d lines; want %d", h.Lines, lines)
			}
		})
	}
}
