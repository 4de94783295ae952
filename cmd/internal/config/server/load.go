package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/cmd/internal/app"
	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
	"github.com/llmgw/llmgw/router/gateway"
)

// Loaded is a configuration with what is worth saying about it.
type Loaded struct {
	Config
	// Oddities are what is allowed and probably not meant, as far as only this
	// package sees it: in the environment and in the list of endpoints. The
	// gateway logs what it sees itself, and the server that it is open.
	Oddities []string

	result *strictyaml.Result
}

// Warnings returns everything that is allowed and probably not meant, one line
// each: oddities, those that the gateway sees, and what Check finds.
func (l *Loaded) Warnings() []string {
	out := slices.Clone(l.Oddities)
	seen := l.Gateway.Warnings()
	if len(l.Gateway.Endpoints) == 0 && (l.Router || l.ControlPlane()) {
		seen = nil // that there are none is all that it says, and the fleet has engines
	}
	for _, w := range []string{l.OpenWarning(), l.ClearWarning(), l.UnfollowedWarning()} {
		if w != "" {
			seen = append(seen, w)
		}
	}
	for i := range l.Gateway.Models {
		if err := app.CheckRun(&l.Gateway.Models[i]); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				seen = append(seen, fmt.Sprintf("models[%d].%s", i, line))
			}
		}
	}
	for _, w := range seen {
		out = append(out, l.result.Locate(errors.New(w)).Error())
	}
	if err := l.Check(); err != nil {
		out = append(out, strings.Split(err.Error(), "\n")...)
	}
	return out
}

// sharedEngines finds engines that are listed twice for one model: each entry
// counts its own requests, so such an engine gets twice its share.
func (l *Loaded) sharedEngines() []string {
	type target struct{ url, model string }
	var out []string
	first := make(map[target]int)
	for i, e := range l.Gateway.Endpoints {
		for _, m := range e.Models {
			at := target{strings.TrimRight(e.URL, "/"), m.Name}
			if j, twice := first[at]; twice {
				out = append(out, fmt.Sprintf("endpoints[%d].url: the engine of endpoints[%d] again, for the model %q; it gets twice its share of the load", i, j, m.Name))
				break
			}
			first[at] = i
		}
	}
	return out
}

// Load reads the file and the variables over the defaults; "" reads variables
// only. The error is strictyaml.Faults with everything that is wrong, or says why
// the file cannot be read.
func Load(file string, environ []string) (*Loaded, error) {
	var data []byte
	if file != "" {
		var err error
		if data, err = readFile(file); err != nil {
			return nil, err
		}
	}
	return Parse(file, data, environ)
}

// readFile reads no more than a configuration may have.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, strictyaml.MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return data, nil
}

// written is a configuration that somebody wrote down. A number that code may
// leave at 0 to get its default has that default here, unless 0 was written.
type written struct {
	Config `yaml:",inline"`
}

// Validate returns every fault, joined, each beginning with its key.
func (w written) Validate() error {
	errs := []error{w.Config.Validate()}
	for i, e := range w.Gateway.Endpoints {
		if e.Weight == 0 {
			errs = append(errs, fmt.Errorf("endpoints[%d].weight: 0 is not accepted; want more than 0, e.g. 1; to take the endpoint out of use remove its entry and send SIGHUP: what it is answering runs to its end", i))
		}
	}
	return errors.Join(errs...)
}

// Parse is Load with the file's text at hand; file names it in messages.
func Parse(file string, data []byte, environ []string) (*Loaded, error) {
	read := written{DefaultConfig()}
	result, err := strictyaml.Load(&read, strictyaml.Source{File: file, Data: data, Environ: environ, Hints: hints(), Numbers: numbers()})
	if err != nil {
		return nil, err
	}
	l := &Loaded{Config: read.Config, result: result}
	l.Agents = result.Written("agent_listen")
	// A variable that holds an engine's key may well have our prefix, and the one
	// that holds the key for llmgw bench has.
	var unknown []string
	for _, v := range l.result.UnknownVariables {
		switch {
		case v.Name == "LLMGW_API_KEY":
		case slices.ContainsFunc(l.Gateway.Endpoints, func(e gateway.Endpoint) bool { return e.KeyEnv == v.Name }):
		case v.Meant != "":
			unknown = append(unknown, fmt.Sprintf("%s (did you mean %s?)", v.Name, v.Meant))
		default:
			unknown = append(unknown, v.Name)
		}
	}
	if len(unknown) > 0 {
		l.Oddities = append(l.Oddities, fmt.Sprintf("no key belongs to the environment variables %s; they are ignored", strings.Join(unknown, ", ")))
	}
	for _, w := range l.sharedEngines() {
		l.Oddities = append(l.Oddities, l.result.Locate(errors.New(w)).Error())
	}
	return l, nil
}
