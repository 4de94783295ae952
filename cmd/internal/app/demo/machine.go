package demo

import (
	"fmt"
	"os"
	"path/filepath"
)

// fabrics and perFabric say how many machines there are, and on which fabrics.
const (
	fabrics   = "ab"
	perFabric = 2
)

// adapters is how many ports a machine has on its fabric.
const adapters = 2

// firstPort is the first port of engines, above those that real agents get where
// nobody says otherwise; each machine has portsEach of its own.
const (
	firstPort = 21000
	portsEach = 100
)

// machine is a simulated node: a directory with its cards, its ports, the
// configuration of its agent and the agent's state.
type machine struct {
	id, fabric string
	dir        string
	ports      int // the first that its engines get
}

// machinesOf are the machines of the demo whose directory is dir.
func machinesOf(dir string) (all []machine) {
	for _, fabric := range fabrics {
		for i := range perFabric {
			id := fmt.Sprintf("%c%d", fabric, i+1)
			all = append(all, machine{id: id, fabric: string(fabric), dir: filepath.Join(dir, "machines", id), ports: firstPort + len(all)*portsEach})
		}
	}
	return all
}

func (m machine) file(name string) string { return filepath.Join(m.dir, name) }

// write makes the directory. Its agent dials server, a URL, and its engines are
// processes of an executable.
func (m machine) write(server, executable string) error {
	files := map[string]string{
		"cards.yaml": fmt.Sprintf("host: {hostname: %s}\n", m.id) + `memory: {total_bytes: 2199023255552}
gpus: [{count: 8, name: NVIDIA H100 80GB HBM3, memory_bytes: 85520809984, architecture: Hopper, compute_capability: "9.0"}]
`,
		"agent.yaml": fmt.Sprintf(`node: %s
servers: [%q]
state_dir: %q
address: 127.0.0.1
engines: {sim: %q}
port_range: {first: %d, last: %d}
fabrics: [{name: %s, rate_gbps: 400}]
hardware: {simulated: %q, infiniband: %q}
process: {poll: 100ms, probe_every: 100ms}
log: {level: error}
`, m.id, server, m.file("state"), executable, m.ports, m.ports+portsEach-1, m.fabric, m.file("cards.yaml"), m.file("infiniband")),
	}
	// The shape of /sys/class/infiniband. Ports of one fabric have one subnet.
	for i := range adapters {
		port := fmt.Sprintf("infiniband/mlx5_%d/ports/1/", i)
		files[port+"link_layer"] = "InfiniBand\n"
		files[port+"state"] = "4: ACTIVE\n"
		files[port+"phys_state"] = "5: LinkUp\n"
		files[port+"rate"] = "400 Gb/sec (4X)\n"
		files[port+"gids/0"] = fmt.Sprintf("fec0:0000:0000:000%s:b83f:d203:00ae:000%d\n", m.fabric, i)
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(m.file(name)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(m.file(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
