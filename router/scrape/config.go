package scrape

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/router/endpoint"
)

// Config is the scraper's tunable data. Start from DefaultConfig.
type Config struct {
	// Interval is how often each engine is scraped, give or take a tenth.
	// Default 2s; must be at least 100ms. Shorter than an engine leaves an
	// idle connection open, it also keeps that connection.
	Interval time.Duration `yaml:"scrape_interval"`
	// Timeout is how long one scrape may take. Default 1s; must be positive.
	Timeout time.Duration `yaml:"scrape_timeout"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Interval: 2 * time.Second, Timeout: time.Second}
}

// Validate reports every fault of the configuration, joined.
func (c Config) Validate() error {
	var errs []error
	if c.Interval < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("scrape_interval: %v is too short; want 100ms or more, e.g. 2s", c.Interval))
	}
	if c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("scrape_timeout: %v is not positive; want e.g. 1s", c.Timeout))
	}
	return errors.Join(errs...)
}

// Doer sends a request, as *http.Client does. It should not follow redirects,
// since a request may carry the engine's key.
type Doer interface {
	Do(req *http.Request) (*http.Response, error)
}

// Deps are the scraper's collaborators.
type Deps struct {
	// Set holds the endpoints. Required.
	Set *endpoint.Set
	// Contracts are those of the engines that export metrics, in the order in
	// which an unknown engine is recognised. Required; an engine without one
	// is not scraped.
	Contracts []engines.MetricContract
	// Client returns what reaches an endpoint, once for each instance. Nil
	// means a client of the scraper's own, which trusts the system's
	// authorities.
	Client func(*endpoint.Endpoint) Doer
	// Logger gets changes of outcome; nil discards.
	Logger *slog.Logger
	// Registerer gets the scraper's metrics; nil leaves them unregistered.
	Registerer prometheus.Registerer
}

// validate reports every missing or faulty collaborator, joined.
func (d Deps) validate() error {
	var errs []error
	if d.Set == nil {
		errs = append(errs, errors.New("scrape: no set of endpoints"))
	}
	if len(d.Contracts) == 0 {
		errs = append(errs, errors.New("scrape: no metric contracts"))
	}
	for _, c := range d.Contracts {
		if err := c.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("scrape: contract of %q: %w", c.Engine, err))
		}
	}
	return errors.Join(errs...)
}
