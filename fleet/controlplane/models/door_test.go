package models_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/storage"
)

// door is the management API over HTTP, as curl meets it.
func door(t *testing.T, b *bench) string {
	t.Helper()
	mux := http.NewServeMux()
	for _, path := range api.Paths() {
		mux.Handle(path, api.NewHandler(api.Deps{Models: b.Models}))
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL + "/llmgw.api.v1.ModelService/"
}

func post(t *testing.T, url string, body any) (status int, message string) {
	t.Helper()
	text, isText := body.(string)
	if !isText {
		data, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		text = string(data)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Message string }
	if err := json.Unmarshal(data, &said); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return res.StatusCode, said.Message
}

type adds struct {
	Definition string `json:"definition"`
	File       string `json:"file"`
	Replace    bool   `json:"replace,omitempty"`
}

// Whatever is wrong with a definition is a 400 that says what, with the file, the line
// and the key, at once and without a trace in the catalog.
func TestBadDefinitions(t *testing.T) {
	s := &store{}
	b := newBench(t, s, []catalog.Model{{Name: "a", Aliases: []string{"x"}}}, func(d *models.Deps) {
		d.Fits = func(_ context.Context, m *catalog.Model) ([]string, error) {
			if m.Profile.TensorParallel > 8 {
				return nil, errors.New("profile: no node that is known could run it, even if all were empty: 0 of 4 nodes fit")
			}
			return nil, nil
		}
	})
	b.ok(b.add("name: kept\naliases: [k]\n"))
	b.ok(b.add("name: user\nfallbacks: [k]\n"))
	url := door(t, b)
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x,x]\n")
	for c := 'b'; c <= 'i'; c++ {
		bomb.WriteString(fmt.Sprintf("%c: &%c [*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c,*%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1, c-1))
	}
	runs := func(rest string) string { return "name: b\nsource: /m\nprofile:\n  engine: sim\n" + rest }
	for _, tt := range []struct{ name, definition, want string }{
		{"a name of the configuration's", "name: a\n", `m.yaml:1: name: "a" belongs to model "a" of the configuration, which wins`},
		{"a name that is an alias there", "name: x\n", `m.yaml:1: name: "x" belongs to model "a" of the configuration`},
		{"an alias that is a name", "name: b\naliases: [a]\n", `m.yaml:2: aliases[0]: "a" belongs to model "a" of the configuration`},
		{"an alias that was added", "name: b\naliases:\n- c\n- k\n", `m.yaml:4: aliases[1]: "k" belongs to model "kept", which was added before`},
		{"an alias that is its own name", "name: b\naliases: [b]\n", `m.yaml:2: aliases[0]: "b" is already the name of`},
		{"two of one name", "models:\n- name: b\n- name: b\n", `m.yaml:3: models[1].name: "b" is already the name of models[0]`},
		{"no such fallback", "name: b\nfallbacks: [gone]\n", `m.yaml:2: fallbacks[0]: "gone" is no model or alias of the catalog`},
		{"itself as a fallback", "name: b\nfallbacks: [b]\n", `m.yaml:2: fallbacks[0]: "b" is this model itself`},
		{"itself by an alias", "name: b\naliases: [c]\nfallbacks: [c]\n", `m.yaml:3: fallbacks[0]: "c" is this model itself`},
		{"what no node could hold", runs("  tensor_parallel: 16\n"), "m.yaml:3: profile: no node that is known could run it, even if all were empty"},
		{"nothing", "", "definition is empty; want a model's entry in YAML"},
		{"only comments", "# nothing\n", `m.yaml: name: "" is empty`},
		{"two documents", "name: b\n---\nname: c\n", "m.yaml:2: "},
		{"NUL bytes", "name: b\x00\n", "m.yaml"},
		{"a list", "- name: b\n", "m.yaml:1: "},
		{"a scalar", "b\n", "m.yaml:1: "},
		{"deeply nested", "name: b\naliases: " + deep + "\n", "m.yaml:2: "},
		{"deeply nested, in braces", "name: b\nplacement: " + strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000) + "\n", "m.yaml:2: "},
		{"a bomb of aliases", bomb.String() + "name: *i\naliases: *i\n", "m.yaml:1: "},
		{"a bomb in the aliases", "name: b\naliases: &a [[*b]]\nfallbacks: &b [x]\n", "m.yaml:2: "},
		{"an alias of itself", "name: b\naliases: &a [*a]\n", "m.yaml:2: "},
		{"a merge of itself", "&m\nname: b\n<<: *m\n", "m.yaml:"},
		{"an unknown tag", "name: !!python/object:os.system b\n", "m.yaml:1: "},
		{"a key twice", "name: b\nname: c\n", "m.yaml:2: "},
		{"invisible characters", "name: \"b\\u200bc\"\n", `m.yaml:1: name: "b\u200bc" contains the invisible character U+200B`},
		{"right to left", "name: \"b\\u202ec\"\n", `m.yaml:1: name: "b\u202ec" contains the invisible character U+202E`},
		{"a pattern", "name: b*\n", `m.yaml:1: name: "b*" contains *`},
		{"a long name", "name: " + strings.Repeat("b", 300) + "\n", "m.yaml:1: name: 300 bytes; want at most 256"},
		{"a path as a source", "name: b\nsource: ../../etc/passwd\n", `m.yaml:2: source: "../../etc/passwd" is relative`},
		{"a flag as a source", "name: b\nsource: --help\n", "m.yaml:2: source: "},
		{"a file URL", "name: b\nsource: file:///etc/passwd\n", "m.yaml:2: source: "},
		{"a name that no engine takes", strings.Replace(runs(""), "name: b", "name: a b", 1), `m.yaml:1: name: "a b" is no name`},
		{"negative replicas", runs("scaling: {min: -1}\n"), "m.yaml:5: scaling.min: -1"},
		{"too many replicas", runs("scaling: {min: 99999999999999999999}\n"), "m.yaml:5: scaling.min: "},
		{"half a replica", runs("scaling: {min: 0.5}\n"), "m.yaml:5: scaling.min: "},
		{"negative cards", runs("  tensor_parallel: -8\n"), "m.yaml:5: profile.tensor_parallel: is -8"},
		{"cards that overflow", runs("  tensor_parallel: 65536\n  pipeline_parallel: 65536\n  data_parallel: 65536\n"), "m.yaml:"},
		{"cards beyond int64", runs("  tensor_parallel: 9223372036854775808\n"), "m.yaml:5: profile.tensor_parallel: "},
		{"memory that is no number", runs("  memory_ratio: .nan\n"), "m.yaml:5: profile.memory_ratio: "},
		{"memory without end", runs("  memory_ratio: .inf\n"), "m.yaml:5: profile.memory_ratio: "},
		{"negative bytes", runs("placement: {card_memory_bytes: -1}\n"), "m.yaml:5: placement.card_memory_bytes: "},
		{"a price that is no number", "name: b\nprices: [{input: .nan, output: 1}]\n", "m.yaml:2: prices[0].input: "},
		{"a negative price", "name: b\nprices: [{input: -1, output: 1}]\n", "m.yaml:2: prices[0].input: "},
		{"a price that overflows", "name: b\nprices: [{input: 1, output: 9e99}]\n", "m.yaml:2: prices[0].output: "},
		{"a time that overflows", runs("  load_timeout: 999999999999h\n"), "m.yaml:5: profile.load_timeout: "},
		{"a node's name like a path", runs("placement: {nodes: [../../a]}\n"), "m.yaml:5: placement.nodes[0]: "},
		{"a variable with a NUL", runs("  env: {A: \"a\\0b\"}\n"), "m.yaml:5: profile.env"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			version, began := b.Current().Version, time.Now()
			status, message := post(t, url+"AddModel", adds{Definition: tt.definition, File: "m.yaml"})
			if status != http.StatusBadRequest || !strings.HasPrefix(message, tt.want) && !strings.Contains(message, "\n"+tt.want) {
				t.Errorf("%d %.400s; want 400 with %s", status, message, tt.want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if b.Current().Version != version || len(s.models) != 2 {
				t.Error("something changed")
			}
		})
	}
	for _, tt := range []struct {
		name string
		call string
		body any
		code int
		want string
	}{
		{"no JSON", "AddModel", `{"definition":`, 400, ""},
		{"another field", "AddModel", `{"definitoin":"name: b"}`, 400, `unknown field "definitoin"`},
		{"a number", "AddModel", `{"definition":5}`, 400, ""},
		{"too long", "AddModel", adds{Definition: "name: b\n#" + strings.Repeat("x", api.MaxDefinitionBytes)}, 400, "definition has"},
		{"a file's name like a path", "AddModel", adds{Definition: "name: a\n", File: "../../\x1b[31m\nm.yaml"}, 400, ""},
		{"the end of nothing", "RemoveModel", map[string]string{"name": ""}, 400, ""},
		{"the end of what is not there", "RemoveModel", map[string]string{"name": "../b"}, 404, `there is no model "../b"`},
		{"the end of the configuration's", "RemoveModel", map[string]string{"name": "a"}, 400, "remove it there and send SIGHUP"},
		{"the end of a fallback", "RemoveModel", map[string]string{"name": "kept"}, 400, `other models need "kept"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if status, message := post(t, url+tt.call, tt.body); status != tt.code || !strings.Contains(message, tt.want) || strings.Contains(message, "\x1b") {
				t.Errorf("%d %.400s; want %d with %s", status, message, tt.code, tt.want)
			}
		})
	}
}

// Names differ by case, look like paths or are in any script: all are kept as they are.
func TestOddNames(t *testing.T) {
	b := newBench(t, &store{}, []catalog.Model{{Name: "a"}}, nil)
	url := door(t, b)
	for _, name := range []string{"A", "../../etc/passwd", "/", "..", "org/model:tag", "模型", "é", "e\u0301", "null", "true", "1", "1e3", "~", "[", "- a", "a: b", "#x", "'", `"`} {
		quoted, _ := json.Marshal(name)
		if status, message := post(t, url+"AddModel", adds{Definition: "name: " + string(quoted) + "\n"}); status != http.StatusOK {
			t.Errorf("%q: %d %s", name, status, message)
		}
		if m, ok := b.Current().Catalog.Resolve(name); !ok || m.Name != name {
			t.Errorf("%q is found as %v", name, m)
		}
		if status, message := post(t, url+"RemoveModel", map[string]string{"name": name}); status != http.StatusOK {
			t.Errorf("the end of %q: %d %s", name, status, message)
		}
	}
}

// Many add and remove at once: what is there in the end is what was told, and each
// change is there once.
func TestAddedAndRemovedAtOnce(t *testing.T) {
	s := &store{}
	b := newBench(t, s, nil, nil)
	url := door(t, b)
	var wg sync.WaitGroup
	var mu sync.Mutex
	added := map[string]int{}
	for i := range 8 {
		wg.Go(func() {
			for j := range 6 {
				name := fmt.Sprintf("m%d", (i+j)%6)
				if status, _ := post(t, url+"AddModel", adds{Definition: "name: " + name + "\nmax_output_tokens: " + fmt.Sprint(i+1) + "\n"}); status == http.StatusOK {
					mu.Lock()
					added[name]++
					mu.Unlock()
				} else if status != http.StatusBadRequest && status != http.StatusServiceUnavailable {
					t.Errorf("%s: %d", name, status)
				}
				if j%2 == 1 {
					if status, _ := post(t, url+"RemoveModel", map[string]string{"name": name}); status == http.StatusOK {
						mu.Lock()
						added[name]--
						mu.Unlock()
					} else if status != http.StatusNotFound && status != http.StatusServiceUnavailable {
						t.Errorf("the end of %s: %d", name, status)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range 6 {
		name := fmt.Sprintf("m%d", i)
		_, there := b.Current().Catalog.Resolve(name)
		kept := false
		for _, m := range s.models {
			kept = kept || m.Name == name
		}
		if there != kept || there != (added[name] > 0) {
			t.Errorf("%s: in the catalog %t, in the store %t, added less removed %d", name, there, kept, added[name])
		}
	}
}

// A change of one model beside as many as there may be.
func BenchmarkChange(b *testing.B) {
	s := &store{}
	for i := range catalog.MaxModels - 1 {
		name := fmt.Sprintf("m%d", i)
		s.models = append(s.models, storage.Model{Name: name, Definition: "name: " + name + "\n", Actor: "ada", Revision: 1})
	}
	m, err := models.New(nil, models.Deps{Store: s})
	if err == nil {
		err = m.Load(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Run(fmt.Sprintf("models=%d", catalog.MaxModels), func(b *testing.B) {
		for b.Loop() {
			if _, err := m.AddModel(b.Context(), &apipb.AddModelRequest{Definition: "name: more\n"}); err != nil {
				b.Fatal(err)
			}
			if _, err := m.RemoveModel(b.Context(), &apipb.RemoveModelRequest{Name: "more"}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
