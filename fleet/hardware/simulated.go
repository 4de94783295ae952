package hardware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware/faults"
)

// ErrSimulated is wrapped by the error for a file of simulated cards that cannot
// be used.
var ErrSimulated = errors.New("hardware: the file of simulated cards cannot be used")

// simulation is what [Config.Simulated] may say: parts of an inventory, of which
// each replaces that of the machine.
type simulation struct {
	Host   *simulatedHost     `json:"host"`
	CPU    *engines.CPU       `json:"cpu"`
	Memory *engines.Memory    `json:"memory"`
	NUMA   []engines.NUMANode `json:"numa"`
	GPUs   []simulatedGPU     `json:"gpus"`
	Links  [][]string         `json:"links"`
}

type simulatedHost struct {
	Hostname string `json:"hostname"`
}

// simulatedGPU is a card, or several that are alike.
type simulatedGPU struct {
	// Count is how many there are. Default 1.
	Count *int `json:"count"`
	engines.GPU
	State simulatedState `json:"state"`
}

// simulatedState is how the card does. What is left out is that of a card that
// does nothing and has no fault.
type simulatedState struct {
	MemoryUsedBytes  engines.Opt[uint64]  `json:"memory_used_bytes"`
	UtilizationRatio engines.Opt[float64] `json:"utilization_ratio"`
	TemperatureC     engines.Opt[float64] `json:"temperature_c"`
	Memory           engines.MemoryErrors `json:"memory_errors"`
	Foreign          []engines.GPUProcess `json:"foreign"`
	// NotAnswering and Recovery are as in [faults.Observation].
	NotAnswering string `json:"not_answering"`
	Recovery     string `json:"recovery"`
}

const (
	maxSimulatedFile  = 1 << 20
	maxSimulatedCards = 64
)

func readSimulation(path string) (*simulation, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSimulated, err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(f, maxSimulatedFile))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSimulated, err)
	}
	s, err := parseSimulation(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrSimulated, path, err)
	}
	return s, nil
}

// parseSimulation reads YAML, of which JSON is a part. The keys are those of an
// inventory's JSON, so the one is turned into the other.
func parseSimulation(text []byte) (*simulation, error) {
	var document map[string]any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	asJSON, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var s simulation
	d := json.NewDecoder(bytes.NewReader(asJSON))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, err
	}
	return &s, s.validate()
}

func (s *simulation) validate() error {
	var errs []error
	cards := 0
	for i, g := range s.GPUs {
		n := g.count()
		cards += max(0, n)
		if n < 0 || n > maxSimulatedCards {
			errs = append(errs, fmt.Errorf("gpus[%d].count: %d must be 0 to %d", i, n, maxSimulatedCards))
		}
		if g.Name == "" {
			errs = append(errs, fmt.Errorf("gpus[%d].name: must not be empty: profiles ask for cards by it", i))
		}
		if _, known := g.MemoryBytes.Get(); !known && (s.Memory == nil || !s.Memory.Unified) {
			errs = append(errs, fmt.Errorf("gpus[%d].memory_bytes: must be given: nothing fits on a card of unknown size", i))
		}
		if g.Vendor != "" && g.Vendor != engines.SimulatedCard {
			errs = append(errs, fmt.Errorf("gpus[%d].vendor: %q; a card of this file is always %q, so that no real engine is started on it", i, g.Vendor, engines.SimulatedCard))
		}
		if (g.UUID != "" || g.BusID != "") && n != 1 {
			errs = append(errs, fmt.Errorf("gpus[%d].uuid, bus_id: %d cards cannot have the same; leave them out", i, n))
		}
	}
	if cards > maxSimulatedCards {
		errs = append(errs, fmt.Errorf("gpus: %d cards; at most %d", cards, maxSimulatedCards))
	}
	return errors.Join(errs...)
}

func (g simulatedGPU) count() int {
	if g.Count == nil {
		return 1
	}
	return *g.Count
}

// cards returns the cards. Their names are made of the node's, so that they
// are the same after each start and on no other node.
func (s *simulation) cards(hostname string, memory engines.Memory) []cardReading {
	var out []cardReading
	for _, g := range s.GPUs {
		for range g.count() {
			index := len(out)
			c := cardReading{gpu: g.GPU, unified: memory.Unified, node: index}
			c.gpu.Index, c.gpu.Vendor = index, engines.SimulatedCard
			if c.gpu.UUID == "" {
				c.gpu.UUID = fmt.Sprintf("SIM-%s-%d", hostname, index)
			}
			if c.gpu.BusID == "" {
				// A domain that no machine has.
				c.gpu.BusID = fmt.Sprintf("ffff:%02x:00.0", index+1)
			}
			c.state = engines.GPUState{
				MemoryUsedBytes:  engines.Known(g.State.MemoryUsedBytes.Or(0)),
				UtilizationRatio: engines.Known(g.State.UtilizationRatio.Or(0)),
				TemperatureC:     g.State.TemperatureC,
				Memory:           g.State.Memory,
				Foreign:          g.State.Foreign,
			}
			c.addFree()
			c.seen = g.State.seen(c.gpu)
			out = append(out, c)
		}
	}
	return out
}

// seen makes of what is left out that it is well: on a real card it would not
// be known.
func (s simulatedState) seen(g engines.GPU) faults.Observation {
	o := faults.Observation{UUID: g.UUID, Driver: g.Driver, NotAnswering: s.NotAnswering, Recovery: s.Recovery}
	if o.Recovery == "" {
		o.Recovery = "None"
	}
	o.Errors = engines.MemoryErrors{
		Uncorrected:  engines.Known(s.Memory.Uncorrected.Or(0)),
		Corrected:    engines.Known(s.Memory.Corrected.Or(0)),
		RemapPending: engines.Known(s.Memory.RemapPending.Or(false)),
		RemapFailed:  engines.Known(s.Memory.RemapFailed.Or(false)),
	}
	return o
}
