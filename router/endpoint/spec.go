package endpoint

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/llmgw/llmgw/engines"
)

// Model is one model that an endpoint serves. In configuration it may be
// written as its name alone.
type Model struct {
	// Name is what the router calls the model. Required.
	Name string `yaml:"name"`
	// Upstream is what the engine calls it. Empty means Name.
	Upstream string `yaml:"upstream"`
}

// UnmarshalText reads a model that is written as its name alone.
func (m *Model) UnmarshalText(text []byte) error {
	*m = Model{Name: string(text)}
	return nil
}

// KVEvents says where an engine tells what its KV cache holds, as vLLM and SGLang do
// with --kv-events-config. The zero value: nowhere.
type KVEvents struct {
	// Endpoint is where the engine publishes, tcp://HOST:PORT with the engine's own
	// host in place of the * that the engine is given. Default "": it does not, and
	// what it holds is inferred from what it was sent.
	Endpoint string `yaml:"endpoint"`
	// ReplayEndpoint is where it answers for events that were missed,
	// tcp://HOST:PORT. Default "": it does not, so that each lost connection costs
	// all that was known, and a router that starts later than the engine never
	// knows all.
	ReplayEndpoint string `yaml:"replay_endpoint"`
	// Topic is the beginning of the topics that are wanted. Default "": all.
	Topic string `yaml:"topic"`
	// Ranks is how many data-parallel ranks the engine has; rank r publishes at the
	// port r higher. Default 1; 1 to 1024. In code 0 means 1.
	Ranks int `yaml:"data_parallel_size" default:"1"`
}

// Spec describes an endpoint. Two equal specs are the same endpoint.
type Spec struct {
	// ID names the endpoint in logs and metrics and is unique in its set.
	// Required; printable, without spaces, at most 128 bytes.
	ID string `yaml:"id"`
	// URL is where the engine listens, http or https, with an optional base
	// path that goes before every request path. Required. A final /v1 does
	// not belong to it, nor the path of a request such as
	// /v1/chat/completions, since request paths begin with that.
	URL string `yaml:"url"`
	// Pool groups endpoints that are saturated together. Default "".
	Pool string `yaml:"pool"`
	// Weight is the share of the load that the endpoint takes beside others
	// of its model: one of weight 2 takes twice as much as one of weight 1.
	// Default 1; more than 0 and at most 1e6. In code 0 means 1; a
	// configuration file that says 0 is refused, since nobody means 1 by it.
	Weight float64 `yaml:"weight" default:"1"`
	// MaxRunning is how many requests the engine runs at once, as it was told by
	// its own options: vLLM --max-num-seqs, SGLang --max-running-requests,
	// llama.cpp --parallel, TGI --max-concurrent-requests, TensorRT-LLM
	// --max_batch_size, LMDeploy --max-batch-size, Ollama OLLAMA_NUM_PARALLEL.
	// Admission never takes it for more, so a smaller number keeps it quick for
	// those who run; it sees by itself when an engine runs fewer. Default 0:
	// unknown, so what its kind runs by default is assumed, or 256, until it was
	// seen. At most 1e6.
	MaxRunning int `yaml:"max_running"`
	// PriorityOrder is how the engine reads the field "priority" of a request,
	// which is then set from the band in which the request was admitted, in
	// place of the client's own. Default PriorityUnset: the field is left as it
	// is, since engines that do not order by it refuse or ignore it.
	PriorityOrder engines.PriorityOrder `yaml:"-"`
	// Engine is what runs there. Default "" which, like auto, lets the metrics
	// page tell. A name of an adapter's own is one too: of such an engine nothing
	// is read or relied on but what the router was told of it.
	Engine engines.Name `yaml:"engine"`
	// Models are what the endpoint serves. Required: at least one.
	Models []Model `yaml:"models"`
	// Secret is the engine's API key, sent as a bearer token. Default none.
	// It is never printed.
	Secret Secret `yaml:"-"`
	// CAFile is a PEM file with the authorities to trust for an https URL.
	// Default "": those of the system.
	CAFile string `yaml:"ca_file"`
	// SkipIdentity leaves out what is asked of an engine that has no key and does
	// not check a request's model by itself: GET /v1/models, on each new connection
	// over http, so that no other engine that came to listen at the address is
	// taken for it. Default false.
	SkipIdentity bool `yaml:"skip_identity"`
	// KVEvents is where the engine tells what its KV cache holds. Default: nowhere.
	KVEvents KVEvents `yaml:"kv_events"`
	// Start names the start of what runs there: another one is another endpoint, with
	// counters and a cache of its own. Default "": nobody tells starts apart.
	Start string `yaml:"-"`
	// Told is what a control plane said of an engine that the router does not know by
	// itself, from the adapter that launched it. It is shared and never changed.
	// Default nil: nothing.
	Told *Told `yaml:"-"`
	// Unproven: whether the engine looks at Secret is not known, so that an answer
	// proves nothing by it, and what is asked of an engine without a key is asked of
	// this one too. Default false.
	Unproven bool `yaml:"-"`
}

// Told is what an adapter says of its engine.
type Told struct {
	Capabilities engines.Capabilities
	// Metrics is how its load is read. Nil: it cannot be.
	Metrics *engines.MetricContract
}

func (t *Told) equal(o *Told) bool {
	if t == nil || o == nil || t == o {
		return t == o
	}
	return t.Capabilities == o.Capabilities && (t.Metrics == o.Metrics || reflect.DeepEqual(t.Metrics, o.Metrics))
}

// Validate reports every fault of the spec, joined. Each begins with the key
// it is about, relative to the spec.
func (s Spec) Validate() error { return errors.Join(s.problems("")...) }

// ValidateSpecs reports every fault of the list, joined: those of each spec
// and identifiers used twice. Each begins with its key, "endpoints[2].url".
func ValidateSpecs(specs []Spec) error {
	var errs []error
	first := make(map[string]int, len(specs))
	for i, s := range specs {
		prefix := fmt.Sprintf("endpoints[%d].", i)
		errs = append(errs, s.problems(prefix)...)
		if s.ID == "" {
			continue
		}
		if j, ok := first[s.ID]; ok {
			errs = append(errs, fmt.Errorf("%sid: %q is used by endpoints[%d] too; want one of its own", prefix, s.ID, j))
			continue
		}
		first[s.ID] = i
	}
	return errors.Join(errs...)
}

// problems lists the spec's faults, each key after prefix.
func (s Spec) problems(prefix string) []error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(prefix+format, args...)) }

	switch {
	case s.ID == "":
		add("id: is empty; want a name of its own")
	case len(s.ID) > 128:
		add("id: %.20q… has %d bytes; want at most 128", s.ID, len(s.ID))
	case !printable(s.ID) || strings.Contains(s.ID, " "):
		add("id: %q has spaces or what cannot be printed; want neither", s.ID)
	}
	if !printable(s.Pool) || len(s.Pool) > 128 {
		add("pool: %.20q is too long or cannot be printed; want at most 128 printable bytes", s.Pool)
	}
	u := s.urlProblem(add)
	if math.IsNaN(s.Weight) || s.Weight < 0 || s.Weight > 1e6 {
		add("weight: %v is out of range; want more than 0 and at most 1e6, e.g. 1", s.Weight)
	}
	if s.MaxRunning < 0 || s.MaxRunning > 1e6 {
		add("max_running: %d is out of range; want 1 to 1e6, such as 256, or 0 for what the engine is seen to run", s.MaxRunning)
	}
	if s.PriorityOrder > engines.PriorityHighFirst {
		add("priority_order: %d is unknown; want low first, high first or unset", s.PriorityOrder)
	}
	if !s.Engine.Detected() && !s.Engine.Usable() {
		add("engine: %.80q is no engine's name; want auto or one such as %v", s.Engine, engines.Names())
	}
	if s.Told != nil && s.Told.Metrics != nil {
		if err := s.Told.Metrics.Validate(); err != nil {
			add("metrics: %w", err)
		}
	}
	if len(s.Models) == 0 {
		add("models: is empty; want at least one model")
	}
	for i, m := range s.Models {
		if strings.TrimSpace(m.Name) == "" {
			add("models[%d].name: is empty; want the name requests use", i)
			continue
		}
		if slices.ContainsFunc(s.Models[:i], func(o Model) bool { return o.Name == m.Name }) {
			add("models[%d].name: %q is listed twice; want it once", i, m.Name)
		}
	}
	if s.CAFile != "" && u != nil && u.Scheme != "https" {
		add("ca_file: %q is of no use for an %s URL; want it with https only", s.CAFile, u.Scheme)
	}
	return errs
}

// urlProblem reports what is wrong with the URL and returns it if nothing is.
// It prints no part that may hold a password.
func (s Spec) urlProblem(add func(string, ...any)) *url.URL {
	if s.URL == "" {
		add("url: is empty; want e.g. http://10.0.0.5:8000")
		return nil
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		cause := err
		if e, ok := errors.AsType[*url.Error](err); ok {
			cause = e.Err
		}
		add("url: cannot be read (%v); want e.g. http://10.0.0.5:8000", cause)
		return nil
	}
	switch shown := u.Redacted(); {
	case u.Scheme != "http" && u.Scheme != "https":
		add("url: %q: scheme must be http or https", shown)
	case u.Hostname() == "":
		add("url: %q has no host; want e.g. http://10.0.0.5:8000", shown)
	case u.User != nil:
		add("url: %q has a user or password; want the key as a secret instead", shown)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		add("url: %q has a query or fragment; want scheme, host and base path only", shown)
	case strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
		add("url: %q ends in /v1; want it without, since request paths begin with it", shown)
	case requestPath(u.Path) != "":
		base := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), requestPath(u.Path))
		add("url: %q has the path of a request; want %q, since each request brings its own", shown, u.Scheme+"://"+u.Host+base)
	default:
		return u
	}
	return nil
}

// requestPath returns the path of an OpenAI-compatible API with which path
// ends, "" if with none. A /v1/ elsewhere may belong to a base path.
func requestPath(path string) string {
	path = strings.TrimRight(path, "/")
	for _, call := range []string{"chat/completions", "completions", "embeddings", "responses", "messages", "models", "rerank", "score"} {
		if strings.HasSuffix(path, "/v1/"+call) {
			return "/v1/" + call
		}
	}
	return ""
}

// printable reports whether text can stand in a log line and a metric label.
func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// normal returns the spec with its defaults filled in and its slice its own.
func (s Spec) normal() Spec {
	if s.Weight == 0 {
		s.Weight = 1
	}
	s.URL = strings.TrimRight(s.URL, "/")
	switch {
	case s.KVEvents.Endpoint == "":
		s.KVEvents = KVEvents{}
	case s.KVEvents.Ranks == 0:
		s.KVEvents.Ranks = 1
	}
	s.Models = slices.Clone(s.Models)
	for i := range s.Models {
		if s.Models[i].Upstream == "" {
			s.Models[i].Upstream = s.Models[i].Name
		}
	}
	return s
}

// equal reports whether two normal specs describe the same endpoint.
func (s Spec) equal(o Spec) bool {
	return s.ID == o.ID && s.URL == o.URL && s.Pool == o.Pool && s.Weight == o.Weight &&
		s.MaxRunning == o.MaxRunning && s.PriorityOrder == o.PriorityOrder &&
		s.Engine == o.Engine && s.Secret == o.Secret && s.CAFile == o.CAFile && s.SkipIdentity == o.SkipIdentity && s.KVEvents == o.KVEvents &&
		s.Start == o.Start && s.Unproven == o.Unproven && s.Told.equal(o.Told) &&
		slices.Equal(s.Models, o.Models)
}
