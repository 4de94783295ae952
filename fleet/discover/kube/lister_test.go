package kube_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/llmgw/llmgw/fleet/discover/kube"
	"github.com/llmgw/llmgw/fleet/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// many is a cluster of n pods with a host port each, and a node.
func many(n int) kube.Lists {
	in := kube.Lists{Nodes: []corev1.Node{{
		ObjectMeta: metav1.ObjectMeta{Name: "gold01"},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}}},
	}}}
	for i := range n {
		in.Pods = append(in.Pods, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ai", Name: fmt.Sprintf("engine-%04d", i), UID: "u"},
			Spec: corev1.PodSpec{NodeName: "gold01", Containers: []corev1.Container{{
				Ports: []corev1.ContainerPort{{ContainerPort: 8000, HostPort: int32(10000 + i)}}, //nolint:gosec // few
			}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	return in
}

func TestListerReadsFixtures(t *testing.T) {
	for _, tt := range rules() {
		t.Run(tt.rule, func(t *testing.T) {
			_, l, _ := cluster(t, fixture(t, tt.rule), func(c *kube.Config) { c.PageObjects, c.Advertise = 1, tt.opts.Advertise })
			got, err := l.List(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, show(got.Candidates)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestListerPages(t *testing.T) {
	s, l, _ := cluster(t, many(1203), nil)
	got, err := l.List(t.Context())
	if err != nil || len(got.Candidates) != 1203 {
		t.Fatalf("%d candidates, %v", len(got.Candidates), err)
	}
	want := []string{
		"services?limit=500",
		"pods?limit=500", "pods?continue=after-500&limit=500", "pods?continue=after-1000&limit=500",
		"nodes?limit=500",
	}
	if diff := cmp.Diff(want, s.asked()); diff != "" {
		t.Error(diff)
	}
}

// A list that expires is begun anew, in pages again, and holds nothing twice.
func TestListerBeginsAnew(t *testing.T) {
	s, l, _ := cluster(t, many(1203), nil)
	s.set(func(s *apiServer) { s.expire = 2 })
	got, err := l.List(t.Context())
	if err != nil || len(got.Candidates) != 1203 {
		t.Fatalf("%d candidates, %v", len(got.Candidates), err)
	}
	seen := map[string]bool{}
	for _, c := range got.Candidates {
		if seen[c.BaseURL] {
			t.Fatalf("%s is there twice", c.BaseURL)
		}
		seen[c.BaseURL] = true
	}
	for _, r := range s.asked() {
		if !strings.Contains(r, "limit=500") {
			t.Errorf("asked %s", r)
		}
	}
	s.set(func(s *apiServer) { s.expire = 100 })
	if _, err := l.List(t.Context()); !apierrors.IsResourceExpired(err) || !strings.Contains(err.Error(), "list pods: expired 4 times") {
		t.Errorf("a list that always expires: %v", err)
	}
}

func TestListerTakesTheTokenOfTheMoment(t *testing.T) {
	s, l, token := cluster(t, many(1203), nil)
	rotate := func(to string) {
		s.set(func(s *apiServer) { s.token = to })
		writeFile(t, token, to+"\n")
	}
	if _, err := l.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	rotate("second")
	if _, err := l.List(t.Context()); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
	// Between two pages, and between reading it and its arrival.
	s.asked()
	s.set(func(s *apiServer) {
		s.before = func(n int, _ http.ResponseWriter, _ *http.Request) bool {
			if n == 3 {
				rotate("third")
			}
			return false
		}
	})
	got, err := l.List(t.Context())
	if err != nil || len(got.Candidates) != 1203 {
		t.Errorf("a rotation in the middle: %d candidates, %v", len(got.Candidates), err)
	}
	s.set(func(s *apiServer) { s.before, s.token = nil, "fourth" })
	s.asked()
	if _, err := l.List(t.Context()); !apierrors.IsUnauthorized(err) || len(s.asked()) != 2 {
		t.Errorf("a token that is not known: %v", err)
	}
	writeFile(t, token, "\n")
	if _, err := l.List(t.Context()); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("an empty token: %v", err)
	}
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	if _, err := l.List(t.Context()); err == nil || !strings.Contains(err.Error(), "token_file") {
		t.Errorf("no token: %v", err)
	}
	rotate("fifth")
	if _, err := l.List(t.Context()); err != nil {
		t.Errorf("a token again: %v", err)
	}
}

func TestListerFails(t *testing.T) {
	tests := []struct {
		name   string
		change func(*kube.Config)
		before func(n int, w http.ResponseWriter, r *http.Request) bool
		want   string
	}{
		{"not allowed", nil, func(_ int, w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "nodes") {
				return false
			}
			status(w, http.StatusForbidden, metav1.StatusReasonForbidden, `nodes is forbidden: User "system:serviceaccount:llmgw:agent" cannot list resource "nodes" in API group "" at the cluster scope`)
			return true
		}, `list nodes: nodes is forbidden`},
		{"hangs", func(c *kube.Config) { c.PageTimeout = 200 * time.Millisecond }, func(_ int, _ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, "list services: "},
		{"no API server", nil, func(_ int, w http.ResponseWriter, _ *http.Request) bool {
			_, _ = w.Write([]byte("<html>"))
			return true
		}, "list services: "},
		{"too many", func(c *kube.Config) { c.MaxObjects = 2 }, nil, "too many objects: more than 2 pods"},
		{"lies about a page", func(c *kube.Config) { c.MaxObjects = 1000 }, func(_ int, w http.ResponseWriter, r *http.Request) bool {
			// Goes on for ever.
			if strings.HasSuffix(r.URL.Path, "pods") {
				write(w, 200, map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]any{"continue": "x"}, "items": make([]corev1.Pod, 100)})
				return true
			}
			return false
		}, "too many objects: more than 1000 pods"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, l, _ := cluster(t, many(10), tt.change)
			s.set(func(s *apiServer) { s.before = tt.before })
			if got, err := l.List(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) || len(got.Candidates) != 0 {
				t.Errorf("%d candidates, %v; want an error with %q", len(got.Candidates), err, tt.want)
			}
		})
	}
	_, l, _ := cluster(t, many(1), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// An API server of somebody else hears no token.
func TestListerVerifies(t *testing.T) {
	authority, err := pki.NewAuthority("somebody-else", time.Now(), 1000*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ca := filepath.Join(t.TempDir(), "other.crt")
	writeFile(t, ca, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})))
	s, l, _ := cluster(t, many(1), func(c *kube.Config) { c.CAFile = ca })
	if _, err := l.List(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("%v", err)
	}
	if len(s.asked()) != 0 {
		t.Error("it was asked")
	}
}

func TestConfig(t *testing.T) {
	env := map[string]string{"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
	cfg, err := kube.DefaultConfig().InCluster(func(k string) string { return env[k] })
	if err != nil || cfg.Server != "https://[fd00::1]:443" || cfg.Validate() != nil {
		t.Errorf("%+v, %v, %v", cfg, err, cfg.Validate())
	}
	if _, err := kube.DefaultConfig().InCluster(func(string) string { return "" }); err == nil {
		t.Error("outside of a cluster")
	}
	tests := []struct {
		name   string
		change func(*kube.Config)
		want   string
	}{
		{"server", func(c *kube.Config) { c.Server = "" }, "server: "},
		{"server in the clear", func(c *kube.Config) { c.Server = "http://10.0.0.1" }, "want https://"},
		{"token_file", func(c *kube.Config) { c.TokenFile = "" }, "token_file: "},
		{"ca_file", func(c *kube.Config) { c.CAFile = "" }, "ca_file: "},
		{"advertise with a port", func(c *kube.Config) { c.Advertise = "10.0.0.1:80" }, "advertise: "},
		{"advertise of the loopback", func(c *kube.Config) { c.Advertise = "127.0.0.1" }, "advertise: "},
		{"page_objects", func(c *kube.Config) { c.PageObjects = 0 }, "page_objects: "},
		{"max_objects", func(c *kube.Config) { c.MaxObjects = 0 }, "max_objects: "},
		{"page_timeout", func(c *kube.Config) { c.PageTimeout = 0 }, "page_timeout: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := cfg
			tt.change(&c)
			if err := c.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want an error with %q", err, tt.want)
			}
			if _, err := kube.New(c); err == nil {
				t.Error("New takes it")
			}
		})
	}
	if _, err := kube.New(kube.Config{}); err == nil {
		t.Error("a Config of zeros is taken")
	}
}
