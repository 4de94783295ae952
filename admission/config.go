package admission

import (
	"errors"
	"fmt"
	"math"
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
	// at while there is work. Default 10ms; must be positive. What is released
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
	// Name is what requests call the band. Required, unique.
	Name string `yaml:"name"`
	// Priority orders the bands: of those that may pass, the highest goes
	// first. Default 0; any number. Bands of equal priority go by chance.
	Priority int `yaml:"priority"`
	// SaturationCeiling is the saturation above which the band's requests
	// wait: 0 waits unless the pool is idle, 1 flows up to the healthy limit,
	// and above 1 never waits. Default 1 where a file leaves it out; 0 or more.
	SaturationCeiling float64 `yaml:"saturation_ceiling" default:"1"`
}

// maxBands bounds what is kept per pool.
const maxBands = 64

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
	for _, d := range []struct {
		key  string
		v    time.Duration
		want string
	}{{"queue_ttl", c.QueueTTL, "30s"}, {"interval", c.Interval, "10ms"}} {
		if d.v <= 0 {
			errs = append(errs, fmt.Errorf("%s: %v is not positive; want e.g. %s", d.key, d.v, d.want))
		}
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
