package feed

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/placement/catalog"
)

// definition is an entry of the catalog as text: YAML with the keys of a
// configuration file, so that a new key needs no new field of the protocol.
type definition struct {
	name string
	text []byte
}

func define(m catalog.Model) (definition, error) {
	text, err := catalog.Format(m)
	return definition{m.Name, text}, err
}

// model reads a definition. Keys that this version does not know are passed over,
// unlike where a person has written them: a control plane may be newer than its
// routers.
func (d definition) model() (m catalog.Model, err error) {
	if err := yaml.Unmarshal(d.text, &m); err != nil {
		return catalog.Model{}, fmt.Errorf("model %q: %w", d.name, err)
	}
	if m.Name != d.name {
		return catalog.Model{}, fmt.Errorf("model %q: its definition is of %q", d.name, m.Name)
	}
	return m, nil
}
