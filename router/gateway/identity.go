package gateway

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/llmgw/llmgw/router/endpoint"
	"github.com/llmgw/llmgw/router/proxy"
)

// identify says how the engine of an endpoint is asked who it is; nil: it is
// not. A key of its own proves more, and an engine that refuses names it does
// not know proves it with each answer. The others answer any name with what they
// have loaded, so one that came to listen where another one did would be taken
// for it.
func identify(spec endpoint.Spec, log *slog.Logger) *proxy.Identify {
	if spec.SkipIdentity || spec.Secret != "" && !spec.Unproven || checksModel(spec) || !strings.HasPrefix(spec.URL, "http://") {
		return nil
	}
	id := &identity{log: log.With("endpoint", spec.ID)}
	for _, m := range spec.Models {
		id.wants = append(id.wants, m.Upstream)
	}
	return &proxy.Identify{Path: "/v1/models", Check: id.check}
}

// checksModel reports whether the engine refuses a model that it does not have.
func checksModel(spec endpoint.Spec) bool {
	return capabilities(spec.Engine).ChecksModel || spec.Told != nil && spec.Told.Capabilities.ChecksModel
}

// identity is what the engine of one endpoint has said that it serves.
type identity struct {
	log   *slog.Logger
	wants []string // what the engine calls the endpoint's models, as configured

	mu   sync.Mutex
	held []string // guarded by mu: what every later answer must list; nil: nothing was listed yet
	told bool     // guarded by mu: that the engine lists nothing was logged
}

// check judges an engine's list of models. The first one is believed, and what it
// has of the configured names is what each later one must have; where it has none
// of them, all that it lists, since such engines are often known by another name.
// An answer that lists nothing tells nothing, and passes.
func (id *identity) check(status int, body []byte) error {
	var names []string
	if status == http.StatusOK {
		names = listed(body)
	}
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case len(names) == 0 && id.held != nil:
		return fmt.Errorf("status %d and no list of models, where there was %q before", status, shortened(id.held))
	case len(names) == 0:
		if !id.told {
			id.told = true
			id.log.Warn("engine does not say what it serves, so another one in its place would not be noticed; give it a key", "status", status)
		}
		return nil
	case id.held == nil:
		id.hold(names)
		return nil
	}
	lists := make(map[string]bool, len(names)) // an engine may list very many
	for _, name := range names {
		lists[name] = true
	}
	for _, name := range id.held {
		if !lists[name] {
			return fmt.Errorf("it serves %q and not %q: another engine listens there", shortened(names), name)
		}
	}
	return nil
}

// hold keeps to the first list. The caller holds mu.
func (id *identity) hold(names []string) {
	for _, want := range id.wants {
		if slices.Contains(names, want) {
			id.held = append(id.held, want)
		}
	}
	if id.held == nil {
		id.held = names
		id.log.Warn("engine lists other models than its endpoint has; it is held to them from now on; give its own name as upstream",
			"lists", shortened(names), "want", id.wants)
	}
}

// shortened is what of a long list goes into a log line.
func shortened(names []string) []string { return names[:min(len(names), 8)] }

// listed reads the names in the lists of models that engines give: those of
// OpenAI's API, with llama.cpp's aliases.
func listed(body []byte) []string {
	var list struct {
		Data []struct {
			ID      string   `json:"id"`
			Aliases []string `json:"aliases"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil {
		return nil
	}
	var names []string
	seen := map[string]bool{"": true}
	for _, m := range list.Data {
		for _, name := range append([]string{m.ID}, m.Aliases...) {
			if !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}
