package app

import (
	"bytes"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/llmgw/llmgw"

// row says what the packages of a folder may import of this module. A package
// without a row belongs to the nearest row above it, and packages of one row
// may import each other.
type row struct {
	folder string
	may    string // folders, separated by spaces; "*" anything but cmd; "/..." a folder with all below it
	why    string // ends the sentence "… must not import …, because"
}

// table is the import table of the module. A change here is a change of the
// architecture and is made in docs/architecture.md too.
func table() []row {
	const (
		vocabulary = "it is vocabulary that everything else uses, and runs nothing"
		alone      = "it is usable without the rest; the joint puts it together with others"
		adapter    = "an adapter only describes one engine"
		wire       = "it knows one wire format and no policy"
		store      = "stores know no domain package; joints adapt"
		side       = "each side of the fleet is usable without the other and without pages or stores it does not declare"
		joint      = "a joint puts libraries together; the binary is built on it, not the other way round"
		binary     = "a main only starts what cmd/internal wires"
	)
	return []row{
		{"engines", "", vocabulary},
		{"engines/process", "engines", alone},
		{"engines/plugin", "engines", alone},
		{"engines/internal/launch", "engines", adapter},
		{"engines/vllm", "engines engines/internal/launch", adapter},
		{"engines/sglang", "engines engines/internal/launch", adapter},
		{"engines/llamacpp", "engines engines/internal/launch", adapter},
		{"engines/ollama", "engines engines/internal/launch", adapter},
		{"engines/tgi", "engines engines/internal/launch", adapter},
		{"engines/tei", "engines engines/internal/launch", adapter},
		{"engines/infinity", "engines engines/internal/launch", adapter},
		{"engines/trtllm", "engines", adapter},
		{"engines/lmdeploy", "engines", adapter},
		{"engines/kvevents", "engines", alone},
		{"engines/exposition", "engines", alone},
		{"engines/sim", "engines engines/internal/launch engines/kvevents engines/vllm", "it is an engine like vLLM, whose facts it shares, and its adapter"},
		{"engines/flagcheck", "engines", alone},
		{"engines/enginetest", "engines engines/flagcheck engines/plugin engines/process engines/exposition engines/sim", alone},
		{"router", "router/schedule router/endpoint router/proxy router/openai router/anthropic router/internal engines", alone},
		// What the packages of router share and nobody else needs: such
		// as the table of errors that both wire formats write.
		{"router/internal", "", wire},
		{"router/schedule", "router/endpoint", alone},
		{"router/endpoint", "engines", alone},
		{"router/scrape", "router/endpoint engines engines/kvevents engines/exposition", alone},
		{"router/prefix", "", alone},
		{"router/proxy", "", alone},
		{"router/openai", "router/internal", wire},
		{"router/anthropic", "router/internal", wire},
		{"admission", "", alone},
		{"placement", "engines", alone},
		{"placement/catalog", "placement/catalog/strictyaml engines", alone},
		// What configuration files and the definitions of models are read by.
		{"placement/catalog/strictyaml", "", "it reads text into structs and knows none of them"},
		{"placement/reconcile", "placement placement/catalog engines", alone},
		{"fleet", "", side},
		{"fleet/fleetpb", "", side},
		{"fleet/apipb", "", side},
		// What both ends of the agents' stream and its fakes share: engines'
		// types as messages and back.
		{"fleet/internal", "fleet/fleetpb engines storage/weights", side},
		{"fleet/control", "fleet/internal fleet/fleetpb engines", side},
		{"fleet/fleettest", "fleet/internal fleet/fleetpb fleet/hardware engines", side},
		{"fleet/feed", "fleet/apipb placement/catalog engines", side},
		{"fleet/agent", "engines engines/process engines/plugin engines/exposition fleet/internal fleet/fleetpb fleet/hardware fleet/pki fleet/discover storage/weights storage/fetch", side},
		{"fleet/hardware", "engines", side},
		{"fleet/pki", "", side},
		{"fleet/discover", "", side},
		{"fleet/leader", "storage", side},
		{"fleet/provider", "storage", side},
		{"fleet/api", "fleet/apipb", side},
		{"fleet/console", "auth/webui fleet/apipb", side},
		{"storage", "", store},
		{"storage/record", "", store},
		{"storage/sqlite", "storage", store},
		{"storage/postgres", "storage", store},
		{"storage/storagetest", "storage", store},
		// Weights are read by themselves; what they need depends on the profile.
		{"storage/weights", "engines", store},
		{"storage/fetch", "storage/weights", store},
		{"storage/mirror", "storage/fetch storage/weights", store},
		{"auth", "storage", alone},
		{"auth/limit", "", alone},
		{"auth/limit/shared", "auth/limit storage", alone},
		{"auth/usage", "storage auth", alone},
		{"auth/account", "storage auth", alone},
		{"auth/webui", "", alone},
		{"auth/portal", "auth/... storage", alone},
		{"router/gateway", "*", joint},
		{"fleet/controlplane", "*", joint},
		{"fleet/twin", "*", joint},
		{"cmd/llmgw", "cmd/internal/...", binary},
		{"cmd/llmgw-agent", "cmd/internal/...", binary},
		{"cmd/internal", "* cmd/internal/...", binary},
		{"examples", "*", "examples show what a stranger can do, who cannot import cmd/internal"},
	}
}

func joints() []string { return []string{"router/gateway", "fleet/controlplane", "fleet/twin"} }

// deciders decide as pure functions of their arguments, so that a decision can
// be replayed; the list is of folders with all below them.
func deciders() []string {
	return []string{"admission", "router/schedule", "router/endpoint", "router/prefix", "placement", "placement/reconcile", "auth/limit"}
}

// strangers are foreign packages and the only folders that may import them
// themselves.
func strangers() map[string][]string {
	return map[string][]string{
		"go.uber.org/fx":                 {"cmd/internal/app"},
		"go.uber.org/dig":                {"cmd/internal/app"},
		"github.com/oklog/run":           {"cmd/internal/app"},
		"github.com/alecthomas/kong":     {"cmd/llmgw", "cmd/llmgw-agent", "cmd/internal/cli"},
		"github.com/knadh/koanf":         {"placement/catalog/strictyaml"},
		"github.com/hashicorp/go-hclog":  {"engines/plugin"},
		"github.com/hashicorp/go-plugin": {"engines/plugin"},
		"google.golang.org/grpc":         {"engines/plugin"},
		"k8s.io":                         {"fleet/discover/kube", "fleet/leader/kubelease"},
	}
}

// heavy are foreign packages and the only folders that may link them, by
// whatever way.
func heavy() map[string][]string {
	return map[string][]string{
		"k8s.io":                        {"fleet/discover/kube", "fleet/leader/kubelease", "cmd/llmgw", "cmd/internal"},
		"github.com/redis/go-redis":     {"auth/limit/shared", "cmd/llmgw", "cmd/internal"},
		"modernc.org/sqlite":            {"storage/sqlite", "cmd/llmgw", "cmd/internal"},
		"github.com/ncruces/go-sqlite3": {"storage/sqlite", "cmd/llmgw", "cmd/internal"},
		"github.com/mattn/go-sqlite3":   {"storage/sqlite", "cmd/llmgw", "cmd/internal"},
		"github.com/jackc/pgx":          {"storage/postgres", "fleet/leader", "cmd/llmgw", "cmd/internal"},
	}
}

// slim are what llmgw-agent, which runs on every node, does not link.
func slim() []string {
	return []string{"k8s.io", "database/sql", "html/template", "storage/sqlite", "storage/postgres", "fleet/console", "auth"}
}

func TestImports(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, stderr.String())
	}
	imports := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		imports[words[0]] = words[1:]
	}
	for _, fault := range violations(imports) {
		t.Error(fault)
	}
}

// violations applies the table and the rules to a graph of direct imports.
func violations(imports map[string][]string) []string {
	var out []string
	for pkg, direct := range imports {
		from, ours := inModule(pkg)
		if !ours {
			continue
		}
		r, ok := rowOf(from)
		if !ok {
			out = append(out, fmt.Sprintf("%s has no row in the import table; add one, or move it below a folder that has one", from))
			continue
		}
		for _, imported := range direct {
			if why := refusal(r, from, imported); why != "" {
				out = append(out, fmt.Sprintf("%s must not import %s, because %s", from, strings.TrimPrefix(imported, module+"/"), why))
			}
		}
		for target, way := range reached(imports, pkg) {
			for name, folders := range heavy() {
				if under(target, name) && !anyUnder(folders, from) {
					out = append(out, fmt.Sprintf("%s must not link %s, because only %s may (by way of %s)", from, name, strings.Join(folders, ", "), way))
				}
			}
			// net/rpc and gRPC, by way of which adapters are linked, have pages for
			// debugging that nothing serves.
			if _, ours := inModule(way); target == "html/template" && !ours {
				continue
			}
			if from == "cmd/llmgw-agent" && slices.ContainsFunc(slim(), func(s string) bool { return under(strings.TrimPrefix(target, module+"/"), s) }) {
				out = append(out, fmt.Sprintf("%s must not link %s, because it runs on every node and stays small (by way of %s)", from, target, way))
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// refusal returns why a package must not import another, or "".
func refusal(r row, from, imported string) string {
	for name, folders := range strangers() {
		if under(imported, name) && !anyUnder(folders, from) {
			return "only " + strings.Join(folders, ", ") + " may; libraries stay plain for those who embed them"
		}
	}
	if isDecider(from) && slices.Contains([]string{"net/http", "os/exec", "database/sql"}, imported) {
		return "it decides, and does nothing else"
	}
	to, ours := inModule(imported)
	if !ours {
		return ""
	}
	target, _ := rowOf(to)
	switch {
	case target.folder == r.folder:
		return ""
	case under(to, "cmd") && !under(from, "cmd"):
		return "nothing imports cmd"
	case slices.Contains(joints(), target.folder) && !under(from, "cmd") && !under(from, "examples") && !slices.Contains(joints(), r.folder):
		return "only cmd, examples, tests and another joint import a joint"
	case separate(from, to) && !slices.Contains(joints(), r.folder) && !under(from, "cmd") && !under(from, "examples"):
		return "router, admission, placement and auth never import one another; declare the small interface that is needed"
	}
	for may := range strings.FieldsSeq(r.may) {
		tree, all := strings.CutSuffix(may, "/...")
		if (may == "*" && !under(to, "cmd")) || target.folder == may || (all && under(to, tree)) {
			return ""
		}
	}
	return r.why
}

// separate reports whether two packages stand in different ones of the four
// top-level folders that are kept apart.
func separate(a, b string) bool {
	top := func(p string) string { first, _, _ := strings.Cut(p, "/"); return first }
	four := []string{"router", "admission", "placement", "auth"}
	return top(a) != top(b) && slices.Contains(four, top(a)) && slices.Contains(four, top(b))
}

func isDecider(folder string) bool {
	r, _ := rowOf(folder)
	return slices.Contains(deciders(), r.folder)
}

// rowOf returns the nearest row at or above a folder.
func rowOf(folder string) (row, bool) {
	var best row
	for _, r := range table() {
		if under(folder, r.folder) && len(r.folder) > len(best.folder) {
			best = r
		}
	}
	return best, best.folder != ""
}

func inModule(pkg string) (string, bool) { return strings.CutPrefix(pkg, module+"/") }

func under(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

func anyUnder(folders []string, path string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return under(path, f) })
}

// reached returns every package that pkg links, with the package by way of
// which it was found first.
func reached(imports map[string][]string, pkg string) map[string]string {
	out := make(map[string]string)
	queue := []string{pkg}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for _, next := range imports[p] {
			if _, seen := out[next]; !seen {
				out[next] = p
				queue = append(queue, next)
			}
		}
	}
	return out
}

// The rules notice what they are for.
func TestImportRulesBite(t *testing.T) {
	tests := []struct {
		name, from, to string
		want           string // substring of the only violation; "" for none
	}{
		{"within a row", "router/openai/x", "router/openai", ""},
		{"the table", "router/schedule", "router/endpoint", ""},
		{"a joint uses anything", "router/gateway", "placement/catalog", ""},
		{"a joint uses a joint", "fleet/twin", "router/gateway", ""},
		{"cmd uses a joint", "cmd/internal/app/server", "router/gateway", ""},
		{"examples use a joint", "examples/embed-router", "router/gateway", ""},
		{"portal uses auth", "auth/portal", "auth/usage", ""},
		{"not in the table", "router/endpoint", "router/schedule", "usable without the rest"},
		{"no row", "util", "engines", "has no row"},
		{"library uses cmd", "router", "cmd/internal/config", "nothing imports cmd"},
		{"library uses a joint", "admission", "router/gateway", "import a joint"},
		{"the four are apart", "router", "placement/catalog", "never import one another"},
		{"the four are apart below", "placement/reconcile", "router/endpoint", "never import one another"},
		{"decider does I/O", "admission/core", "=net/http", "it decides"},
		{"fx in a library", "router/gateway", "=go.uber.org/fx", "libraries stay plain"},
		{"fx in the CLI", "cmd/internal/cli", "=go.uber.org/fx/fxevent", "libraries stay plain"},
		{"kong in a library", "router", "=github.com/alecthomas/kong", "libraries stay plain"},
		{"main wires", "cmd/llmgw", "router", "a main only starts"},
		{"examples use cmd", "examples/x", "cmd/internal/cli", "nothing imports cmd"},
		{"gRPC in a library", "fleet/agent", "=google.golang.org/grpc/codes", "libraries stay plain"},
		{"driver in a library", "storage", "=modernc.org/sqlite/lib", "must not link modernc.org/sqlite"},
		{"Kubernetes outside of its package", "cmd/internal/cli", "=k8s.io/api/core/v1", "libraries stay plain"},
		{"Kubernetes in its package", "fleet/discover/kube", "=k8s.io/client-go/rest", ""},
		{"agent links a driver", "cmd/llmgw-agent", "=database/sql", "stays small"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to, foreign := strings.CutPrefix(tt.to, "=")
			if !foreign {
				to = module + "/" + tt.to
			}
			got := violations(map[string][]string{module + "/" + tt.from: {to}})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("violations %v, want none", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("violations %q, want one with %q", got, tt.want)
			}
		})
	}
}

func TestTableIsWellFormed(t *testing.T) {
	var folders []string
	for _, r := range table() {
		folders = append(folders, r.folder)
	}
	unique := slices.Compact(slices.Sorted(slices.Values(folders)))
	if diff := cmp.Diff(len(unique), len(folders)); diff != "" {
		t.Errorf("a folder has two rows (-unique +rows):\n%s", diff)
	}
	for _, r := range table() {
		for may := range strings.FieldsSeq(r.may) {
			if may = strings.TrimSuffix(may, "/..."); may != "*" && !slices.Contains(folders, may) {
				t.Errorf("%s may import %s, which has no row", r.folder, may)
			}
		}
	}
}
