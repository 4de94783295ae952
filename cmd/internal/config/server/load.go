package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/cmd/internal/config"
	"github.com/llmgw/llmgw/router/gateway"
)

// Loaded is a configuration with what is worth saying about it.
type Loaded struct {
	Config
	// Environment is what is odd about the variables of the process, one line
	// each.
	Environment []string

	result *config.Result
}

// Warnings returns what is allowed and probably not meant, one line each: of
// the environment, of the file, and of what the file names on this machine.
func (l *Loaded) Warnings() []string {
	out := slices.Clone(l.Environment)
	for _, w := range l.Gateway.Warnings() {
		out = append(out, l.result.Locate(errors.New(w)).Error())
	}
	if err := l.Check(); err != nil {
		out = append(out, strings.Split(err.Error(), "\n")...)
	}
	return out
}

// Load reads the file and the variables over the defaults; "" reads variables
// only. The error is config.Faults with everything that is wrong, or says why
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
	data, err := io.ReadAll(io.LimitReader(f, config.MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return data, nil
}

// Parse is Load with the file's text at hand; file names it in messages.
func Parse(file string, data []byte, environ []string) (*Loaded, error) {
	l := &Loaded{Config: DefaultConfig()}
	var err error
	l.result, err = config.Load(&l.Config, config.Source{File: file, Data: data, Environ: environ, Hints: hints()})
	if err != nil {
		return nil, err
	}
	// A variable that holds an engine's key may well have our prefix.
	unknown := slices.DeleteFunc(l.result.UnknownVariables, func(name string) bool {
		return slices.ContainsFunc(l.Gateway.Endpoints, func(e gateway.Endpoint) bool { return e.KeyEnv == name })
	})
	if len(unknown) > 0 {
		l.Environment = append(l.Environment, fmt.Sprintf("no key belongs to the environment variables %s; they are ignored", strings.Join(unknown, ", ")))
	}
	return l, nil
}
