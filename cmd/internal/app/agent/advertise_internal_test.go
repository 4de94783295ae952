package agent

import (
	"strings"
	"testing"

	config "github.com/llmgw/llmgw/cmd/internal/config/agent"
	"github.com/llmgw/llmgw/fleet/hardware"
	"github.com/llmgw/llmgw/fleet/hardware/hardwaretest"
)

// The interface that a node's configuration names goes before that of the control
// plane, and has to be there; the control plane's need not.
func TestAdvertise(t *testing.T) {
	m := hardwaretest.CPUOnly(t, hardwaretest.Options{})
	cfg := config.DefaultConfig()
	cfg.Hardware.Root = m.Root
	reader, err := hardware.New(cfg.Machine(), hardware.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, written, preferred string
		want                     string // interface, and after a space what is missed
		refused                  string
	}{
		{"nobody says anything", "", "", "eth0", ""},
		{"the control plane does", "", "eth0", "eth0", ""},
		{"and names one that is not there", "", "ib9", `eth0 there is no interface "ib9"`, ""},
		{"the node does, too", "docker0", "eth0", "docker0", ""},
		{"and names one that is not there", "ib9", "eth0", "", `there is no interface "ib9"; there are: docker0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg.MgmtInterface, cfg.Agent.Servers = tt.written, []string{"http://10.9.9.9:7443"}
			got, err := machine{reader, advertise(cfg)}.Advertise(t.Context(), tt.preferred)
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("%+v, %v; want %q", got, err, tt.refused)
				}
				return
			}
			name, missed, _ := strings.Cut(tt.want, " ")
			if err != nil || got.Interface != name || !strings.HasPrefix(got.Instead, missed) || (missed == "") != (got.Instead == "") {
				t.Errorf("%+v, %v; want %s", got, err, tt.want)
			}
		})
	}
}
