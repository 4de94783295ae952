package control_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/fleet/control"
)

func TestDefaultConfigIsValid(t *testing.T) {
	if err := control.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestConfigThatCannotBeIsRefusedWithAllItsFaults(t *testing.T) {
	err := control.Config{}.Validate()
	for _, want := range []string{
		"heartbeat: 0s; want more than 0s", "tick: 0s", "clock_skew_warn: 0s", "hello_timeout: 0s", "write_timeout: 0s",
		"command_retry: 0s", "journal_interval: 0s", "lost_after: 0s; want more than unreachable_after, 0s",
		"max_message_bytes: 0; want at least 65536", "max_messages_per_second: 0; want 1 or more", "max_nodes: 0", "max_shards_per_node: 0", "max_commands_per_node: 0",
		"max_unregistered: 0", "max_watched: 0",
		`mgmt_interface: ""; want the name of a network interface, such as eth0`, "port_range: []; want the first and the last port, of 1024 to 65535",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
	cfg := control.DefaultConfig()
	cfg.UnreachableAfter, cfg.Tick = 9*time.Second, 3*time.Second
	for _, want := range []string{"unreachable_after: 9s; want at least twice heartbeat, 10s", "tick: 3s; want at most a quarter of unreachable_after, 2.25s"} {
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

func TestPortRangeAndInterface(t *testing.T) {
	for _, r := range [][]int{{20000, 20999}, {1024, 65535}, {5000, 5000}} {
		cfg := control.DefaultConfig()
		cfg.PortRange = r
		if err := cfg.Validate(); err != nil {
			t.Error(err)
		}
	}
	for _, r := range [][]int{{20000}, {20999, 20000}, {1023, 2000}, {20000, 65536}, {20000, 20500, 20999}} {
		cfg := control.DefaultConfig()
		cfg.PortRange = r
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("port_range: %v; want", r)) {
			t.Errorf("%v: %v", r, err)
		}
	}
	for _, name := range []string{"a-name-of-16-byte", "en s3", "en/s3"} {
		cfg := control.DefaultConfig()
		cfg.MgmtInterface = name
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("mgmt_interface: %q; want", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestNewChecksWhatItGets(t *testing.T) {
	if _, err := control.New(control.Config{}, control.Deps{Authority: leader()}); err == nil {
		t.Error("a config of zeros is taken")
	}
	if _, err := control.New(control.DefaultConfig(), control.Deps{}); err == nil || !strings.Contains(err.Error(), "Authority is required") {
		t.Errorf("no authority: %v", err)
	}
	reg := prometheus.NewRegistry()
	for i, want := range []string{"", "metrics"} {
		_, err := control.New(control.DefaultConfig(), control.Deps{Authority: leader(), Registerer: reg})
		if (err != nil) != (want != "") {
			t.Errorf("plane %d on one registry: %v", i, err)
		}
	}
}
