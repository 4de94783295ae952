package calibrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"
)

// Report is a finished calibration.
type Report struct {
	URL     string  `json:"url"`
	API     API     `json:"api"`
	Model   *Model  `json:"model"`
	Check   *Check  `json:"check"` // nil: the budget left no time for it
	Samples Samples `json:"samples"`
	// ToleranceRatio is Config's, and Poor says, a sentence each, what is off
	// by more: such a model should not be used.
	ToleranceRatio float64  `json:"tolerance_ratio"`
	Poor           []string `json:"poor"`
	// Notes say what the budget left out.
	Notes   []string `json:"notes"`
	Seconds float64  `json:"seconds"` // the whole run
	Sent    int      `json:"requests"`
}

// Run measures an engine that nobody else uses meanwhile and fits a model to
// it; whether that is any good, [Report.Err] says. Run blocks for at most about
// Config.Budget and one request, or until ctx is done; every goroutine it
// starts has ended when it returns. Errors wrap the sentinels of this package,
// or are a [*StatusError].
func Run(ctx context.Context, cfg Config, deps Deps) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	if deps.Logger == nil {
		deps.Logger = slog.New(slog.DiscardHandler)
	}
	if deps.Client == nil {
		t := newTransport(2 * cfg.MaxConcurrency)
		defer t.CloseIdleConnections()
		deps.Client = &http.Client{
			Transport: t,
			// A redirect means another address; better to be told than to
			// measure a detour.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	begin := time.Now()
	x := &experiment{
		cfg:     cfg,
		client:  &client{http: deps.Client, cfg: cfg, timeout: cfg.RequestTimeout},
		prompts: newPrompter(cfg),
		step: func(format string, args ...any) {
			text := fmt.Sprintf(format, args...)
			deps.Logger.Debug("calibrating", "step", text)
			if deps.Progress != nil {
				deps.Progress(text)
			}
		},
	}
	report, err := x.report(ctx, begin)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	if err != nil {
		return nil, err
	}
	report.Seconds = time.Since(begin).Seconds()
	return report, nil
}

func (x *experiment) report(ctx context.Context, begin time.Time) (*Report, error) {
	x.step("looking at the engine")
	told, err := x.client.discover(ctx)
	if err != nil {
		return nil, err
	}
	x.samples.Told = told
	if err := x.run(ctx, begin); err != nil {
		return nil, err
	}
	model, err := Fit(x.samples)
	if err != nil {
		return nil, err
	}
	check, err := x.check(ctx, model)
	if err != nil {
		return nil, err
	}
	r := &Report{
		URL: x.cfg.base(), API: x.cfg.API, Model: model, Check: check, Samples: x.samples,
		ToleranceRatio: x.cfg.ToleranceRatio, Notes: x.notes, Sent: int(x.client.sent.Load()),
	}
	r.Poor = r.judge()
	return r, nil
}
