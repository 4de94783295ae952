package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/llmgw/llmgw/engines/sim/calibrate"
)

// exitPoor says that what calibrate printed does not behave like the engine.
const exitPoor = 2

type calibrateCmd struct {
	URL        string        `name:"url" required:"" placeholder:"URL" help:"Address of the engine, e.g. http://127.0.0.1:8000. Nobody else may use it meanwhile."`
	Model      string        `help:"Name of the model; without it the only one that the engine lists."`
	API        string        `name:"api" enum:"chat,completions" default:"chat" help:"Route to measure: chat or completions."`
	APIKeyFile string        `name:"api-key-file" placeholder:"FILE" help:"File that holds the engine's API key; without it the variable LLMGW_API_KEY, if it is set."`
	Budget     time.Duration `default:"2m" help:"Time limit of the whole run; what it leaves no time for is not measured."`
	Timeout    time.Duration `default:"1m" help:"Time limit of one request."`
	Concurrent int           `default:"64" placeholder:"N" help:"Most requests at once; an engine that runs more keeps its number to itself."`
	MaxPrompt  int           `default:"8192" placeholder:"TOKENS" help:"Longest prompt, in simulated tokens."`
	Words      string        `placeholder:"FILE" help:"Text whose words make the prompts; give some of the text you will replay. Without it common English words."`
	Tolerance  float64       `default:"25" placeholder:"PERCENT" help:"How far off the fit and the check may be, in per cent, before the exit code is 2. Default ${default}."`
	JSON       bool          `name:"json" help:"Print one JSON object with the configuration, its quality and every sample."`
}

// Help tells the exit codes.
func (calibrateCmd) Help() string {
	return "Exit codes: 0 measured, 1 failed, 2 measured and printed but off by more than --tolerance: do not use it, 80 wrong usage."
}

// Run measures an engine and prints the configuration for llmgw sim.
func (c *calibrateCmd) Run(ctx context.Context, streams Streams) error {
	cfg := calibrate.DefaultConfig()
	cfg.URL, cfg.Model, cfg.API = c.URL, c.Model, calibrate.API(c.API)
	cfg.Budget, cfg.RequestTimeout = c.Budget, c.Timeout
	cfg.MaxConcurrency, cfg.MaxPromptTokens = c.Concurrent, c.MaxPrompt
	cfg.ToleranceRatio = c.Tolerance / 100
	var err error
	if cfg.APIKey, err = readKey(c.APIKeyFile); err != nil {
		return err
	}
	if c.Words != "" {
		text, err := readWords(c.Words)
		if err != nil {
			return fmt.Errorf("--words: %w", err)
		}
		if cfg.Words = strings.Fields(strings.ToValidUTF8(string(text), "")); len(cfg.Words) == 0 {
			return fmt.Errorf("%s: no words; want text", c.Words)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	progress, end := progressLine(streams.Err)
	report, err := calibrate.Run(ctx, cfg, calibrate.Deps{
		Logger: slog.New(slog.DiscardHandler), Progress: progress,
	})
	end()
	if err != nil {
		return err
	}
	if err := c.print(streams.Out, report); err != nil {
		return err
	}
	if err := report.Err(); err != nil {
		return coded(err, exitPoor)
	}
	return nil
}

func (c *calibrateCmd) print(w io.Writer, report *calibrate.Report) error {
	if !c.JSON {
		return report.WriteYAML(w)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(report)
}

// readKey reads a key from a file, or takes the variable's.
func readKey(file string) (string, error) {
	if file == "" {
		return os.Getenv("LLMGW_API_KEY"), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("--api-key-file: %w", err)
	}
	key := strings.TrimSpace(string(data))
	if key == "" || strings.ContainsAny(key, "\r\n") {
		return "", fmt.Errorf("--api-key-file: %s: want one line with the API key", file)
	}
	return key, nil
}

// progressLine shows the step under way on one line of a terminal, and nothing
// elsewhere. end removes the line.
func progressLine(w io.Writer) (show func(step string), end func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}
	begin := time.Now()
	return func(step string) {
			fmt.Fprintf(f, "\r\x1b[K%4.0f s  %.70s", time.Since(begin).Seconds(), step)
		}, func() {
			fmt.Fprint(f, "\r\x1b[K")
		}
}

// maxWordsBytes is more text than all prompts of a calibration together.
const maxWordsBytes = 64 << 20

func readWords(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxWordsBytes+1))
	if err == nil && len(text) > maxWordsBytes {
		err = fmt.Errorf("%s: more than %d MiB; some of the text is enough", path, maxWordsBytes>>20)
	}
	return text, err
}
