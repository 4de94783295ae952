package agent

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/llmgw/llmgw/placement/catalog/strictyaml"
)

// Loaded is a configuration with what is worth saying about it.
type Loaded struct {
	Config
	// Warnings are what is allowed and probably not meant, one line each.
	Warnings []string
}

// Load reads the file and the variables over the defaults; "" reads variables
// only. The error is strictyaml.Faults with everything that is wrong, or says why
// the file cannot be read.
func Load(file string, environ []string) (*Loaded, error) {
	var data []byte
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if data, err = io.ReadAll(io.LimitReader(f, strictyaml.MaxFileBytes+1)); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
	}
	return Parse(file, data, environ)
}

// Parse is Load with the file's text at hand; file names it in messages.
func Parse(file string, data []byte, environ []string) (*Loaded, error) {
	l := &Loaded{Config: DefaultConfig()}
	result, err := strictyaml.Load(&l.Config, strictyaml.Source{File: file, Data: data, Environ: environ, Hints: hints()})
	if err != nil {
		return nil, err
	}
	var unknown []string
	for _, v := range result.UnknownVariables {
		if v.Meant != "" {
			unknown = append(unknown, fmt.Sprintf("%s (did you mean %s?)", v.Name, v.Meant))
			continue
		}
		unknown = append(unknown, v.Name)
	}
	if len(unknown) > 0 {
		l.Warnings = append(l.Warnings, fmt.Sprintf("no key belongs to the environment variables %s; they are ignored", strings.Join(unknown, ", ")))
	}
	for i, s := range l.Agent.Servers {
		if l.Secured() && strings.HasPrefix(s, "http://") {
			l.Warnings = append(l.Warnings, fmt.Sprintf("servers[%d]: %s is spoken to in the clear, so that the certificate under tls proves nothing there; want https://", i, s))
		}
	}
	return l, nil
}

// hints are what is said about keys that people write and this file does not
// have.
func hints() map[string]string {
	return map[string]string{
		"server":           "the key is servers, a list, e.g. [https://control.example:7443]",
		"control":          "where the control plane is stands under servers, a list, e.g. [https://control.example:7443]",
		"id":               "the node's id is the key node",
		"fabrics[].rate":   "the rate of one port in Gbit/s is the key rate_gbps",
		"metrics_listen":   "an agent listens on nothing: its node's figures go up with its heartbeats, and the server has them",
		"hardware.fabrics": "the labels stand at the top of the file, under fabrics",
	}
}
