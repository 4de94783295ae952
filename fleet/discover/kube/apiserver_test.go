package kube_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/llmgw/llmgw/fleet/discover/kube"
)

// apiServer answers lists as a Kubernetes API server does: in pages, to a token
// that is known, 410 to the continue of a list that has expired.
type apiServer struct {
	mu       sync.Mutex
	in       kube.Lists                                               // guarded by mu
	token    string                                                   // guarded by mu
	expire   int                                                      // how many continues expire; guarded by mu
	before   func(n int, w http.ResponseWriter, r *http.Request) bool // of the n-th request from 1, true: it has answered; guarded by mu
	requests []string                                                 // guarded by mu
	faults   []string                                                 // what was asked that may not be; guarded by mu
}

func (s *apiServer) set(change func(*apiServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// asked returns what was asked since it was last called.
func (s *apiServer) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.requests
	s.requests = nil
	return out
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	kind := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	s.requests = append(s.requests, kind+"?"+r.URL.RawQuery)
	if r.Method != http.MethodGet || strings.Contains(kind, "/") || r.URL.Query().Has("watch") {
		s.faults = append(s.faults, r.Method+" "+r.URL.String())
	}
	before, n := s.before, len(s.requests)
	s.mu.Unlock()
	if before != nil && before(n, w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		status(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case r.URL.Query().Get("continue") != "" && s.expire > 0:
		s.expire--
		status(w, http.StatusGone, metav1.StatusReasonExpired, "The provided continue parameter is too old to display a consistent list result.")
	case kind == "services":
		page(w, r, "ServiceList", s.in.Services)
	case kind == "pods":
		page(w, r, "PodList", s.in.Pods)
	case kind == "nodes":
		page(w, r, "NodeList", s.in.Nodes)
	default:
		status(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
}

func page[T any](w http.ResponseWriter, r *http.Request, kind string, items []T) {
	query := r.URL.Query()
	limit, err := strconv.Atoi(query.Get("limit"))
	if err != nil || limit <= 0 {
		status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "a list without a limit")
		return
	}
	from := 0
	if next := query.Get("continue"); next != "" {
		if from, err = strconv.Atoi(strings.TrimPrefix(next, "after-")); err != nil {
			status(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, "continue")
			return
		}
	}
	to := min(from+limit, len(items))
	meta := map[string]any{"resourceVersion": "12345"}
	if to < len(items) {
		meta["continue"], meta["remainingItemCount"] = fmt.Sprintf("after-%d", to), len(items)-to
	}
	write(w, http.StatusOK, map[string]any{"kind": kind, "apiVersion": "v1", "metadata": meta, "items": append([]T{}, items[from:to]...)})
}

func status(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	write(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Message: message, Reason: reason, Code: int32(code), //nolint:gosec // a status
	})
}

func write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // who asked has left
}

// cluster starts an API server that holds in, and a lister of it.
func cluster(t *testing.T, in kube.Lists, change func(*kube.Config)) (*apiServer, *kube.Lister, string) {
	t.Helper()
	s := &apiServer{in: in, token: "first"}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.faults) > 0 {
			t.Errorf("asked for more than lists: %q", s.faults)
		}
	})
	dir := t.TempDir()
	cfg := kube.DefaultConfig()
	cfg.Server, cfg.Cluster = server.URL, "prod"
	cfg.TokenFile, cfg.CAFile = filepath.Join(dir, "token"), filepath.Join(dir, "ca.crt")
	writeFile(t, cfg.TokenFile, "first\n")
	writeFile(t, cfg.CAFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	cfg.PageTimeout = 5 * time.Second
	if change != nil {
		change(&cfg)
	}
	l, err := kube.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return s, l, cfg.TokenFile
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
