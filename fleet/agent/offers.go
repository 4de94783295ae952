package agent

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// offers are the engines that the node may run.
type offers struct {
	engines map[engines.Name]string
}

// newOffers returns what the configuration allows: told nothing, the simulated
// engine alone.
func newOffers(configured map[engines.Name]string) *offers {
	if len(configured) == 0 {
		configured = map[engines.Name]string{engines.Sim: ""}
	}
	return &offers{engines: configured}
}

// executable returns what the profile's engine is started by; empty: the
// adapter's own.
func (o *offers) executable(p engines.Profile) (string, *refusal) {
	configured, ok := o.engines[p.Engine]
	if !ok {
		return "", refused(fmt.Sprintf("install it, and name its executable in the agent's configuration: engines.%s", p.Engine),
			"the node may not run %q; it may run %s", p.Engine, strings.Join(o.names(), ", "))
	}
	if p.Executable != "" {
		return p.Executable, nil
	}
	return configured, nil
}

func (o *offers) names() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(o.engines)) {
		names = append(names, string(name))
	}
	return names
}

// messages say what the node can launch, and what is known against it.
func (o *offers) messages() []*fleetpb.EngineOffer {
	var out []*fleetpb.EngineOffer
	for _, name := range slices.Sorted(maps.Keys(o.engines)) {
		offer := &fleetpb.EngineOffer{Engine: string(name), Executable: o.engines[name]}
		if offer.Executable != "" {
			if _, err := exec.LookPath(offer.Executable); err != nil {
				offer.Problem = fmt.Sprintf("the executable %s is missing: %v", offer.Executable, err)
			}
		}
		out = append(out, offer)
	}
	return out
}
