package app

import (
	"context"
	"errors"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/placement/catalog"
)

// CheckRun asks the adapter of a model's engine whether it could run the model, and
// returns what is wrong, joined, each beginning with the path of a key of the entry.
// A model of an engine that this program has no adapter of only the nodes can judge.
func CheckRun(m *catalog.Model) error {
	p, runs := m.RunProfile()
	if !runs {
		return nil
	}
	ctx := context.Background() // built-in adapters answer by themselves
	adapter, _, err := Adapter(ctx, Adapters(), p.Engine)
	if err != nil {
		return nil //nolint:nilerr // a stranger's
	}
	if _, err = adapter.Validate(ctx, p); err == nil {
		return nil
	}
	if faults, ok := errors.AsType[*engines.ProfileError](err); ok {
		return catalog.RunFaults(faults.Faults)
	}
	return errors.New("profile.engine: " + err.Error())
}
