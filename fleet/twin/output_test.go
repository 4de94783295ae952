package twin_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines/sim/workload"
	"github.com/llmgw/llmgw/fleet/twin"
)

// reports are of two policies, with tenants.
func reports(t *testing.T) []*twin.Report {
	cfg := fleet(2)
	cfg.Tenants = tenants()
	tr := recorded(t, "azure2023_conv.csv.gz", 100, 1)
	tr.Name = "<&>" // must not break the picture
	return []*twin.Report{run(t, cfg, twin.Random, tr), run(t, cfg, twin.Prefix, tr)}
}

func TestWriteSVG(t *testing.T) {
	// A report of nothing, since none of its requests fits the engines.
	nothing := run(t, fleet(1), twin.Random, &workload.Trace{Requests: []workload.Request{{PromptTokens: 200_000, OutputTokens: 1}}})
	for name, list := range map[string][]*twin.Report{"two": reports(t), "none": nil, "of nothing": {nothing}} {
		var b strings.Builder
		if err := twin.WriteSVG(&b, list); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
				lines++
			}
		}
		if name == "two" && lines != 2 {
			t.Errorf("%d curves of two policies", lines)
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("%s: a figure that is none", name)
		}
	}
	if err := twin.WriteSVG(full{}, reports(t)); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

func TestWriteText(t *testing.T) {
	var b strings.Builder
	if err := twin.WriteText(&b, reports(t)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<&>: 100 requests, 2 engines, seed 1\n", "\nrandom ", "\nprefix ", " tenant  green ", " band    bronze "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if err := twin.WriteText(full{}, reports(t)); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
