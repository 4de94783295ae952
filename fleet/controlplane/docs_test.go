package controlplane_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/llmgw/llmgw/fleet/controlplane"
)

// described keeps what is registered.
type described struct {
	prometheus.Registerer
	names map[string]bool
}

func (d *described) Register(c prometheus.Collector) error {
	ch := make(chan *prometheus.Desc, 100)
	c.Describe(ch)
	close(ch)
	for desc := range ch {
		if m := regexp.MustCompile(`"(llmgw_fleet_[a-z_]+)"`).FindStringSubmatch(desc.String()); m != nil {
			d.names[m[1]] = true
		}
	}
	return d.Registerer.Register(c)
}

// The page names each metric of a fleet in its table, and no other.
func TestMetricsPage(t *testing.T) {
	d := &described{prometheus.NewRegistry(), map[string]bool{}}
	if _, err := controlplane.New(controlplane.DefaultConfig(), controlplane.Deps{Store: newMemory(), Registerer: d}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/reference/fleet-metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, m := range regexp.MustCompile("`(llmgw_fleet_[a-z_]+)`").FindAllStringSubmatch(string(page), -1) {
		got[m[1]] = true
	}
	if diff := cmp.Diff(d.names, got); diff != "" || !got["llmgw_fleet_leads"] {
		t.Errorf("(-code +page):\n%s", diff)
	}
}
