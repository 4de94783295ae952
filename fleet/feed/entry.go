package feed

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"reflect"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
)

// Bounds of a feed.
const (
	MaxEntries   = 10000 // replicas
	MaxRevoked   = 20000 // revocations
	MaxTextBytes = 512   // of an address, a secret, a name, a label
	MaxLabels    = 64    // of an entry
	// MaxModelBytes bounds what a router takes for the text of one entry of the
	// catalog, which a newer control plane may allow more for than this one.
	MaxModelBytes = 8 * catalog.MaxDefinitionBytes
)

// Instance is one start of one replica's engine.
type Instance struct {
	Replica    string
	Generation uint64
	// Start names the start: another one has another name.
	Start string
}

// String returns replica/generation/start.
func (i Instance) String() string {
	return i.Replica + "/" + strconv.FormatUint(i.Generation, 10) + "/" + i.Start
}

// Secret is the key that an engine asks of its callers. However it is printed,
// logged or encoded, it shows as "[redacted]", and as nothing if it is empty.
type Secret string

// Reveal returns the key itself.
func (s Secret) Reveal() string { return string(s) }

// String returns the key's stand-in.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[redacted]"
}

// Format writes the key's stand-in, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue returns the key's stand-in.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the key's stand-in; JSON and YAML use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Entry is a replica that routers may use.
type Entry struct {
	// Model is the canonical name in the catalog. An entry whose model the catalog
	// does not have is not published.
	Model string
	Instance
	// Address is where it answers, as host:port; the host is an IP address or a name.
	Address string
	// Secret is what it asks of its callers. Empty: nothing.
	Secret Secret
	Engine engines.Name
	// Served is the name by which the engine knows the model. Empty: as Model.
	Served string
	// MaxRunning bounds the requests that it runs at once. 0: not stated.
	MaxRunning int
	// PriorityScheduling: it heeds the priority of a request.
	PriorityScheduling bool
	// Facts are what its adapter says of the engine, shared and never changed. Nil:
	// nothing is known but the engine's name.
	Facts *Facts
	// Node, Fabric and Labels say where it runs, for people.
	Node, Fabric string
	Labels       map[string]string
}

// Facts are what the adapter of an engine says of it, so that a router can use and
// read an engine that it was not built to know.
type Facts struct {
	Capabilities engines.Capabilities
	// Metrics is how its load is read. Nil: it cannot be.
	Metrics *engines.MetricContract
	// ChecksSecret: it refuses callers without the entry's secret. Otherwise a secret
	// proves nothing, and what is behind the address has to be probed.
	ChecksSecret bool
}

// Validate returns everything that is wrong with the entry, joined. It says
// nothing of the secret but that it is too long.
func (e Entry) Validate() error {
	var errs []error
	fault := func(key, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %s", key, fmt.Sprintf(format, args...)))
	}
	if e.Model == "" || len(e.Model) > catalog.MaxNameBytes || !utf8.ValidString(e.Model) {
		fault("model", "%.80q; want 1 to %d bytes of UTF-8", e.Model, catalog.MaxNameBytes)
	}
	if err := engines.ValidID(e.Replica); err != nil {
		fault("replica", "%v", err)
	}
	if host, port, err := net.SplitHostPort(e.Address); err != nil || host == "" || !portOK(port) || len(e.Address) > MaxTextBytes || !plain(e.Address) {
		fault("address", "%.80q; want host:port, such as 10.0.0.5:8000", e.Address)
	}
	if len(e.Secret) > MaxTextBytes || !plain(string(e.Secret)) {
		fault("secret", "is too long or cannot stand in a header; want at most %d printable bytes", MaxTextBytes)
	}
	if e.Engine != "" && !e.Engine.Usable() {
		fault("engine", "%.80q is no engine's name", e.Engine)
	}
	if e.MaxRunning < 0 || e.MaxRunning > 1e6 {
		fault("max_running", "%d; want 0 (not stated) to 1000000", e.MaxRunning)
	}
	for _, text := range []struct{ key, value string }{{"start", e.Start}, {"served", e.Served}, {"node", e.Node}, {"fabric", e.Fabric}} {
		if len(text.value) > MaxTextBytes || !plain(text.value) {
			fault(text.key, "%.80q; want at most %d printable bytes", text.value, MaxTextBytes)
		}
	}
	if len(e.Labels) > MaxLabels {
		fault("labels", "%d; want at most %d", len(e.Labels), MaxLabels)
	}
	for k, v := range e.Labels {
		if k == "" || len(k) > MaxTextBytes || len(v) > MaxTextBytes || !plain(k) || !plain(v) {
			fault("labels", "%.80q; want at most %d printable bytes each", k, MaxTextBytes)
		}
	}
	if e.Facts != nil && e.Facts.Metrics != nil {
		if err := e.Facts.Metrics.Validate(); err != nil {
			fault("facts.metrics", "%v", err)
		}
	}
	return errors.Join(errs...)
}

func portOK(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0
}

// plain reports whether text can stand in a log line and a header.
func plain(text string) bool {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// equal reports whether a router would do the same with both.
func (e *Entry) equal(o *Entry) bool {
	return e.Model == o.Model && e.Instance == o.Instance && e.Address == o.Address && e.Secret == o.Secret &&
		e.Engine == o.Engine && e.Served == o.Served && e.MaxRunning == o.MaxRunning &&
		e.PriorityScheduling == o.PriorityScheduling && e.Node == o.Node && e.Fabric == o.Fabric &&
		maps.Equal(e.Labels, o.Labels) && (e.Facts == o.Facts || reflect.DeepEqual(e.Facts, o.Facts))
}
