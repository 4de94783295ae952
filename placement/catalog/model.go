package catalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/llmgw/llmgw/engines"
)

// Bounds of a catalog. They are far above what a fleet needs and keep a broken
// or hostile source from filling memory or a metric's labels.
const (
	MaxModels    = 10000   // models in one catalog
	MaxNameBytes = 256     // bytes of a model's name, an alias or a profile's name
	MaxAliases   = 64      // aliases of one model
	MaxFallbacks = 16      // fallbacks of one model; each is at most one more try of a request
	MaxTokens    = 1 << 30 // tokens of a context or an answer
)

// Model is one entry of the catalog.
type Model struct {
	// Name is the canonical name: what `/v1/models` lists, metrics show and
	// permissions are checked against. Required; 1 to 256 bytes of UTF-8
	// without control characters, `*`, or space at either end; case counts.
	Name string `yaml:"name"`
	// Aliases are other names for the model. A request by alias is served by
	// the model, under the rights and limits of the model. Default none; at
	// most 64; none may be the name or alias of another model.
	Aliases []string `yaml:"aliases"`
	// Fallbacks are models that are tried, in order, when this one has no
	// endpoint left that could answer. Default none; at most 16; names or
	// aliases of other models in the catalog. Only the list of the model that
	// was asked for counts: a fallback's own fallbacks are not followed.
	Fallbacks []string `yaml:"fallbacks"`
	// RoutingProfile names the profile by which an endpoint is chosen: chat,
	// batch, long-context or debug. Default "", which is
	// `router.default_profile`.
	RoutingProfile string `yaml:"routing_profile"`
	// Prices are what tokens cost, and from when on. Default none: its use is
	// counted and costs nothing, and a key with a budget may use it freely.
	Prices []Price `yaml:"prices"`
	// MaxOutputTokens is the longest answer in tokens, for requests that set no
	// max_tokens: a budget must cover it before such a request runs, and it goes
	// along to the engine. Default 0: not known, and context_tokens less the prompt
	// counts.
	MaxOutputTokens int64 `yaml:"max_output_tokens"`
	// ContextTokens is how many tokens prompt and answer may have together. Default
	// 0: not known.
	ContextTokens int64 `yaml:"context_tokens"`

	// Source is where the weights are: a path on the nodes, an http or https URL
	// that the node fetches, or a name that the engine finds by itself. Default "":
	// none, which a model with a profile may not have.
	Source string `yaml:"source"`
	// Profile is how the model is run on the machines of this fleet. Default none:
	// it is served by what is listed under endpoints.
	Profile *engines.Profile `yaml:"profile"`
	// Scaling is how many replicas run. Default none: nothing is started.
	Scaling *Scaling `yaml:"scaling"`
	// Placement is where replicas may run, and what they take. Default none: where
	// the profile fits.
	Placement *Placement `yaml:"placement"`
}

// Validate returns every fault of the list, joined, or nil. Each begins with
// the path of the key at fault, as in `models[1].aliases[0]: …`.
//
// Two models may name each other as fallbacks. That is no loop, because the
// fallbacks of a fallback are not followed, and it is what two models of about
// the same size are for.
func Validate(models []Model) error {
	names, errs := index(models)
	for i := range models {
		errs = append(errs, models[i].validateFallbacks(i, models, names)...)
		errs = append(errs, models[i].validateCost(fmt.Sprintf("models[%d]", i))...)
		errs = append(errs, models[i].validateRun(fmt.Sprintf("models[%d].", i))...)
	}
	return errors.Join(errs...)
}

// holder says which model of the list holds a name, and as what.
type holder struct {
	model int // position in the list
	alias bool
}

func (h holder) String() string {
	if h.alias {
		return fmt.Sprintf("an alias of models[%d]", h.model)
	}
	return fmt.Sprintf("the name of models[%d]", h.model)
}

// index maps every name and alias to the model that holds it and returns the
// faults found on the way. Names come before aliases, so that the alias and
// not the name is reported when they collide.
func index(models []Model) (map[string]holder, []error) {
	var errs []error
	if len(models) > MaxModels {
		errs = append(errs, fmt.Errorf("models: %d entries; at most %d are accepted", len(models), MaxModels))
	}
	names := make(map[string]holder, len(models))
	for i := range models {
		path := fmt.Sprintf("models[%d].name", i)
		if err := checkName(path, models[i].Name); err != nil {
			errs = append(errs, err)
			continue
		}
		if h, taken := names[models[i].Name]; taken {
			errs = append(errs, fmt.Errorf("%s: %q is already %v; names are unique", path, models[i].Name, h))
			continue
		}
		names[models[i].Name] = holder{model: i}
	}
	for i := range models {
		m := &models[i]
		if len(m.Aliases) > MaxAliases {
			errs = append(errs, fmt.Errorf("models[%d].aliases: %d entries; at most %d are accepted", i, len(m.Aliases), MaxAliases))
		}
		for j, alias := range m.Aliases {
			path := fmt.Sprintf("models[%d].aliases[%d]", i, j)
			if err := checkName(path, alias); err != nil {
				errs = append(errs, err)
				continue
			}
			if h, taken := names[alias]; taken {
				errs = append(errs, fmt.Errorf("%s: %q is already %v; a name or alias leads to one model", path, alias, h))
				continue
			}
			names[alias] = holder{model: i, alias: true}
		}
		if m.RoutingProfile != "" {
			if err := checkName(fmt.Sprintf("models[%d].routing_profile", i), m.RoutingProfile); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return names, errs
}

func (m *Model) validateFallbacks(i int, models []Model, names map[string]holder) []error {
	var errs []error
	if len(m.Fallbacks) > MaxFallbacks {
		errs = append(errs, fmt.Errorf("models[%d].fallbacks: %d entries; at most %d are accepted", i, len(m.Fallbacks), MaxFallbacks))
	}
	seen := make(map[int]int, len(m.Fallbacks)) // model → position of the fallback that named it
	for j, fallback := range m.Fallbacks {
		path := fmt.Sprintf("models[%d].fallbacks[%d]", i, j)
		if err := checkName(path, fallback); err != nil {
			errs = append(errs, err)
			continue
		}
		h, known := names[fallback]
		switch first, twice := seen[h.model]; {
		case !known:
			errs = append(errs, fmt.Errorf("%s: %q is no model or alias of this catalog; name one that is, or add it", path, fallback))
		case h.model == i:
			errs = append(errs, fmt.Errorf("%s: %q is this model itself; name another one", path, fallback))
		case twice:
			errs = append(errs, fmt.Errorf("%s: %q is the same model as fallbacks[%d], %q; list it once", path, fallback, first, models[h.model].Name))
		default:
			seen[h.model] = j
		}
	}
	return errs
}

// validateFallbackNames is validateFallbacks as far as it is known without the other
// models. path is that of the entry.
func (m *Model) validateFallbackNames(path string) []error {
	var errs []error
	if len(m.Fallbacks) > MaxFallbacks {
		errs = append(errs, fmt.Errorf("%s.fallbacks: %d entries; at most %d are accepted", path, len(m.Fallbacks), MaxFallbacks))
	}
	for j, fallback := range m.Fallbacks {
		at := fmt.Sprintf("%s.fallbacks[%d]", path, j)
		if err := checkName(at, fallback); err != nil {
			errs = append(errs, err)
			continue
		}
		switch {
		case m.answers(fallback):
			errs = append(errs, fmt.Errorf("%s: %q is this model itself; name another one", at, fallback))
		case slices.Contains(m.Fallbacks[:j], fallback):
			errs = append(errs, fmt.Errorf("%s: %q stands there already; list it once", at, fallback))
		}
	}
	return errs
}

// answers reports whether name is the model's name or an alias of it.
func (m *Model) answers(name string) bool { return name == m.Name || slices.Contains(m.Aliases, name) }

// checkName returns the first fault of a name. It never repeats a name that is
// too long, so that the message stays short.
func checkName(path, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s: %q is empty; want 1 to %d bytes", path, name, MaxNameBytes)
	case len(name) > MaxNameBytes:
		return fmt.Errorf("%s: %d bytes; want at most %d", path, len(name), MaxNameBytes)
	case !utf8.ValidString(name):
		return fmt.Errorf("%s: %q is not UTF-8; want UTF-8", path, name)
	case strings.TrimSpace(name) != name:
		return fmt.Errorf("%s: %q begins or ends with space; want none there", path, name)
	case strings.ContainsRune(name, '*'):
		return fmt.Errorf("%s: %q contains *; it is kept for patterns that match several models", path, name)
	}
	for _, r := range name {
		// Format characters (Cf) such as a zero-width space make two names
		// look the same on every page and in every log.
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return fmt.Errorf("%s: %q contains the invisible character %U; want printable text", path, name, r)
		}
	}
	return nil
}
