package engine_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// While an engine loads, its requests go elsewhere; with nowhere to go they are
// refused in a way that clients try again; and once it has loaded it is used,
// without a word from anybody.
func TestLoading(t *testing.T) {
	working := theEngine(t)
	file, release := heldModel(t)
	loading := ownEngine(t, 0, file)
	if current().loads {
		eventually(t, func() error {
			a, err := whole(t.Context(), http.MethodGet, loading.url+"/health", "", "")
			if err != nil || a.status != http.StatusServiceUnavailable {
				return fmt.Errorf("the engine's health is %v, %v; want 503; its last output:\n%s", a, err, loading.tail())
			}
			return nil
		})
	}
	const body = `{"model":"words","prompt":"the time","max_tokens":1}`

	both := newRouter(t, place{id: "working", url: working.url}, place{id: "loading", url: loading.url})
	var all sync.WaitGroup
	for range 16 { // at a time: one by one they would all go to the engine that says how busy it is
		all.Go(func() {
			a, err := whole(t.Context(), http.MethodPost, both.client+"/v1/completions", "", body)
			if err != nil || a.status != http.StatusOK {
				t.Errorf("beside a working engine got %v, %v", a, err)
			}
		})
	}
	all.Wait()
	if n := both.count(t, "llmgw_router_retries_total"); n == 0 {
		t.Error("no request met the engine that loads, so nothing was shown")
	}

	alone := newRouter(t, place{id: "loading", url: loading.url})
	var last answer
	eventually(t, func() error {
		last = post(t, alone.client+"/v1/completions", "", body)
		if last.status < 500 || last.header.Get("X-Should-Retry") == "false" {
			t.Fatalf("alone got %v %v; want a refusal that is worth another try", last, last.header)
		}
		if ready := get(t, alone.admin+"/ready", ""); ready.status != http.StatusServiceUnavailable {
			return fmt.Errorf("the router is ready with no engine that is: %v", ready)
		}
		return nil
	})
	if _, _, code := last.openAI(t); code == "" {
		t.Errorf("got %v", last)
	}
	t.Logf("a client is told %v; Retry-After %q", last, last.header.Get("Retry-After"))
	if v, ok := alone.metric(t, "llmgw_endpoint_engine_running_requests"); ok {
		t.Errorf("an engine that loads says that it runs %v requests; want no word of it", v)
	}

	release()
	if err := loading.ready(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if a := post(t, alone.client+"/v1/completions", "", body); a.status != http.StatusOK {
			return fmt.Errorf("once it has loaded got %v", a)
		}
		return nil
	})
	eventually(t, func() error {
		if ready := get(t, alone.admin+"/ready", ""); ready.status != http.StatusOK {
			return fmt.Errorf("once it has loaded the router says %v", ready)
		}
		return nil
	})
	alone.reads(t)
}

// heldModel is a copy of the model that no engine can open before release is
// called: a lease on a file holds up whoever opens it, for as long as
// /proc/sys/fs/lease-break-time says, 45 s by default. An engine that reads the
// model before it listens is not held.
func heldModel(t *testing.T) (file string, release func()) {
	t.Helper()
	if !current().loads {
		return *model, func() {}
	}
	data, err := os.ReadFile(*model)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	lease := func(kind int) {
		t.Helper()
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETLEASE, uintptr(kind)); errno != 0 {
			t.Fatalf("lease on %s: %v; its file system must know leases, as ext4, xfs and tmpfs do: set TMPDIR", file, errno)
		}
	}
	lease(syscall.F_WRLCK)
	release = func() {
		lease(syscall.F_UNLCK)
		_ = f.Close()
	}
	t.Cleanup(func() { _ = f.Close() })
	return file, release
}

// An engine that dies in mid-answer is told to the client as an error, never as
// an end; and when it is back it is used.
func TestEngineDies(t *testing.T) {
	e := ownEngine(t, 0, *model)
	if err := e.ready(); err != nil {
		t.Fatal(err)
	}
	r := newRouter(t, place{id: "e", url: e.url})
	s := open(t, r.client+"/v1/chat/completions", long+`,"stream":true}`)
	e.kill()
	var rest strings.Builder
	_, err := s.WriteTo(&rest)
	if err != nil || !strings.Contains(rest.String(), "data: {\"error\":{") || strings.Contains(rest.String(), "[DONE]") {
		text := rest.String()
		t.Errorf("the stream ended with %v and …%q; want an error event and no [DONE]", err, text[max(0, len(text)-600):])
	}
	if err := ownEngine(t, e.port, *model).ready(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if a := post(t, r.client+"/v1/completions", "", `{"model":"words","prompt":"the time","max_tokens":1}`); a.status != http.StatusOK {
			return fmt.Errorf("once it is back got %v", a)
		}
		return nil
	})
}
