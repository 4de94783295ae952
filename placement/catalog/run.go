package catalog

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/llmgw/llmgw/engines"
)

// Bounds of how a model is run.
const (
	MaxReplicas    = 10000 // of one model
	MaxPlaces      = 1000  // entries of each list of [Placement]
	MaxSourceBytes = 4096
	maxLabelBytes  = 128
)

// Scaling is how many replicas of a model run. A zero of min or max is never
// filled in: with neither key set the model is declared, and nothing of it runs.
type Scaling struct {
	// Min is how many replicas run at least. Default 0.
	Min int `yaml:"min"`
	// Max is how many replicas run at most. Default 0: none, whoever asks for the
	// model; no less than min. Above a min of 0 the model is loaded when somebody asks
	// for it; further replicas are started while those that run are full.
	Max int `yaml:"max"`
	// IdleTimeout is how long nobody may use what runs above min until it is stopped.
	// Default 0, which is `control.idle_timeout`; 1s to 24h.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// TargetLoad is how full the replicas are at most, of what their engines run at
	// once, until another one is started, up to max. Default 0, which is
	// `control.target_load`; at most 1.
	TargetLoad float64 `yaml:"target_load"`
	// Prewarm are times at which the model is up before anybody asks. Default none.
	Prewarm []Prewarm `yaml:"prewarm"`
}

// Placement is where replicas of a model may run, and what they take. It
// restricts; an empty one allows every node that the profile fits on.
type Placement struct {
	// Nodes are the only nodes that may be used. Default none: any node.
	Nodes []string `yaml:"nodes"`
	// Labels are those that a node must have, name and value. Default none.
	Labels map[string]string `yaml:"labels"`
	// Classes are the classes of cards that may be used, as `llmgw ctl nodes` names
	// them. Default none: any. The cards of one replica are of one class either way.
	Classes []string `yaml:"classes"`
	// Spread is the label of nodes, such as rack, over whose values the replicas are
	// spread. Default "": over nodes.
	Spread string `yaml:"spread"`
	// Apart are other models, by name, whose replicas may not run on a node with one
	// of this model. Default none. One that the catalog does not have keeps nothing
	// apart.
	Apart []string `yaml:"apart"`
	// CardMemoryBytes is how much memory a replica takes of each of its cards.
	// Default 0: not known.
	CardMemoryBytes uint64 `yaml:"card_memory_bytes"`
	// HostMemoryBytes is how much of its node's own memory a rank takes. Default 0:
	// not known.
	HostMemoryBytes uint64 `yaml:"host_memory_bytes"`
}

// Replicas returns how many replicas run at least and at most. Without scaling,
// or without a profile to run by, it is none.
func (m *Model) Replicas() (least, most int) {
	if m.Scaling == nil || m.Profile == nil {
		return 0, 0
	}
	return m.Scaling.Min, m.Scaling.Max
}

// RunProfile returns the profile with what it takes from the rest of the entry:
// the engine loads the source and answers to the name. It is false for a model
// that nothing is said about how to run. Where the source is a URL, whoever
// launches the engine puts the path of what was fetched in the place of Model. The
// caller owns the result.
func (m *Model) RunProfile() (engines.Profile, bool) {
	if m.Profile == nil {
		return engines.Profile{}, false
	}
	p := *cloneProfile(m.Profile)
	p.Model, p.ServedNames = m.Source, []string{m.Name}
	return p, true
}

// WeightsKey names what the model's engine loads: models with one key have the same
// weights. Empty: the model has no source.
func (m *Model) WeightsKey() string {
	if revision := m.revision(); revision != "" {
		return m.Source + "@" + revision
	}
	return m.Source
}

// revision is which revision of a name the engine loads; "": that of the default.
func (m *Model) revision() string {
	if m.Profile == nil || m.SourceKind() != SourceName {
		return ""
	}
	return m.Profile.Revision
}

// SourceKind is what a source is.
type SourceKind uint8

// The kinds of sources.
const (
	SourceNone SourceKind = iota // there is none
	SourcePath                   // a path on the nodes, which is never fetched
	SourceURL                    // an http or https URL, which the node fetches
	SourceName                   // a name that the engine finds by itself
)

// SourceKind returns what the model's source is.
func (m *Model) SourceKind() SourceKind {
	switch {
	case m.Source == "":
		return SourceNone
	case strings.HasPrefix(m.Source, "/"):
		return SourcePath
	case strings.HasPrefix(m.Source, "http://"), strings.HasPrefix(m.Source, "https://"):
		return SourceURL
	}
	return SourceName
}

// validateRun returns what is wrong with how the model is run. path is that of
// the entry.
func (m *Model) validateRun(path string) []error {
	var errs []error
	fault := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s%s: %s", path, key, fmt.Sprintf(format, args...)))
	}
	if problem := m.sourceFault(); problem != "" {
		fault("source", "%s", problem)
	}
	if m.Profile != nil {
		m.validateProfile(fault)
	}
	if m.Scaling != nil {
		m.validateScaling(fault)
	}
	if m.Placement != nil {
		m.validatePlacement(fault)
	}
	return errs
}

func (m *Model) sourceFault() string {
	s := m.Source
	switch {
	case s == "" && m.Profile != nil:
		return `is missing, so there is nothing to run; want a path on the nodes, an http or https URL, or a name that the engine finds by itself`
	case s == "":
		return ""
	case len(s) > MaxSourceBytes:
		return fmt.Sprintf("%d bytes; want at most %d", len(s), MaxSourceBytes)
	case strings.HasPrefix(s, "-") || strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return fmt.Sprintf("%q would be read as a flag or cannot be passed on; want a path, a URL or a name", s)
	case strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../"):
		return fmt.Sprintf("%q is relative; want the path from /, on the nodes", s)
	}
	scheme, rest, is := strings.Cut(s, "://")
	if !is {
		return ""
	}
	u, err := url.Parse(s)
	switch {
	case scheme != "http" && scheme != "https":
		return fmt.Sprintf("%q cannot be fetched; want an http or https URL, a path on the nodes, or a name that the engine finds by itself", s)
	case strings.Contains(strings.SplitN(rest, "/", 2)[0], "@"):
		return "holds a user or a password, and a catalog is shown to everybody who asks; want the URL without them"
	case err != nil || u.Host == "":
		return fmt.Sprintf("%q is no URL; want e.g. https://models.example/qwen3-8b.gguf", s)
	}
	return ""
}

// validateProfile reports what of the profile contradicts itself or the rest of
// the entry. What an adapter alone knows it does not see.
func (m *Model) validateProfile(fault func(key, format string, args ...any)) {
	p := m.Profile
	if err := engines.ValidID(string(p.Engine)); err != nil || p.Engine == engines.Auto {
		fault("profile.engine", "%q is no engine that can be launched; want one such as vllm, sglang, llamacpp or sim", p.Engine)
	}
	if p.Model != "" && p.Model != m.Source {
		fault("profile.model", "%q is not the source, %q, which is what the engine loads; leave it out", p.Model, m.Source)
	}
	if len(p.ServedNames) > 0 && !slices.Equal(p.ServedNames, []string{m.Name}) {
		fault("profile.served_names", "%q is not the model's name, %q, which is what the engine answers to; leave it out", p.ServedNames, m.Name)
	}
	run, _ := m.RunProfile()
	for _, f := range run.Faults() {
		if f.Field != "model" { // the source's own words are said already
			key, text := entryFault(f)
			fault(key, "%s", text)
		}
	}
	run.CPU = false
	if p.CPU && run.Cards() > 1 {
		fault("profile.cpu", "is true beside parallel sizes that divide the model over %d cards; leave one or the other out", run.Cards())
	}
}

// RunFaults returns what an adapter said of a [Model.RunProfile] as faults of the
// entry, joined, each beginning with the path of its key.
func RunFaults(faults []engines.Fault) error {
	errs := make([]error, len(faults))
	for i, f := range faults {
		key, text := entryFault(f)
		errs[i] = fmt.Errorf("%s: %s", key, strings.ReplaceAll(text, "\n", " "))
	}
	return errors.Join(errs...)
}

// entryFault is a fault of a RunProfile as one of the entry that it is made of.
func entryFault(f engines.Fault) (key, text string) {
	key, inner, nested := strings.Cut(f.Field, ".")
	text = f.Problem
	if nested {
		text = inner + " " + text
	}
	if f.Advice != "" {
		text += "; " + f.Advice
	}
	switch {
	case strings.HasPrefix(key, "served_names"):
		return "name", text
	case key == "model":
		return "source", text
	}
	return "profile." + key, text
}

func (m *Model) validatePlacement(fault func(key, format string, args ...any)) {
	p := m.Placement
	if m.Profile == nil {
		fault("placement", "stands without a profile, so there is nothing to place; add a profile, or remove it")
		return
	}
	for _, list := range []struct {
		key     string
		entries []string
		check   func(string) string
	}{
		{"nodes", p.Nodes, func(s string) string {
			if engines.ValidID(s) != nil {
				return fmt.Sprintf("%q is no ID of a node; want letters, digits, dots, dashes and underscores", s)
			}
			return ""
		}},
		{"classes", p.Classes, func(s string) string { return labelFault(s, 1) }},
		{"apart", p.Apart, func(s string) string {
			if err := checkName("", s); err != nil {
				return strings.TrimPrefix(err.Error(), ": ")
			}
			if m.answers(s) {
				return fmt.Sprintf("%q is this model itself; want another one: its own replicas are spread", s)
			}
			return ""
		}},
	} {
		if len(list.entries) > MaxPlaces {
			fault("placement."+list.key, "%d entries; at most %d are accepted", len(list.entries), MaxPlaces)
			continue
		}
		for i, entry := range list.entries {
			problem := list.check(entry)
			if problem == "" && slices.Contains(list.entries[:i], entry) {
				problem = fmt.Sprintf("%q stands there already; list it once", entry)
			}
			if problem != "" {
				fault(fmt.Sprintf("placement.%s[%d]", list.key, i), "%s", problem)
			}
		}
	}
	if len(p.Labels) > MaxPlaces {
		fault("placement.labels", "%d entries; at most %d are accepted", len(p.Labels), MaxPlaces)
	}
	for name, value := range sorted(p.Labels) {
		if problem := labelFault(name, 1); problem != "" {
			fault("placement.labels", "%s", problem)
		} else if problem := labelFault(value, 0); problem != "" {
			fault("placement.labels", "the value of %s: %s", name, problem)
		}
	}
	if p.Spread != "" {
		if problem := labelFault(p.Spread, 1); problem != "" {
			fault("placement.spread", "%s", problem)
		}
	}
	if m.Profile.CPU && len(p.Classes) > 0 {
		fault("placement.classes", "stands beside profile.cpu, which takes no cards; leave one of them out")
	}
	if m.Profile.CPU && p.CardMemoryBytes > 0 {
		fault("placement.card_memory_bytes", "stands beside profile.cpu, which takes no cards; leave one of them out")
	}
}

// labelFault says what is wrong with a label's name or value, or with a class.
func labelFault(s string, least int) string {
	switch {
	case len(s) < least:
		return fmt.Sprintf("%q is empty; want 1 to %d bytes", s, maxLabelBytes)
	case len(s) > maxLabelBytes:
		return fmt.Sprintf("%d bytes; want at most %d", len(s), maxLabelBytes)
	case strings.TrimSpace(s) != s || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Sprintf("%q is not plain; want printable text without space at its ends", s)
	}
	return ""
}
