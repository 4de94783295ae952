package fleettest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// Config is a fleet of fake agents. Zero fields have the default that they name.
type Config struct {
	// URL is the root of the agents' listener, such as http://127.0.0.1:7443.
	// Required.
	URL string
	// Nodes is how many agents there are, with the ids node-1, node-2, … Required.
	Nodes int
	// Client makes the client of one agent, which has its connection alone. Default:
	// HTTP/2 without TLS.
	Client func(node string) *http.Client
	// Inventory says what a node has. Default: two simulated cards.
	Inventory func(node string) *engines.Inventory
	// State says how a node's hardware is at the heartbeat with that sequence.
	// Default: as in its inventory.
	State func(node string, sequence uint64) engines.NodeState
	// Shards says what runs on a node already, as behind a restart of its agent.
	// Default: nothing. Such shards are not counted by [Agent.Starts].
	Shards func(node string) []engines.ShardStatus
	// Engines are those that nodes say they can launch. Default: sim.
	Engines []engines.Name
	// Weights says what a node finds of weights that it is asked for; nil: it does not
	// answer. Default: no node looks for weights.
	Weights func(node string, wanted *fleetpb.WeightsWanted) *fleetpb.WeightsFound
	// LoadTime is how long a shard takes from its start until it is ready, WakeTime one
	// that slept, and StopTime from the order until it is stopped. Default 0: at once.
	LoadTime, WakeTime, StopTime time.Duration
	// FirstDial spreads the first connections over a time. Default 0: all at once.
	FirstDial time.Duration
	// BackoffMin and BackoffMax bound the pause before a new connection, which is
	// drawn from 0 up to a bound that doubles. Defaults 100ms and 10s.
	BackoffMin, BackoffMax time.Duration
	// Faults are those of every agent at its start; see [Agent.SetFaults].
	Faults Faults
	// Beat is told how long each heartbeat's answer took, at the same time by
	// several agents; it must not block. Default: nobody is told.
	Beat func(node string, took time.Duration)
	// Seed draws faults and pauses. Default 0.
	Seed uint64
}

// Faults are what becomes of messages. The zero value: nothing.
type Faults struct {
	// Drop and Duplicate are probabilities, from 0 to 1.
	Drop, Duplicate float64
	// Delay bounds a delay that is drawn for each message, from 0. Messages overtake
	// each other by it.
	Delay time.Duration
}

// Validate reports every problem of c, joined.
func (c Config) Validate() error {
	var errs []error
	if c.URL == "" {
		errs = append(errs, errors.New("fleettest: URL is empty; want such as http://127.0.0.1:7443"))
	}
	if c.Nodes < 1 {
		errs = append(errs, fmt.Errorf("fleettest: Nodes: %d; want 1 or more", c.Nodes))
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"LoadTime", c.LoadTime}, {"WakeTime", c.WakeTime}, {"StopTime", c.StopTime}, {"FirstDial", c.FirstDial}, {"BackoffMin", c.BackoffMin}, {"BackoffMax", c.BackoffMax}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("fleettest: %s: %v; want 0s or more", d.name, d.value))
		}
	}
	return errors.Join(append(errs, c.Faults.Validate())...)
}

// Validate reports every problem of f, joined.
func (f Faults) Validate() error {
	var errs []error
	for name, p := range map[string]float64{"Drop": f.Drop, "Duplicate": f.Duplicate} {
		if !(p >= 0 && p <= 1) {
			errs = append(errs, fmt.Errorf("fleettest: Faults.%s: %v; want 0 to 1", name, p))
		}
	}
	if f.Delay < 0 {
		errs = append(errs, fmt.Errorf("fleettest: Faults.Delay: %v; want 0s or more", f.Delay))
	}
	return errors.Join(errs...)
}

// defaultInventory is a node with two cards that do not exist.
func defaultInventory(node string) *engines.Inventory {
	inv := &engines.Inventory{
		Host:   engines.Host{Hostname: node, OS: "linux", Arch: "amd64", BootID: node + "-boot"},
		CPU:    engines.CPU{Model: "simulated", Features: []string{"avx2"}},
		Memory: engines.Memory{TotalBytes: engines.Known(uint64(512 << 30))},
	}
	for i := range 2 {
		gpu := engines.GPU{
			Index: i, UUID: fmt.Sprintf("SIM-%s-%d", node, i), Name: "Simulated 80G", Vendor: engines.SimulatedCard,
			MemoryBytes: engines.Known(uint64(80 << 30)),
		}
		inv.GPUs = append(inv.GPUs, gpu)
		inv.State.GPUs = append(inv.State.GPUs, engines.GPUState{
			GPU: gpu.ID(), MemoryUsedBytes: engines.Known(uint64(0)), MemoryFreeBytes: engines.Known(uint64(80 << 30)),
			Health: engines.Health{State: engines.Healthy},
		})
	}
	return inv
}
