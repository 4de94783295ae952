package agent

import (
	"errors"
	"fmt"
	"strings"

	"github.com/llmgw/llmgw/cmd/internal/config/logging"
	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
	"github.com/llmgw/llmgw/fleet/agent"
	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/pki"
)

// Config is agent.yaml. Start from DefaultConfig.
type Config struct {
	// Agent is the node's side of the fleet; its keys stand at the top of the
	// file.
	Agent agent.Config `yaml:",inline"`
	// MgmtInterface is the network interface whose address the node tells others,
	// unless address is set. Default "": the one that the control plane names by its
	// control.mgmt_interface, eth0 until it was heard; where there is none of that
	// name, the one that leads to the first server. One that is written has to exist.
	MgmtInterface string `yaml:"mgmt_interface"`
	// TLS is what the node proves itself with, and whom it believes. Default none:
	// servers with http:// are spoken to in the clear, those with https:// are held
	// against the roots of the operating system.
	TLS pki.Config `yaml:"tls"`
	// Fabrics are the fast networks that the node is on; nodes with the same label
	// can hold one replica together. Default none.
	Fabrics []engines.Fabric `yaml:"fabrics"`
	// Hardware is how the machine is read.
	Hardware hardware.Config `yaml:"hardware"`
	// Plugins are the adapters of engines that are programs of their own.
	Plugins plugin.Config `yaml:"plugins"`
	// Log is what is written to standard error.
	Log logging.Log `yaml:"log"`
}

// DefaultConfig returns the defaults: what an empty file means.
func DefaultConfig() Config {
	return Config{
		Agent:    agent.DefaultConfig(),
		TLS:      pki.DefaultConfig(),
		Hardware: hardware.DefaultConfig(),
		Plugins:  plugin.DefaultConfig(),
		Log:      logging.Default(),
	}
}

// Secured reports whether certificates are configured.
func (c Config) Secured() bool {
	return c.TLS.CertFile != "" || c.TLS.CAFile != "" || c.TLS.KeyFile != ""
}

// Machine returns how the machine is read, its labels included.
func (c Config) Machine() hardware.Config {
	m := c.Hardware
	m.Fabrics = c.Fabrics
	return m
}

// Validate returns every fault, joined, each beginning with its key.
func (c Config) Validate() error {
	errs := []error{c.Agent.Validate(), under("hardware.", c.Machine().Validate()), under("plugins.", c.Plugins.Validate()), c.Log.Validate()}
	if c.Secured() {
		errs = append(errs, under("tls.", c.TLS.Validate()))
	}
	return errors.Join(errs...)
}

// under puts a section's path before each of its faults.
func under(section string, err error) error {
	if err == nil {
		return nil
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // of this very error
		var errs []error
		for _, e := range many.Unwrap() {
			errs = append(errs, under(section, e))
		}
		return errors.Join(errs...)
	}
	if section == "hardware." && strings.HasPrefix(err.Error(), "fabrics[") {
		return err // which stands at the top
	}
	return fmt.Errorf("%s%w", section, err)
}
