package kube_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/llmgw/llmgw/fleet/discover"
	"github.com/llmgw/llmgw/fleet/discover/discovertest"
	"github.com/llmgw/llmgw/fleet/discover/kube"
)

// fixture reads what kubectl get services,pods,nodes -A -o json prints.
func fixture(t testing.TB, rule string) kube.Lists {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", rule+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	var out kube.Lists
	for _, item := range list.Items {
		var kind struct{ Kind string }
		if err := json.Unmarshal(item, &kind); err != nil {
			t.Fatal(err)
		}
		switch kind.Kind {
		case "Service":
			out.Services = append(out.Services, decode[corev1.Service](t, item))
		case "Pod":
			out.Pods = append(out.Pods, decode[corev1.Pod](t, item))
		case "Node":
			out.Nodes = append(out.Nodes, decode[corev1.Node](t, item))
		default:
			t.Fatalf("%s holds a %q", rule, kind.Kind)
		}
	}
	return out
}

func decode[T any](t testing.TB, text []byte) T {
	t.Helper()
	var out T
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

type ruleTest struct {
	rule string // a file of testdata
	opts kube.Options
	want []string // address, node ("-": unknown) and origin, in order
}

func rules() []ruleTest {
	prod := kube.Options{Cluster: "prod"}
	edge := kube.Options{Cluster: "prod", Advertise: "edge.example"}
	return []ruleTest{
		{"dsc03-nodeport", prod, []string{"http://10.0.0.1:30800 gold01 service ai/vllm"}},
		{"dsc03-loadbalancer", prod, []string{"http://203.0.113.10:80 gold01 service ai/vllm", "http://10.0.0.1:31080 gold01 service ai/vllm"}},
		{"dsc03-loadbalancer-hostname", prod, []string{
			"http://lb-1.elb.example:443 gold01 service ai/vllm", "http://lb-1.elb.example:80 gold01 service ai/vllm",
			"http://10.0.0.1:31443 gold01 service ai/vllm", "http://10.0.0.1:31080 gold01 service ai/vllm",
		}},
		{"dsc03-loadbalancer-pending", prod, []string{"http://10.0.0.1:31080 gold01 service ai/vllm"}},
		{"dsc03-loadbalancer-without-nodeports", prod, []string{"http://203.0.113.10:80 gold01 service ai/vllm"}},
		{"dsc03-hostport", prod, []string{"http://10.0.0.1:18000 gold01 pod ai/vllm-0"}},
		{"dsc03-hostport-bound", prod, []string{"http://127.0.0.1:8000 gold01 pod ai/a", "http://10.9.0.1:8001 gold01 pod ai/a", "http://10.0.0.1:8002 gold01 pod ai/a"}},
		{"dsc03-clusterip", prod, nil},
		{"dsc03-headless-and-external-name", prod, nil},
		{"dsc03-not-tcp", prod, nil},
		{"dsc04-no-labels", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0"}},
		{"dsc05-databases", prod, []string{
			"http://10.0.0.1:80 gold01 pod ingress/ingress-x", "http://10.0.0.1:443 gold01 pod ingress/ingress-x",
			"http://203.0.113.11:6379 - service db/redis", "http://10.0.0.1:30432 gold01 service db/pg", "http://10.0.0.1:30379 - service db/redis",
		}},
		{"dsc06-1-hostport", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0"}},
		{"dsc06-2-containerport", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0"}},
		{"dsc06-3-command", prod, []string{"http://10.0.0.1:8011 gold01 pod ai/vllm-0"}},
		{"dsc06-3-args", prod, []string{"http://10.0.0.1:8012 gold01 pod ai/vllm-0"}},
		{"dsc06-4-readiness", prod, []string{"http://10.0.0.1:8001 gold01 pod ai/vllm-0"}},
		{"dsc06-5-liveness", prod, []string{"http://10.0.0.1:8002 gold01 pod ai/vllm-0"}},
		{"dsc06-6-startup", prod, []string{"http://10.0.0.1:8003 gold01 pod ai/vllm-0"}},
		{"dsc06-per-container", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0", "http://10.0.0.1:9400 gold01 pod ai/vllm-0", "http://10.0.0.1:8500 gold01 pod ai/vllm-0"}},
		{"dsc06-none", prod, nil},
		{"dsc07-port-with-space", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0"}},
		{"dsc07-port-with-equals", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0"}},
		{"dsc07-port-in-a-shell", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0"}},
		{"dsc07-last-port", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0"}},
		{"dsc07-no-port", prod, nil},
		{"dsc08-named-probe", prod, nil},
		{"dsc08-named-then-number", prod, []string{"http://10.0.0.1:8002 gold01 pod ai/vllm-0"}},
		{"dsc09-internal-ip", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/vllm-0"}},
		{"dsc09-ipv6", prod, []string{"http://[fd00::1]:8000 gold01 pod ai/vllm-0"}},
		{"dsc09-no-address", prod, nil},
		{"dsc09-unknown-node", prod, nil},
		{"dsc10-nodeport", edge, []string{"http://10.0.0.2:9000 gold02 pod ai/other", "http://edge.example:30800 gold01 service ai/vllm"}},
		{"dsc10-one-node", edge, []string{"http://edge.example:9000 gold01 pod ai/other", "http://edge.example:30800 gold01 service ai/vllm"}},
		{"dsc10-one-node", prod, []string{"http://10.0.0.1:9000 gold01 pod ai/other", "http://10.0.0.1:30800 gold01 service ai/vllm"}},
		{"dsc10-ready-node", prod, []string{"http://10.0.0.1:30800 - service ai/vllm"}},
		{"dsc10-local-policy", prod, []string{"http://10.0.0.2:30800 gold02 service ai/vllm"}},
		{"dsc10-local-policy-without-pods", prod, nil},
		{"dsc14-names", prod, []string{"http://10.0.0.1:8000 gold01 pod ai/a", "http://10.0.0.2:8000 gold02 pod ai/b"}},
		{"dsc17-node-unknown", prod, []string{"http://203.0.113.10:80 - service ai/vllm", "http://10.0.0.1:31080 - service ai/vllm"}},
		{"dsc18-one-node", prod, []string{"https://llm.example gold01 service ai/vllm"}},
		{"dsc18-several-nodes", prod, []string{"https://llm.example - service ai/vllm"}},
		{"dsc18-no-selector", prod, []string{"https://llm.example - service ai/vllm"}},
		{"dsc18-selector-of-several-labels", prod, []string{"https://llm.example gold01 service ai/vllm"}},
		{"dsc19-schemes", prod, []string{
			"http://llm.example gold01 service ai/d", "https://llm2.example - service ai/e",
			"http://10.0.0.1:30800 gold01 service ai/c", // as if there were none
		}},
		{"dsc19-instead", prod, []string{"https://llm.example gold01 service ai/vllm"}},
		{"pods-that-do-not-run", prod, []string{"http://10.0.0.1:8005 gold01 pod ai/loading"}},
	}
}

func show(cs []discover.Candidate) []string {
	var out []string
	for _, c := range cs {
		node := c.Node
		if node == "" {
			node = "-"
		}
		out = append(out, fmt.Sprintf("%s %s %s", c.BaseURL, node, c.Origin))
	}
	return out
}

func TestCandidates(t *testing.T) {
	for _, tt := range rules() {
		t.Run(tt.rule, func(t *testing.T) {
			in := fixture(t, tt.rule)
			got := kube.Candidates(in, tt.opts)
			if diff := cmp.Diff(tt.want, show(got.Candidates)); diff != "" {
				t.Error(diff)
			}
			for _, c := range got.Candidates {
				if diff := cmp.Diff([]string{tt.opts.Cluster, c.Node}, c.Prefix); diff != "" {
					t.Error(diff)
				}
			}
			// However the API server sorts.
			rng := rand.New(rand.NewPCG(1, 2))
			for range 5 {
				rng.Shuffle(len(in.Services), func(i, j int) { in.Services[i], in.Services[j] = in.Services[j], in.Services[i] })
				rng.Shuffle(len(in.Pods), func(i, j int) { in.Pods[i], in.Pods[j] = in.Pods[j], in.Pods[i] })
				rng.Shuffle(len(in.Nodes), func(i, j int) { in.Nodes[i], in.Nodes[j] = in.Nodes[j], in.Nodes[i] })
				if diff := cmp.Diff(got, kube.Candidates(in, tt.opts), cmp.Comparer(func(a, b fmt.Stringer) bool { return a.String() == b.String() })); diff != "" {
					t.Fatalf("in another order:\n%s", diff)
				}
			}
		})
	}
	if got := kube.Candidates(kube.Lists{}, kube.Options{}); len(got.Candidates) != 0 || len(got.Never) != 0 {
		t.Errorf("of nothing comes %+v", got)
	}
}

// fixed is a source of what it is.
type fixed discover.Listing

func (f fixed) List(context.Context) (discover.Listing, error) { return discover.Listing(f), nil }

// What a scan of a whole fixture registers: as name and address.
func scan(t *testing.T, in kube.Lists, opts kube.Options, answers func(base string) (discovertest.Answer, bool)) []string {
	t.Helper()
	var out []string
	synctest.Test(t, func(t *testing.T) {
		listing := kube.Candidates(in, opts)
		engines := &discovertest.Engines{}
		for _, c := range listing.Candidates {
			base, err := discover.BaseURL(c.BaseURL)
			if err != nil {
				t.Fatal(err)
			}
			if a, ok := answers(base); ok {
				engines.Set(base, a)
			}
		}
		s, err := discover.NewScanner(discover.DefaultConfig(), discover.ScannerDeps{Sources: []discover.Source{fixed(listing)}, Transport: engines})
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Scan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			out = append(out, f.Name+" "+f.BaseURL)
		}
	})
	slices.Sort(out)
	return out
}

func TestWhatIsRegistered(t *testing.T) {
	every := func(string) (discovertest.Answer, bool) { return discovertest.Models("Qwen/Qwen3-8B"), true }
	but := func(silent ...string) func(string) (discovertest.Answer, bool) {
		return func(base string) (discovertest.Answer, bool) {
			return discovertest.Models("Qwen/Qwen3-8B"), !slices.Contains(silent, base)
		}
	}
	prod := kube.Options{Cluster: "Prod 1"}
	tests := []struct {
		name, rule string
		opts       kube.Options
		answers    func(string) (discovertest.Answer, bool)
		want       []string
	}{
		{"no engine registers nothing", "dsc05-databases", prod, func(base string) (discovertest.Answer, bool) {
			if strings.HasSuffix(base, "10.0.0.1") || strings.HasSuffix(base, ":443") {
				return discovertest.Answer{Status: 404, Body: "<html><center>nginx</center></html>"}, true
			}
			return discovertest.Answer{}, false
		}, nil},
		{"nothing inside the cluster", "dsc11-forbidden", prod, every, nil},
		{"advertise of a pod", "dsc03-nodeport", kube.Options{Advertise: "10.244.1.200"}, every, nil},
		{"advertise of the loopback", "dsc03-nodeport", kube.Options{Advertise: "127.0.0.1"}, every, nil},
		{"bound to the loopback", "dsc03-hostport-bound", kube.Options{}, every, []string{"gold01-qwen-qwen3-8b-8001 http://10.9.0.1:8001", "gold01-qwen-qwen3-8b-8002 http://10.0.0.1:8002"}},
		{"names", "dsc14-names", prod, every, []string{"prod-1-gold01-qwen-qwen3-8b-8000 http://10.0.0.1:8000", "prod-1-gold02-qwen-qwen3-8b-8000 http://10.0.0.2:8000"}},
		{"no cluster", "dsc14-names", kube.Options{}, every, []string{"gold01-qwen-qwen3-8b-8000 http://10.0.0.1:8000", "gold02-qwen-qwen3-8b-8000 http://10.0.0.2:8000"}},
		{"no node", "dsc17-node-unknown", prod, every, []string{"prod-1-qwen-qwen3-8b-80 http://203.0.113.10"}},
		{"distinct", "dsc20-distinct", prod, every, []string{
			"prod-1-gold01-qwen-qwen3-8b-8000 http://10.0.0.1:8000", "prod-1-gold01-qwen-qwen3-8b-8001 http://10.0.0.1:8001",
			"prod-1-gold02-qwen-qwen3-8b-8000 http://10.0.0.2:8000",
			"prod-1-qwen-qwen3-8b-443-35b22c6c https://b.example", "prod-1-qwen-qwen3-8b-443-38612c96 https://a.example",
		}},
		{"one address", "dsc24-one-address", prod, every, []string{"prod-1-gold01-qwen-qwen3-8b-443 https://llm.example"}},
		{"one backend", "dsc24-one-backend", prod, every, []string{"prod-1-gold01-qwen-qwen3-8b-8000 http://10.0.0.1:8000"}},
		{"one backend, by a way that works", "dsc24-one-backend", prod, but("http://10.0.0.1:8000", "http://203.0.113.10"), []string{"prod-1-gold01-qwen-qwen3-8b-30800 http://10.0.0.1:30800"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, scan(t, fixture(t, tt.rule), tt.opts, tt.answers)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Every fixture belongs to a test.
func TestFixturesAreUsed(t *testing.T) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	used := []string{"dsc11-forbidden", "dsc20-distinct", "dsc24-one-address", "dsc24-one-backend"}
	for _, r := range rules() {
		used = append(used, r.rule)
	}
	for _, f := range files {
		if !slices.Contains(used, strings.TrimSuffix(filepath.Base(f), ".json")) {
			t.Errorf("%s is in no test", f)
		}
	}
}

func FuzzCandidates(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files[:8] {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(_ *testing.T, text []byte) {
		var services struct{ Items []corev1.Service }
		var pods struct{ Items []corev1.Pod }
		var nodes struct{ Items []corev1.Node }
		if json.Unmarshal(text, &services) != nil || json.Unmarshal(text, &pods) != nil || json.Unmarshal(text, &nodes) != nil {
			return
		}
		// Nothing that a cluster says of itself makes it panic.
		kube.Candidates(kube.Lists{Services: services.Items, Pods: pods.Items, Nodes: nodes.Items}, kube.Options{})
	})
}
