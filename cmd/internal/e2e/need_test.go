package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/storage/weights/weightstest"
)

// needModels are models that llama.cpp would run, of which nothing is started.
const needModels = `
models:
  - name: large
    source: %[1]s/large.gguf
    profile: {engine: llamacpp, context_tokens: 8192, max_running: 1}
  - name: stated
    source: %[1]s/large.gguf
    profile: {engine: llamacpp, context_tokens: 8192, max_running: 1}
    placement: {card_memory_bytes: 3221225472}
  - name: cut
    source: %[1]s/cut.gguf
    profile: {engine: llamacpp}
  - name: elsewhere
    source: /etc/hostname
    profile: {engine: llamacpp}
`

// What a model needs is read from the headers of its weights on a real agent's disk,
// of that in the directories of its configuration and nothing else; explain-placement
// shows it in parts, status where the weights are; and a model that no card could hold
// is refused when it is added.
func TestNeed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	models := filepath.Join(w.dir, "models")
	if err := weightstest.Llama8B().Write(filepath.Join(models, "large.gguf")); err != nil {
		t.Fatal(err)
	}
	if err := weightstest.Tiny().Write(filepath.Join(models, "cut.gguf")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(models, "cut.gguf"), 4096); err != nil {
		t.Fatal(err)
	}
	s := w.server(fmt.Sprintf(needModels, models))
	n := w.node(nodeOptions{
		id: "n1", servers: []string{"http://" + s.agents}, cards: 1, engines: "llamacpp: /bin/true", slim: true, infiniband: w.ports("n1"),
		more: fmt.Sprintf("fabrics: [{name: one, rate_gbps: 400}]\nweights: {dirs: [%s]}", models),
	})
	n.start()
	explain := func(model string) (out struct {
		Need struct {
			CardMemoryBytes string `json:"card_memory_bytes"`
			Memory          struct {
				Source         string
				Why            string
				WeightsMissing string `json:"weights_missing"`
				Weights        *struct{ Format, Architecture, Node, Path, Bytes string }
				Classes        []struct {
					Class, Bytes string
					Parts        []struct{ Name, Bytes, How string }
				}
			}
		}
	}) {
		t.Helper()
		text := w.ctl(s, "explain-placement", model, "--json")
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		return out
	}
	until(t, "the models are placed", func() bool { // nothing is known of them until it leads
		_, err := w.run("ctl", "explain-placement", "large", "--admin", "http://"+s.admin)
		return err == nil
	})
	until(t, "the weights of large are seen", func() bool { return explain("large").Need.Memory.Weights != nil })
	large := explain("large").Need
	if m := large.Memory; m.Source != "MEMORY_SOURCE_ESTIMATED" || m.Weights.Format != "gguf" || m.Weights.Architecture != "llama" || m.Weights.Node != "n1" ||
		m.Weights.Path != filepath.Join(models, "large.gguf") || len(m.Classes) != 1 || m.Classes[0].Class != "Simulated" {
		t.Errorf("large: %+v", m)
	} else {
		parts := map[string]string{}
		for _, p := range m.Classes[0].Parts {
			parts[p.Name] = p.Bytes
		}
		// A token of Llama-3-8B takes 131,072 bytes.
		if parts["kv cache"] != fmt.Sprint(131072*8192) || parts["weights"] == "" || m.Classes[0].Bytes == "" || m.Classes[0].Bytes != large.CardMemoryBytes {
			t.Errorf("large: parts %v, planned %q, of a card %q", parts, m.Classes[0].Bytes, large.CardMemoryBytes)
		}
	}
	if m := explain("stated").Need; m.Memory.Source != "MEMORY_SOURCE_STATED" || m.CardMemoryBytes != "3221225472" || len(m.Memory.Classes) != 1 || m.Memory.Classes[0].Bytes != large.CardMemoryBytes {
		t.Errorf("stated: %+v; want what is stated, with the estimate beside it", m)
	}
	for model, want := range map[string]string{"cut": "1 with a part of them; on n1: weights: incomplete", "elsewhere": "weights.dirs"} {
		until(t, model+" is explained", func() bool { return strings.Contains(explain(model).Need.Memory.WeightsMissing, want) })
		if m := explain(model).Need; m.Memory.Source != "MEMORY_SOURCE_UNKNOWN" || !strings.Contains(m.Memory.Why, "not zero") || m.CardMemoryBytes != "" {
			t.Errorf("%s: %+v; want a need that is not known", model, m)
		}
	}
	for text, wants := range map[string][]string{
		w.ctl(s, "explain-placement", "large"): {"memory: estimated from ", "weights: gguf, llama, F16, 14.96 GiB in 1 file, at " + models, "1.00 GiB", "kv cache: "},
		w.ctl(s, "explain-placement", "cut"):   {"memory: not known, which is not zero: ", "wholly free, since how much of them it needs is not known"},
		w.ctl(s, "status"):                     {"large (1 node), stated (1 node)\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in:\n%s", want, text)
			}
		}
	}

	// One of some 200 GiB comes to the disk, and somebody wants to add it.
	huge := weightstest.Llama8B()
	huge.Layers *= 14
	if err := huge.Write(filepath.Join(models, "huge.gguf")); err != nil {
		t.Fatal(err)
	}
	file := w.write("huge.yaml", fmt.Sprintf("name: huge\nsource: %s/huge.gguf\nprofile: {engine: llamacpp, context_tokens: 8192}\n", models))
	out, err := w.run("ctl", "model", "add", "-f", file, "--admin", "http://"+s.admin)
	if err == nil || !strings.Contains(out, "no node that is known could run it") || !strings.Contains(out, "what it needs is estimated") {
		t.Errorf("huge is added: %v\n%s", err, out)
	}
}
