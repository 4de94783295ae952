package hardware

import (
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
)

func TestSimulationFaults(t *testing.T) {
	for text, want := range map[string]string{
		"gpus: [{memory_bytes: 1}]":                     "gpus[0].name",
		"gpus: [{name: x}]":                             "gpus[0].memory_bytes",
		"gpus: [{name: x, memory_bytes: 1, count: 65}]": "count: 65 must be 0 to 64",
		"gpus: [{name: x, memory_bytes: 1, count: 40}, {name: x, memory_bytes: 1, count: 40}]": "80 cards",
		"gpus: [{name: x, memory_bytes: 1, count: 2, uuid: a}]":                                "cannot have the same",
		"gpus: [{name: x, memory_bytes: 1, vendor: nvidia}]":                                   "always \"sim\"",
		"gpus: [{name: x, memory_bytes: 1, memory: 2}]":                                        "unknown field \"memory\"",
		"gpus: [{name: x, memory_bytes: -1}]":                                                  "cannot unmarshal number -1",
		"gpu: []":                                                                              "unknown field \"gpu\"",
		"- a":                                                                                  "cannot unmarshal",
		"a: [":                                                                                 "yaml",
		"{1: {2: x}}":                                                                          "unsupported type",
		"host: {os: x}":                                                                        "unknown field \"os\"",
	} {
		s, err := parseSimulation([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want an error with %q", text, s, err, want)
		}
	}
}

func FuzzSimulation(f *testing.F) {
	f.Add([]byte("host: {hostname: a1}\nmemory: {total_bytes: 1}\ngpus:\n- {count: 8, name: x, memory_bytes: 1, state: {foreign: [{pid: 1}]}}\n"))
	f.Add([]byte(`{"gpus":[{"name":"x","memory_bytes":1,"links":null}],"links":[["X"]]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := parseSimulation(text)
		if err != nil {
			return
		}
		cards := s.cards("node", engines.Memory{})
		for i, c := range cards {
			if c.gpu.Index != i || len(cards) > maxSimulatedCards {
				t.Errorf("card %d of %d has index %d", i, len(cards), c.gpu.Index)
			}
		}
	})
}
