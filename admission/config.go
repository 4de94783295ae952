package admission

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Config is the controller's tunable data. Start from DefaultConfig.
type Config struct {
	// Enabled switches admission on. Default true; false lets every request pass
	// and counts nothing.
	Enabled bool `yaml:"enabled"`
	// DefaultBand is the band of a request that names none. Default gold; must
	// be the name of one of the bands.
	DefaultBand string `yaml:"default_band"`
	// Bands are the priority classes. Default: platinum 400 / 1.00, gold 300 /
	// 0.85, silver 200 / 0.60, bronze 100 / 0.30 (priority / ceiling). At least
	// one and at most 64.
	Bands []Band `yaml:"bands"`
	// QueueTTL is how long a request may wait before it is refused. Default
	// 30s; must be positive.
	QueueTTL time.Duration `yaml:"queue_ttl"`
	// QueueCapacityPerBand bounds the requests that wait per band, all pools
	// together. Default 2000; 0 refuses instead of queueing.
	QueueCapacityPerBand int `yaml:"queue_capacity_per_band"`
	// Interval is how often loads are read again and waiting requests looked
	// at while there is work. Default 10ms; at least 1ms. What is released
	// wakes a waiting request at once; the interval bounds how late a change
	// of load, or that a request has waited too long, is noticed.
	Interval time.Duration `yaml:"interval"`

	// Saturation is what the default detector measures against. The keys stand
	// elsewhere in a configuration, beside those of routing.
	Saturation SaturationConfig `yaml:"-"`
	// Seed is where chance comes from: which of several bands of equal
	// priority goes next. Default 0; any.
	Seed uint64 `yaml:"-"`
}

// Band is a priority class.
type Band struct {
	// Name is what requests call the band. Required, unique; at most 64 printable
	// ASCII characters, without a comma and with no space at either end.
	Name string `yaml:"name"`
	// Priority orders the bands: of those that may pass, the highest goes
	// first. Default 0; any number. Bands of equal priority go by chance.
	Priority int `yaml:"priority"`
	// SaturationCeiling is the saturation above which the band's requests
	// wait: 0 waits unless the pool is idle, 1 flows up to the healthy limit,
	// and above 1 never waits. Default 1 where a file leaves it out; 0 or more.
	SaturationCeiling float64 `yaml:"saturation_ceiling" default:"1"`
}

const (
	// maxBands bounds what is kept per pool.
	maxBands = 64
	// maxNameBytes bounds a band's name, which stands in logs, metrics and answers.
	maxNameBytes = 64
	// minInterval keeps looking at loads from being all that is done.
	minInterval = time.Millisecond
)

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		Enabled:     true,
		DefaultBand: "gold",
		Bands: []Band{
			{Name: "platinum", Priority: 400, SaturationCeiling: 1.00},
			{Name: "gold", Priority: 300, SaturationCeiling: 0.85},
			{Name: "silver", Priority: 200, SaturationCeiling: 0.60},
			{Name: "bronze", Priority: 100, SaturationCeiling: 0.30},
		},
		QueueTTL:             30 * time.Second,
		QueueCapacityPerBand: 2000,
		Interval:             10 * time.Millisecond,
		Saturation:           DefaultSaturationConfig(),
	}
}

// Validate reports every fault of the configuration, joined.
func (c Config) Validate() error {
	errs := c.validateBands()
	if c.QueueTTL <= 0 {
		errs = append(errs, fmt.Errorf("queue_ttl: %v is not positive; want e.g. 30s", c.QueueTTL))
	}
	if c.Interval < minInterval {
		errs = append(errs, fmt.Errorf("interval: %v is too short; want %v or more, e.g. 10ms", c.Interval, minInterval))
	}
	if c.QueueCapacityPerBand < 0 {
		errs = append(errs, fmt.Errorf("queue_capacity_per_band: %d is negative; want 0 (refuse instead of queueing) or more, e.g. 2000",
			c.QueueCapacityPerBand))
	}
	return errors.Join(append(errs, c.Saturation.Validate())...)
}

func (c Config) validateBands() []error {
	var errs []error
	if n := len(c.Bands); n == 0 || n > maxBands {
		errs = append(errs, fmt.Errorf("bands: there are %d; want 1 to %d", n, maxBands))
	}
	seen := make(map[string]bool, len(c.Bands))
	for i, b := range c.Bands {
		key := fmt.Sprintf("bands[%d]", i)
		switch {
		case b.Name == "":
			errs = append(errs, fmt.Errorf("%s.name: is empty; want a name such as gold", key))
		case !validName(b.Name):
			errs = append(errs, fmt.Errorf("%s.name: %.80q cannot be asked for in a header; want a name such as gold", key, b.Name))
		case seen[b.Name]:
			errs = append(errs, fmt.Errorf("%s.name: %q is there twice; want each once", key, b.Name))
		}
		seen[b.Name] = true
		if !(b.SaturationCeiling >= 0) || math.IsInf(b.SaturationCeiling, 0) {
			errs = append(errs, fmt.Errorf("%s.saturation_ceiling: %v is out of range; want 0 to 1, or more than 1 for a band that never waits",
				key, b.SaturationCeiling))
		}
	}
	if !seen[c.DefaultBand] || c.DefaultBand == "" {
		errs = append(errs, fmt.Errorf("default_band: %q is none of bands; want the name of one", c.DefaultBand))
	}
	return errs
}

// validName reports whether a header can ask for the band by that name: what is
// sent twice comes as a list, and spaces at the ends are not the value's.
func validName(s string) bool {
	odd := func(r rune) bool { return r < ' ' || r > '~' || r == ',' }
	return len(s) <= maxNameBytes && s == strings.TrimSpace(s) && !strings.ContainsFunc(s, odd)
}
