package catalog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

// MaxDefinitionBytes bounds the text of one model as [Format] writes it.
const MaxDefinitionBytes = 24 << 10

// Definition is what a text says of models.
type Definition struct {
	// Models are the entries in the order of the text, at least one. They are the
	// caller's own.
	Models []Model

	single bool // the text is one entry, and no list of them
	result *strictyaml.Result
}

// Parse reads the definition of models: one entry as it stands in the list models
// of a server's configuration, or that list with its key. file names the text in
// messages. The error is [strictyaml.Faults], each with the line and the key.
//
// Each entry is right by itself then, and so are they beside each other. Whether
// names are free in a catalog and fallbacks are there, [Merge] finds out.
func Parse(file string, data []byte) (*Definition, error) {
	if listed(data) {
		var list entries
		result, err := strictyaml.Load(&list, strictyaml.Source{File: file, Data: data})
		if err != nil {
			return nil, err
		}
		return &Definition{Models: list.Models, result: result}, nil
	}
	var one entry
	result, err := strictyaml.Load(&one, strictyaml.Source{File: file, Data: data, Hints: map[string]string{
		"models": "stands beside the keys of one model; want either one model, or the list models alone",
	}})
	if err != nil {
		return nil, err
	}
	return &Definition{Models: []Model{one.Model}, single: true, result: result}, nil
}

// Locate gives errors about the definition's models, joined, their lines. Each
// begins with the path of a key in the list, as in models[0].name. nil stays nil.
func (d *Definition) Locate(err error) error {
	if d.single {
		err = unlisted(err)
	}
	return d.result.Locate(err)
}

// Format writes a model as the text from which [Parse] reads it, without the keys
// that have nothing to say.
func Format(m Model) ([]byte, error) {
	text, err := strictyaml.Format(m)
	if err == nil && len(text) > MaxDefinitionBytes {
		err = fmt.Errorf("catalog: the definition of model %q has %d bytes; at most %d are accepted", m.Name, len(text), MaxDefinitionBytes)
	}
	return text, err
}

// entries is a text that has the list.
type entries struct {
	Models []Model `yaml:"models"`
}

// Validate returns every fault of the entries, joined.
func (e *entries) Validate() error {
	if len(e.Models) == 0 {
		return errors.New("models: is empty; want at least one model")
	}
	return validateAlone(e.Models)
}

// entry is a text that is one model.
type entry struct {
	Model `yaml:",inline"`
}

// Validate returns every fault of the entry, joined.
func (e *entry) Validate() error { return unlisted(validateAlone([]Model{e.Model})) }

// validateAlone is Validate without what depends on the models of a whole catalog.
func validateAlone(models []Model) error {
	_, errs := index(models)
	for i := range models {
		m, path := &models[i], fmt.Sprintf("models[%d]", i)
		errs = append(errs, m.validateFallbackNames(path)...)
		errs = append(errs, m.validateCost(path)...)
		errs = append(errs, m.validateRun(path+".")...)
		if text, err := strictyaml.Format(*m); err != nil || len(text) > MaxDefinitionBytes {
			errs = append(errs, fmt.Errorf("%s.name: the model's definition has %d bytes; at most %d are accepted", path, len(text), MaxDefinitionBytes))
		}
	}
	return errors.Join(errs...)
}

// unlisted takes the position of the only entry out of errors that begin with it.
func unlisted(err error) error {
	if err == nil {
		return nil
	}
	var errs []error
	for line := range strings.SplitSeq(err.Error(), "\n") {
		errs = append(errs, errors.New(strings.TrimPrefix(line, "models[0].")))
	}
	return errors.Join(errs...)
}

// listed reports whether a text has the list models, and not one model alone.
func listed(data []byte) bool {
	var top struct {
		Name   yaml.Node `yaml:"name"`
		Models yaml.Node `yaml:"models"`
	}
	// What is no YAML, or none of this, is told of where it is read.
	_ = yaml.NewDecoder(bytes.NewReader(data)).Decode(&top)
	return top.Models.Kind != 0 && top.Name.Kind == 0
}
