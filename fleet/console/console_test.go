package console_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/console"
)

// small is a fleet with something of everything that a person should look at.
func small() *services {
	gone := &apipb.NodeShard{
		Replica: "big-1", State: "failed", Since: ago(0), Reason: "out of memory", Advice: "lower memory_ratio", Lines: []string{"loading", "CUDA error: out of memory"},
	}
	return &services{
		status: &apipb.GetStatusResponse{
			At: ago(0), Standing: &apipb.PlacementStanding{Cluster: "c", Why: "another one leads", ReplicasKnown: true},
			Classes: []*apipb.CardClass{{
				Class: "H100", Total: 8, Free: 1, Taken: 4, Unusable: 1, Away: 1, Occupied: 1,
				UnusableWhy: []*apipb.UnusableCards{{Reason: "xid-79", Count: 1, Nodes: []string{"gpu-7"}}},
			}},
			Fabrics: []*apipb.FabricStatus{
				{Fabric: "east", Members: 3, WholeFree: 1, FreeCards: 8, Holds: []*apipb.NamedCount{{Name: "big", Count: 2}}}, {Fabric: "west", Members: 2, Contradicted: 1},
			},
			WholeFreeNodes: 1, Nodes: []*apipb.NamedCount{{Name: "ready", Count: 4}},
			Models: []*apipb.PlacedModel{
				{Name: "big", Wanted: 1, Ready: 1, IdleSeconds: 7200},
				{Name: "huge", Wanted: 1, IdleSeconds: -1, Unplaced: "no fabric holds all 3 ranks"},
				{Name: "quiet", Wanted: 1, Ready: 1, IdleSeconds: -1},
			},
			Troubled: []*apipb.TroubledReplica{{Replica: "big-1", Model: "big", State: apipb.ReplicaState_REPLICA_STATE_FAILED, Since: ago(0), Reason: "shard 0 failed"}},
			SetAside: []*apipb.SetAsideModel{{Name: "odd", Why: []string{"its name is taken"}}},
		},
		nodes: &apipb.ListNodesResponse{At: ago(0), Nodes: []*apipb.Node{
			{Id: "a-fine", State: apipb.NodeState_NODE_STATE_READY, Connected: true, Heard: ago(0), Target: apipb.NodeTarget_NODE_TARGET_ACTIVE, HardwareKnown: true},
			{
				Id: "b-lost", State: apipb.NodeState_NODE_STATE_LOST, Heard: ago(0), Target: apipb.NodeTarget_NODE_TARGET_ACTIVE, HardwareKnown: true,
				Gpus: []*apipb.NodeGPU{{Id: "g", Name: "H100", Reasons: []string{"xid-79"}, Foreign: []*apipb.NodeGPUProcess{{Pid: 4711, Name: "python"}}}},
			},
		}},
		node: &apipb.GetNodeResponse{At: ago(0), Node: &apipb.Node{
			Id: "b-lost", Heard: ago(0), Shards: []*apipb.NodeShard{gone}, HardwareKnown: true,
			Gpus: []*apipb.NodeGPU{{Id: "g", Name: "H100", Reasons: []string{"xid-79"}, Foreign: []*apipb.NodeGPUProcess{{Pid: 4711, Name: "python"}}}},
		}},
		replicas: &apipb.ListReplicasResponse{At: ago(0), Standing: leads(), Replicas: []*apipb.Replica{
			{Id: "a-well", Model: "big", State: apipb.ReplicaState_REPLICA_STATE_READY, IdleSeconds: -1},
			{
				Id: "big-1", Model: "big", State: apipb.ReplicaState_REPLICA_STATE_FAILED, IdleSeconds: -1, Reason: "shard 0 failed",
				Shards: []*apipb.ReplicaShard{{Node: "b-lost", Status: gone}, {Node: "a-fine"}},
			},
		}},
		models: &apipb.ListModelsResponse{Models: []*apipb.Model{{Name: "big", Engine: "vllm", Aliases: []string{"largest"}}, {Name: "elsewhere"}}},
		model:  &apipb.GetModelResponse{Definition: "name: big\nprofile:\n  env:\n    TOKEN: hunter2\nprices:\n  - input: 0.5\n    output: 1.5\nscaling:\n  min: 1\n"},
		explain: &apipb.ExplainPlacementResponse{
			At: ago(0), Standing: leads(), Need: &apipb.ReplicaNeed{Ranks: []*apipb.RankNeed{{Cards: 8}}},
			Next: &apipb.PlacementDecision{Why: "0 of 2 nodes fit", Rejected: []*apipb.NodeRejection{
				{Node: "a-fine", Reasons: []*apipb.RejectionReason{{Kind: "cards-short", Text: "it needs 8 cards"}}},
				{Node: "b-lost", Reasons: []*apipb.RejectionReason{{Kind: "not-ready", Text: "it is lost"}}},
			}},
		},
		users: []*apipb.User{{Address: "a@example.org", State: apipb.UserState_USER_STATE_APPROVED, ApprovedAt: ago(0), Allowance: &apipb.UserAllowance{Keys: 10}, Admin: true, Keys: 2}, {Address: "b@example.org", State: apipb.UserState_USER_STATE_PENDING}},
		traffic: console.TrafficReading{
			HasPools: true, Models: []console.ModelTraffic{{Model: "big", Requests: 5}},
			Pools: []console.Pool{{Name: "big", Leases: 3, Bands: []console.Band{{Name: "gold", Priority: 5, Ceiling: 0.9, Waiting: 7, Rejected: 2}}}},
		},
	}
}

// text is a page without its tags, spaces made one.
func text(page string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(page, "<")
		b.WriteString(before)
		if !ok {
			break
		}
		_, page, _ = strings.Cut(rest, ">")
		b.WriteByte(' ')
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// holds fails the test for each of some that a page does not say.
func holds(t *testing.T, path, page string, some ...string) {
	t.Helper()
	said := text(page)
	for _, s := range some {
		if !strings.Contains(said, s) {
			t.Errorf("%s does not say %q:\n%s", path, s, said)
		}
	}
}

func TestPages(t *testing.T) {
	h := made(t, small().deps(t)).Handler(webui.Open)
	for _, tt := range []struct {
		path string
		want []string
	}{
		{"/admin/", []string{
			"this control plane gives no orders: another one leads", "replica big-1 of big is failed for 0s: shard 0 failed", "huge has no place, not even on empty nodes: no fabric holds all 3 ranks",
			"H100: 1 unusable, xid-79 (gpu-7)", "odd is set aside: its name is taken", "big: nobody has asked for it for 2h0m", "each of their replicas has had a request: quiet",
			"1 contradicted", "Waiting 7",
		}},
		{"/admin/nodes", []string{"Node State For Cards Shards Fabrics Address Agent What to look at b-lost lost", "GPU 0 H100 (g) is excluded: xid-79", "pid 4711 python", "1 to 2 of 2 nodes"}},
		{"/admin/nodes?q=FINE", []string{"a-fine ready", "1 to 1 of 1 nodes, of 2 in all", "Show all"}},
		{"/admin/nodes?q=nobody", []string{"no nodes, of 2 in all"}},
		{"/admin/node?id=b-lost", []string{"out of memory; lower memory_ratio", "CUDA error: out of memory", "a process that the agent did not start: pid 4711 python, not known"}},
		{"/admin/fabrics", []string{"1 nodes are wholly free", "2 big", "1 of 3"}},
		{"/admin/models", []string{"huge not decided yet", "not run here"}},
		{"/admin/model?name=big", []string{"largest", "it needs 8 cards", "cards-short: 1 not-ready: 1", "- input: 0.5 output: 1.5", "one more has no place, not even on empty nodes: 0 of 2 nodes fit"}},
		{"/admin/model?name=largest", []string{"Model big"}},
		{"/admin/model?name=big&q=lost", []string{"b-lost not-ready it is lost", "1 to 1 of 1 nodes, of 2 in all"}},
		{"/admin/replicas", []string{"What to look at big-1", "out of memory; lower memory_ratio", "not reported rank 1 on a-fine"}},
		{"/admin/replica?id=big-1", []string{"Rank 0 on b-lost", "CUDA error: out of memory", "In flight - Idle -"}},
		{"/admin/queues", []string{"gold 5 90% 7 0 2", "Saturation is not known", "3 run, 7 wait for their turn"}},
		{"/admin/rates", []string{"- requests a second over 10 s", "Nothing to draw yet.", "big - - - - - - - - 5"}},
		{"/admin/accounts", []string{"Waiting for approval", "b@example.org pending no - ", "a@example.org approved yes 2 of 10"}},
		{"/admin/accounts?state=approved", []string{"a@example.org approved"}},
		{"/admin/elsewhere", []string{"/metrics on 127.0.0.1:9090", "10.0.0.1:9100", "/debug/pprof/", "A profile of the heap holds keys and prompts"}},
	} {
		status, page, header := get(t, h, tt.path)
		if status != http.StatusOK || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") || header.Get("Refresh") != "" {
			t.Errorf("%s: %d, %v", tt.path, status, header)
		}
		holds(t, tt.path, page, tt.want...)
		if strings.Contains(page, "hunter2") {
			t.Errorf("%s shows a variable of a model's engine", tt.path)
		}
	}
	if status, page, _ := get(t, h, "/admin"); status != http.StatusSeeOther {
		t.Errorf("/admin: %d %s", status, page)
	}
	for _, path := range []string{"/admin/node?id=gone", "/admin/node", "/admin/model?name=none", "/admin/replica?id=none", "/admin/nothing", "/admin/nodes/"} {
		if status, _, _ := get(t, h, path); status != http.StatusNotFound {
			t.Errorf("%s: %d; want 404", path, status)
		}
	}
}

// What broke is the first row, whatever it is called.
func TestBrokenFirst(t *testing.T) {
	h := made(t, small().deps(t)).Handler(webui.Open)
	for path, order := range map[string][2]string{
		"/admin/nodes": {">b-lost</a>", ">a-fine</a>"}, "/admin/replicas": {">big-1</a>", ">a-well</a>"}, "/admin/models": {">huge</a>", ">big</a>"},
	} {
		_, page, _ := get(t, h, path)
		if a, b := strings.Index(page, order[0]), strings.Index(page, order[1]); a < 0 || b < 0 || a > b {
			t.Errorf("%s: %s stands at %d and %s at %d", path, order[0], a, order[1], b)
		}
	}
}

// A service that fails costs its part of a page, which says so without its innermost
// words.
func TestServiceFails(t *testing.T) {
	var logged bytes.Buffer
	broken := &services{err: errors.New("dial postgres://user:hunter2@db: refused")}
	for _, tt := range []struct {
		name  string
		broke func(d *console.Deps)
		path  string
		want  []string
	}{
		{"placement", func(d *console.Deps) { d.Placement = broken }, "/admin/", []string{"the fleet could not be read: a fault of the server", "In flight"}},
		{"placement", func(d *console.Deps) { d.Placement = broken }, "/admin/nodes", []string{"the replicas could not be read", "b-lost"}},
		{"placement", func(d *console.Deps) { d.Placement = broken }, "/admin/fabrics", []string{"the fabrics could not be read"}},
		{"placement", func(d *console.Deps) { d.Placement = broken }, "/admin/models", []string{"the fleet could not be read", "elsewhere"}},
		{"placement", func(d *console.Deps) { d.Placement = broken }, "/admin/model?name=big", []string{"the fleet could not be read", "vllm"}},
		{"placement", func(d *console.Deps) { d.Placement = broken }, "/admin/replicas", []string{"the replicas could not be read"}},
		{"placement", func(d *console.Deps) { d.Placement = broken }, "/admin/replica?id=big-1", []string{"the replica could not be read"}},
		{"models", func(d *console.Deps) { d.Models = broken }, "/admin/models", []string{"the catalog could not be read", "huge"}},
		{"models", func(d *console.Deps) { d.Models = broken }, "/admin/model?name=big", []string{"the catalog could not be read", "it needs 8 cards"}},
		{"nodes", func(d *console.Deps) { d.Nodes = broken }, "/admin/nodes", []string{"the nodes could not be read"}},
		{"nodes", func(d *console.Deps) { d.Nodes = broken }, "/admin/node?id=b-lost", []string{"the node could not be read"}},
		{"users", func(d *console.Deps) { d.Users = broken }, "/admin/accounts", []string{"the accounts could not be read"}},
	} {
		deps := small().deps(t)
		deps.Logger = slog.New(slog.NewTextHandler(&logged, nil))
		tt.broke(&deps)
		status, page, _ := get(t, made(t, deps).Handler(webui.Open), tt.path)
		if status != http.StatusOK || strings.Contains(page, "hunter2") || !strings.Contains(page, `<nav class="sub"`) {
			t.Errorf("%s, without %s: %d %s", tt.path, tt.name, status, text(page))
		}
		holds(t, tt.path, page, tt.want...)
	}
	if !strings.Contains(logged.String(), "hunter2@db") {
		t.Error("the log does not say why")
	}
	deps := small().deps(t)
	deps.Placement = &services{err: errNotThere} // of which the text may be told
	_, page, _ := get(t, made(t, deps).Handler(webui.Open), "/admin/")
	holds(t, "/admin/", page, "the fleet could not be read: there is no such thing")
}

// What a console is not given has no page, and no page leads there.
func TestOffersWhatThereIs(t *testing.T) {
	paths := map[string]func(d *console.Deps){
		"/admin/nodes": func(d *console.Deps) { d.Nodes = nil }, "/admin/accounts": func(d *console.Deps) { d.Users = nil }, "/admin/usage": func(d *console.Deps) { d.Usage = nil },
		"/admin/queues": func(d *console.Deps) { d.Traffic = nil }, "/admin/rates": func(d *console.Deps) { d.Traffic = nil }, "/admin/replicas": func(d *console.Deps) { d.Placement = nil },
		"/admin/fabrics": func(d *console.Deps) { d.Placement = nil }, "/admin/models": func(d *console.Deps) { d.Placement, d.Models = nil, nil },
		"/admin/elsewhere": func(d *console.Deps) { d.Extras.Elsewhere = nil }, "/admin/node?id=b-lost": func(d *console.Deps) { d.Nodes = nil }, "/admin/replica?id=big-1": func(d *console.Deps) { d.Placement = nil },
	}
	for path, without := range paths {
		deps := small().deps(t)
		if status, _, _ := get(t, made(t, deps).Handler(webui.Open), path); status != http.StatusOK {
			t.Errorf("%s: %d", path, status)
		}
		without(&deps)
		h := made(t, deps).Handler(webui.Open)
		if status, _, _ := get(t, h, path); status != http.StatusNotFound {
			t.Errorf("%s without what it shows: %d; want 404", path, status)
		}
		bare, _, _ := strings.Cut(path, "?")
		for _, other := range []string{"/admin/", "/admin/nodes", "/admin/node?id=b-lost", "/admin/models", "/admin/model?name=big", "/admin/replicas", "/admin/replica?id=big-1", "/admin/queues", "/admin/rates", "/admin/accounts"} {
			if _, page, _ := get(t, h, other); strings.Contains(page, `href="`+bare) {
				t.Errorf("%s leads to %s, which is not there", other, bare)
			}
		}
	}
	// Pages of others are offered after those of the console.
	deps := small().deps(t)
	deps.Extras.More = []webui.NavItem{{Label: "Mirror", Path: "/admin/mirror"}}
	_, page, _ := get(t, made(t, deps).Handler(webui.Open), "/admin/")
	if i, j := strings.Index(page, "/admin/elsewhere"), strings.Index(page, `href="/admin/mirror"`); i < 0 || j < i {
		t.Errorf("pages of others: at %d, after %d", j, i)
	}
	// With nothing at all there is a page that says so.
	site := small().deps(t).Site
	_, page, _ = get(t, made(t, console.Deps{Site: site}).Handler(webui.Open), "/admin/")
	holds(t, "/admin/", page, "This server places nothing")
}

// A console stands where it is put, and its pages lead nowhere else.
func TestRoot(t *testing.T) {
	deps := small().deps(t)
	deps.Root = console.LocalRoot
	h := made(t, deps).Handler(webui.Open)
	if status, _, header := get(t, h, "/console"); status != http.StatusSeeOther || header.Get("Location") != "/console/" {
		t.Errorf("/console: %d to %q", status, header.Get("Location"))
	}
	queue, seen := []string{"/console/"}, map[string]bool{"/console/": true}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		status, page, _ := get(t, h, path)
		if status != http.StatusOK && status != http.StatusNotFound { // of what fakes do not tell of twice
			t.Errorf("%s: %d", path, status)
		}
		_, links := tags(t, page)
		for _, link := range links {
			switch {
			case link == "/" || link == "#main" || strings.HasPrefix(link, "/assets/"):
			case !strings.HasPrefix(link, "/console/"):
				t.Errorf("%s leads to %s", path, link)
			case !seen[link]:
				seen[link] = true
				queue = append(queue, link)
			}
		}
	}
	if len(seen) < 20 {
		t.Errorf("only %d pages were found: %v", len(seen), seen)
	}
	if status, _, _ := get(t, h, "/admin/"); status != http.StatusNotFound {
		t.Errorf("/admin/: %d", status)
	}
	for _, root := range []string{"/", "admin/", "/admin", "/a//b/", "/a/../b/", "/{x}/", "//x/"} {
		deps.Root = root
		if _, err := console.New(console.DefaultConfig(), deps); err == nil {
			t.Errorf("made at %q", root)
		}
	}
}

// The console looks, and changes nothing.
func TestReadOnly(t *testing.T) {
	c := made(t, small().deps(t))
	h := c.Handler(webui.Open)
	for _, route := range c.Routes(webui.Admin) {
		if route.Method != http.MethodGet || route.Access != webui.Admin || !strings.HasPrefix(route.Path, "/admin") {
			t.Errorf("route %s %s for %v", route.Method, route.Path, route.Access)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodHead} {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, route.Path, strings.NewReader("target=drained")))
			if method == http.MethodHead {
				if w.Code == http.StatusMethodNotAllowed {
					t.Errorf("HEAD %s: %d", route.Path, w.Code)
				}
			} else if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, allow %q", method, route.Path, w.Code, w.Header().Get("Allow"))
			}
		}
	}
}

// Behind the guard of the clients' port it is not there for who may not look.
func TestNotThereWithoutFlag(t *testing.T) {
	who := &visits{}
	site, err := webui.New(webui.DefaultConfig(), webui.Deps{Sessions: who})
	if err != nil {
		t.Fatal(err)
	}
	deps := small().deps(t)
	deps.Site = site
	h := made(t, deps).Handler(webui.Admin)
	for _, tt := range []struct {
		name  string
		admin bool
		token string
		want  int
	}{{"nobody", false, "", http.StatusNotFound}, {"somebody", false, strings.Repeat("t", 43), http.StatusNotFound}, {"an admin", true, strings.Repeat("t", 43), http.StatusOK}} {
		who.admin = tt.admin
		for _, path := range []string{"/admin/", "/admin/nodes", "/admin/accounts"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			if tt.token != "" {
				r.AddCookie(&http.Cookie{Name: "llmgw", Value: tt.token})
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("%s at %s: %d; want %d", tt.name, path, w.Code, tt.want)
			}
			if tt.want == http.StatusNotFound && strings.Contains(w.Body.String(), "b-lost") {
				t.Errorf("%s at %s is told of nodes", tt.name, path)
			}
		}
	}
}

// visits are of one visitor.
type visits struct{ admin bool }

func (v *visits) Visit(context.Context, string) (webui.Visitor, error) {
	return webui.Visitor{Address: "a@example.org", Admin: v.admin}, nil
}

func TestNew(t *testing.T) {
	if _, err := console.New(console.DefaultConfig(), console.Deps{}); err == nil {
		t.Error("made without a site")
	}
	for name, change := range map[string]func(*console.Config){
		"sample": func(c *console.Config) { c.Sample = 0 }, "history": func(c *console.Config) { c.History = c.Sample }, "rows": func(c *console.Config) { c.Rows = 1000 },
		"service_timeout": func(c *console.Config) { c.ServiceTimeout = 0 }, "usage_fresh": func(c *console.Config) { c.UsageFresh = -1 },
	} {
		cfg := console.DefaultConfig()
		change(&cfg)
		if _, err := console.New(cfg, small().deps(t)); err == nil || !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
