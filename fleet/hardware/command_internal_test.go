package hardware

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRunPrograms(t *testing.T) {
	t.Setenv("LLMGW_SECRET", "hunter2")
	tests := map[string]struct {
		body string
		want Output
	}{
		"answer":     {`echo "$1 $2"; echo no >&2`, Output{Stdout: "a b\n"}},
		"status":     {`echo x; exit 9`, Output{Stdout: "x\n", Status: 9}},
		"only error": {`echo "no driver" >&2; exit 3`, Output{Stdout: "no driver\n", Status: 3}},
		"no secrets": {`env | grep -c SECRET`, Output{Stdout: "0\n", Status: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := programs{}.Run(t.Context(), script(t, tt.body), "a", "b")
			if err != nil || got != tt.want {
				t.Errorf("%+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
	if _, err := (programs{}).Run(t.Context(), "llmgw-no-such-program"); !errors.Is(err, ErrNoCommand) {
		t.Errorf("error %v, want %v", err, ErrNoCommand)
	}
	if out, err := (programs{}).Run(t.Context(), script(t, "yes | head -c 3000000")); err != nil || len(out.Stdout) != maxOutput {
		t.Errorf("%d bytes, %v; want %d", len(out.Stdout), err, maxOutput)
	}
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, late)
	defer cancel()
	if _, err := (programs{}).Run(ctx, script(t, "sleep 60 & wait")); !errors.Is(err, late) {
		t.Errorf("error %v, want %v", err, late)
	}
}

func TestCanned(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"smi/query-gpu.csv": "index, name, memory.total [MiB], utilization.gpu [%]\n0, \"One, two\", 5, 1\n1, Two, 6\nIt is broken\n",
		"smi/topo_-m":       "topology",
		"smi/any":           "anything",
		"smi/any.exit":      "7\n",
		"bad/any":           "x",
		"bad/any.exit":      "many",
		"none/other":        "x",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]Output{
		"smi --query-gpu=index,memory.total,utilization.gpu --format=csv": {Stdout: "0, 5, 1\n1, 6\nIt is broken\n"},
		"smi --query-gpu=index,fan.speed":                                 {Stdout: "Field \"fan.speed\" is not a valid field to query.\n\n", Status: 2},
		"smi --query-compute-apps=pid":                                    {Stdout: "anything", Status: 7},
		"smi topo -m":                                                     {Stdout: "topology"},
		"smi -L":                                                          {Stdout: "anything", Status: 7},
		"none -L":                                                         {Stdout: "Invalid combination of input arguments.\n", Status: 2},
	}
	for command, want := range tests {
		words := strings.Fields(command)
		if got, err := (canned{dir}).Run(t.Context(), words[0], words[1:]...); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", command, got, err, want)
		}
	}
	if _, err := (canned{dir}).Run(t.Context(), "absent"); !errors.Is(err, ErrNoCommand) {
		t.Errorf("error %v, want %v", err, ErrNoCommand)
	}
	if _, err := (canned{dir}).Run(t.Context(), "bad"); err == nil || !strings.Contains(err.Error(), "any.exit") {
		t.Errorf("error %v, want one that names any.exit", err)
	}
	if _, err := (canned{dir}).Run(t.Context(), "../../../../bin/sh", "-c", "true"); !errors.Is(err, ErrNoCommand) {
		t.Errorf("a path leads out of the directory: %v", err)
	}
}

// A root's tool may be a program.
func TestCannedProgram(t *testing.T) {
	path := script(t, "echo $#")
	if got, err := (canned{filepath.Dir(path)}).Run(t.Context(), "tool", "x", "y"); err != nil || got.Stdout != "2\n" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestUnadvertised(t *testing.T) {
	for words, want := range map[string]string{
		"eth0 10.0.0.7": "", "eth0 2001:db8::1": "", "br0 10.0.0.7": "", "br-lan 10.0.0.7": "", "bond0 8.8.8.8": "",
		"lo 127.0.0.2": "loopback", "lo ::1": "loopback", "eth0 169.254.1.1": "link-local", "eth0 fe80::1": "link-local",
		"docker0 172.17.0.1": "container bridge", "br-0123456789ab 172.18.0.1": "container bridge", "virbr0 192.168.122.1": "container bridge",
		"cni0 10.244.0.1": "container bridge", "flannel.1 10.244.0.0": "container bridge", "cali12 169.254.1.1": "link-local",
		"eth0 0.0.0.0": "no host's address",
	} {
		name, address, _ := strings.Cut(words, " ")
		if got := unadvertised(name, netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %q, want %q", words, got, want)
		}
	}
}

func TestInterfacesOfOneContainer(t *testing.T) {
	for name, want := range map[string]bool{"veth12ab": true, "cali0123": true, "lxc7": true, "tap0": true, "lxcbr0": false, "lxdbr0": false, "docker0": false, "eth0": false, "lo": false} {
		if got := ofOneContainer(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func FuzzAddresses(f *testing.F) {
	f.Add(`[{"ifname":"eth0","addr_info":[{"local":"10.0.0.7","prefixlen":24},{"local":"fe80::1%eth0","prefixlen":200}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseAddresses(text)
		if err != nil {
			return
		}
		for name, list := range all {
			for _, p := range list {
				if !p.IsValid() {
					t.Errorf("%s has %v", name, p)
				}
				unadvertised(name, p.Addr())
			}
		}
	})
}

// What a directory of answers gives is what the readers of real ones take.
func FuzzCannedTable(f *testing.F) {
	f.Add("index, name [x]\n0, \"a\"\nwords\n", "index,name")
	f.Fuzz(func(t *testing.T, table, fields string) {
		out := answer(table, strings.Split(fields, ","))
		if out.Status != 0 && !strings.Contains(out.Stdout, "not a valid field") {
			t.Errorf("%+v", out)
		}
	})
}
