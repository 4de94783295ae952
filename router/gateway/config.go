package gateway

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/proxy"
	"github.com/llmgw/llmgw/router/schedule"
	"github.com/llmgw/llmgw/router/scrape"
)

// Config is the data plane's part of server.yaml. Start from [DefaultConfig].
type Config struct {
	// Router is how requests are read, sent, retried and relayed, and how
	// engines are watched.
	Router Router `yaml:"router"`
	// Admission is how requests wait for their turn when engines are busy.
	Admission Admission `yaml:"admission"`
	// OnDemand is how requests wait for models that are not loaded.
	OnDemand OnDemand `yaml:"on_demand"`
	// Scoring is what endpoints' loads are measured against, by admission too.
	Scoring schedule.Config `yaml:"scoring"`
	// Prefix is what is remembered of the prompts that were sent to which engine.
	Prefix Prefix `yaml:"prefix"`
	// Recorder is where decisions are written down.
	Recorder Recorder `yaml:"recorder"`
	// Models are the names that clients may use. Default none: every model
	// that an endpoint serves can be asked for by that name.
	Models []catalog.Model `yaml:"models"`
	// Endpoints are the engines. Default none: until a reload brings some, a
	// request for a name under models is answered 503, for any other name 404.
	Endpoints []Endpoint `yaml:"endpoints"`
}

// Router joins the parts of the section `router`.
type Router struct {
	Core    router.Config   `yaml:",inline"`
	Relay   proxy.Config    `yaml:",inline"`
	Breaker endpoint.Config `yaml:",inline"`
	Scrape  scrape.Config   `yaml:",inline"`
	// StaleAfter is the age from which what an engine said about its load is
	// no longer believed: the endpoint is then judged by this router's own
	// requests and scored down, but never dropped for it. Default 10s; must
	// be longer than scrape_interval.
	StaleAfter time.Duration `yaml:"stale_after"`
}

// Endpoint is one engine of the list.
type Endpoint struct {
	endpoint.Spec `yaml:",inline"`
	// KeyEnv names the environment variable that holds the engine's API key.
	// Default "", no key.
	KeyEnv string `yaml:"key_env"`
	// KeyFile names the file that holds it, and nothing else but white space
	// around it. Default "", no key.
	KeyFile string `yaml:"key_file"`
	// PriorityScheduling says that the engine orders its own queue by the field
	// "priority" of a request: vLLM with --scheduling-policy priority, SGLang with
	// --enable-priority-scheduling and not --schedule-low-priority-values-first.
	// The field is then set from the request's band, in place of the client's
	// own. Default false, which leaves the field as the client sent it: vLLM
	// refuses it without that option. Needs engine: vllm or sglang, since they
	// read it in opposite ways.
	PriorityScheduling bool `yaml:"priority_scheduling"`
}

// DefaultConfig returns the defaults that the fields' comments state.
func DefaultConfig() Config {
	return Config{
		Router: Router{
			Core: router.DefaultConfig(), Relay: proxy.DefaultConfig(), Breaker: endpoint.DefaultConfig(),
			Scrape: scrape.DefaultConfig(), StaleAfter: 10 * time.Second,
		},
		Admission: defaultAdmission(),
		OnDemand:  defaultOnDemand(),
		Scoring:   schedule.DefaultConfig(),
		Prefix:    defaultPrefix(),
		Recorder:  defaultRecorder(),
	}
}

// Validate reports every value that makes no sense, joined. Each error begins
// with the key's path. It reads no file and no environment. Routing profiles of
// an embedder's own ([Deps].Profiles) are known to New and Reload only.
func (c Config) Validate() error { return c.validate(schedule.ProfileNames()) }

func (c Config) validate(profiles []string) error {
	var errs []error
	errs = append(errs, under("router.", c.Router.core().Validate(), c.Router.Relay.Validate(),
		c.Router.Breaker.Validate(), c.Router.Scrape.Validate())...)
	if c.Router.StaleAfter <= c.Router.Scrape.Interval {
		errs = append(errs, fmt.Errorf("router.stale_after: %v is no longer than scrape_interval (%v), so every load would be too old; want several times that, such as 10s",
			c.Router.StaleAfter, c.Router.Scrape.Interval))
	}
	scoring := c.scoring()
	scoring.StaleAfter = max(scoring.StaleAfter, 1) // judged above
	errs = append(errs, under("scoring.", scoring.Validate())...)
	errs = append(errs, under("prefix.", c.Prefix.validate()...)...)
	errs = append(errs, c.validateAdmission()...)
	errs = append(errs, under("on_demand.", c.OnDemand.validate()...)...)
	errs = append(errs, c.validateRecorder()...)
	specs := make([]endpoint.Spec, len(c.Endpoints))
	for i, e := range c.Endpoints {
		specs[i] = e.Spec
		if e.KeyEnv != "" && e.KeyFile != "" {
			errs = append(errs, fmt.Errorf("endpoints[%d].key_file: %q stands beside key_env %q; want one of them", i, e.KeyFile, e.KeyEnv))
		}
		if e.PriorityScheduling && e.priorityOrder() == engines.PriorityUnset {
			errs = append(errs, fmt.Errorf("endpoints[%d].priority_scheduling: is true and engine is %q; want engine: vllm or engine: sglang beside it, since they read priorities in opposite ways and others have none",
				i, e.Engine))
		}
		switch k := e.KVEvents; {
		case k.Endpoint != "":
			errs = append(errs, under(fmt.Sprintf("endpoints[%d].kv_events.", i), scrape.KVEventsConfig(k).Validate())...)
		case k.ReplayEndpoint != "":
			errs = append(errs, fmt.Errorf("endpoints[%d].kv_events.replay_endpoint: %q stands without an endpoint; want e.g. endpoint: tcp://10.0.0.7:5557", i, k.ReplayEndpoint))
		}
	}
	errs = append(errs, under("", endpoint.ValidateSpecs(specs))...)
	for i, s := range specs { // who writes another name has made a slip
		if s.Engine.Usable() && !s.Engine.Known() {
			errs = append(errs, fmt.Errorf("endpoints[%d].engine: %q is unknown; want auto or one of %v", i, s.Engine, engines.Names()))
		}
	}
	errs = append(errs, checkProfile("router.default_profile", c.Router.Core.DefaultProfile, profiles))
	errs = append(errs, under("", c.validateModels(profiles))...)
	return errors.Join(errs...)
}

// validateModels reports what is wrong with the models. profiles are the routing
// profiles that there are.
func (c Config) validateModels(profiles []string) error {
	errs := []error{catalog.Validate(c.Models)}
	for i, m := range c.Models {
		errs = append(errs, checkProfile(fmt.Sprintf("models[%d].routing_profile", i), m.RoutingProfile, profiles))
	}
	return errors.Join(errs...)
}

// Profile returns the built-in routing profile of that name, its scorers made
// from this configuration; false if there is none. The caller owns it: rename
// it, add a scorer, and hand it to [Deps].Profiles.
func (c Config) Profile(name string) (schedule.Profile, bool) {
	for _, p := range schedule.Profiles(c.scoring()) {
		if p.Name == name {
			return p, true
		}
	}
	return schedule.Profile{}, false
}

// scoring is what the scheduler is made from: the age from which a load is not
// believed stands beside the scraping that it depends on.
func (c Config) scoring() schedule.Config {
	s := c.Scoring
	s.StaleAfter = c.Router.StaleAfter
	return s
}

// core is the router's own part with what it shares with the relay.
func (r Router) core() router.Config {
	core := r.Core
	core.Total = r.Relay.Timeouts.Total
	if core.Total <= 0 {
		core.Total = 1 // the relay's validation speaks of it
	}
	return core
}

// checkProfile checks the name of a routing profile against the known ones; the
// empty one is the default.
func checkProfile(path, name string, known []string) error {
	if name == "" || slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("%s: %q is no routing profile; want one of %s", path, name, strings.Join(known, ", "))
}

// Warnings are things that are allowed and probably not meant, each beginning
// with the key's path.
func (c Config) Warnings() []string {
	if len(c.Endpoints) == 0 {
		// That no endpoint serves a model follows from it.
		return []string{"endpoints: there are none; what no replica of a fleet serves is answered 503 or, if its model is not known, 404"}
	}
	out := c.admissionWarnings()
	served := map[string]bool{}
	for _, e := range c.Endpoints {
		for _, m := range e.Models {
			served[m.Name] = true
		}
	}
	for i, m := range c.Models {
		for j := 1; j < len(m.Prices); j++ {
			if before, now := m.Prices[j-1], m.Prices[j]; before.Answers() > 0 && now.Answers() == 0 && now.Input > 0 {
				out = append(out, fmt.Sprintf("models[%d].prices[%d].output: is 0, unlike in prices[%d], so answers of %q cost nothing from then on", i, j, j-1, m.Name))
			}
		}
		paid := slices.ContainsFunc(m.Prices, func(p catalog.Price) bool { return p.Answers() > 0 })
		if paid && m.MaxOutputTokens == 0 && m.ContextTokens == 0 {
			out = append(out, fmt.Sprintf("models[%d].max_output_tokens: neither this nor context_tokens is set, so what an answer of %q may cost has no bound: keys with a budget must send max_tokens, or are refused", i, m.Name))
		}
		if m.Profile == nil && !served[m.Name] && !slices.ContainsFunc(m.Aliases, func(a string) bool { return served[a] }) {
			out = append(out, fmt.Sprintf("models[%d].name: no endpoint serves %q; requests for it get its fallbacks, or 503", i, m.Name))
		}
	}
	return out
}

// under splits joined errors and puts the section's path before each.
func under(path string, all ...error) []error {
	var out []error
	for _, err := range all {
		if err == nil {
			continue
		}
		if j, ok := err.(interface{ Unwrap() []error }); ok {
			out = append(out, under(path, j.Unwrap()...)...)
			continue
		}
		out = append(out, fmt.Errorf("%s%w", path, err))
	}
	return out
}

// specs resolves the endpoints' keys. Errors begin with the key's path.
func (c Config) specs() ([]endpoint.Spec, error) {
	out := make([]endpoint.Spec, len(c.Endpoints))
	var errs []error
	for i, e := range c.Endpoints {
		out[i] = e.Spec
		if e.PriorityScheduling {
			out[i].PriorityOrder = e.priorityOrder()
		}
		if out[i].Engine == engines.Auto {
			out[i].Engine = ""
		}
		key, err := e.key()
		if err != nil {
			errs = append(errs, fmt.Errorf("endpoints[%d].%w", i, err))
			continue
		}
		if key != "" {
			out[i].Secret = endpoint.Secret(key)
		}
	}
	return out, errors.Join(errs...)
}

// priorityOrder is how an engine of the endpoint's kind reads priorities.
func (e Endpoint) priorityOrder() engines.PriorityOrder {
	return capabilities(e.Engine).PriorityOrder
}

func (e Endpoint) key() (string, error) {
	var key, path string
	switch {
	case e.KeyEnv != "":
		path = "key_env"
		v, ok := os.LookupEnv(e.KeyEnv)
		if !ok {
			return "", fmt.Errorf("key_env: the environment variable %q is not set; set it or leave the key out", e.KeyEnv)
		}
		key = v
	case e.KeyFile != "":
		path = "key_file"
		b, err := os.ReadFile(e.KeyFile)
		if err != nil {
			return "", fmt.Errorf("key_file: %w", err)
		}
		key = string(b)
	default:
		return "", nil
	}
	key = strings.TrimSpace(key)
	if key == "" {
		return "", fmt.Errorf("%s: the key is empty; put the engine's API key there or leave the setting out", path)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s: the key holds characters that no HTTP header can carry; want printable ASCII without spaces", path)
	}
	return key, nil
}
