//go:build unix

package hardware_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

// A log that goes on is followed until the agent stops.
func TestWatchKernelFollows(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	m.Write("dev/x", "")
	path := filepath.Join(m.Root, "dev/kmsg")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newReader(t, config(m), hardware.Deps{})
	bus := inventory(t, r).GPUs[0].BusID
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.WatchKernel(ctx) }()
	log, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.WriteString("4,8,2,-;NVRM: Xid (PCI:" + bus + "): 95, x\n"); err != nil {
		t.Fatal(err)
	}
	poll(t, func() bool { return !r.Faults().Health(time.Now(), bus).Usable() })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// A file that hangs whoever opens it, as of a device that does, costs its part
// of the machine and nothing else.
func TestHungFile(t *testing.T) {
	m := hardwaretest.H100x8(t, hardwaretest.Options{})
	cfg := config(m)
	cfg.ReadTimeout = 200 * time.Millisecond
	cfg.Fabrics = []engines.Fabric{{Name: "ib-a", RateGbps: 400}}
	r := newReader(t, cfg, hardware.Deps{})
	dir := must(filepath.EvalSymlinks(filepath.Join(m.Root, "sys/class/infiniband/mlx5_4")))
	rate := filepath.Join(dir, "ports/1/rate")
	hang := func() {
		t.Helper()
		if err := os.Remove(rate); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(rate, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// let lets the reading that hangs go on. Who opens the other end is let in
	// once the first has opened its own.
	let := func() {
		t.Helper()
		w, err := os.OpenFile(rate, os.O_WRONLY, 0)
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		m.SetPort("mlx5_4", "rate", "400 Gb/sec (4X NDR)")
	}

	hang()
	inv := inventory(t, r)
	if f := inv.State.Fabrics[0]; f.Verdict != engines.Unknown || len(inv.GPUs) != 8 || !strings.Contains(problems(inv.State), "ports: no answer within 200ms") {
		t.Errorf("%d cards, fabric %+v, problems %q", len(inv.GPUs), f, problems(inv.State))
	}
	let()
	poll(t, func() bool { return state(t, r).Fabrics[0].Verdict == engines.Confirmed })

	hang()
	for range 2 {
		if s := state(t, r); s.PortsAge == 0 || len(s.Ports) != 8 || s.Fabrics[0].Verdict != engines.Confirmed || len(s.GPUs) != 8 {
			t.Errorf("%d ports of age %v, fabric %+v", len(s.Ports), s.PortsAge, s.Fabrics[0])
		}
	}
	let()
	poll(t, func() bool { return state(t, r).PortsAge == 0 })
}
