package generate

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// The reference page has every name of the JSON and every kind of failure.
func TestReferenceIsComplete(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/reference/bench.md")
	if err != nil {
		t.Fatal(err)
	}
	has := func(what, name string) {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/reference/bench.md lacks %s %s", what, name)
		}
	}
	golden, err := os.ReadFile("testdata/report.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(golden, &doc); err != nil {
		t.Fatal(err)
	}
	eachName(doc, func(name string) { has("the JSON name", name) })
	kinds := declaredKinds(t)
	if len(kinds) < 20 {
		t.Fatalf("only %d kinds found", len(kinds))
	}
	for _, kind := range kinds {
		has("the kind", kind)
	}
}

func eachName(v any, yield func(string)) {
	switch v := v.(type) {
	case map[string]any:
		for name, below := range v {
			if name == "missed" { // its names are those of the bounds
				continue
			}
			yield(name)
			eachName(below, yield)
		}
	case []any:
		for _, below := range v {
			eachName(below, yield)
		}
	}
}

// declaredKinds reads the constants of failure.go.
func declaredKinds(t *testing.T) (kinds []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "failure.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Kind") {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			kind, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, kind)
		}
		return true
	})
	return kinds
}
