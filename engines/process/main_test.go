//go:build linux

package process_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/engines/process"
)

// actor as the first argument makes the test binary a process of a shard, which
// does what its other arguments say, one after the other.
const actor = "act-as-a-process"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == actor {
		act(os.Args[2:])
		return
	}
	goleak.VerifyTestMain(m)
}

func act(deeds []string) {
	for _, deed := range deeds {
		what, with, _ := strings.Cut(deed, "=")
		switch what {
		case "print":
			fmt.Println(with)
		case "exit":
			code, err := strconv.Atoi(with)
			must(err)
			os.Exit(code)
		case "env":
			for _, v := range os.Environ() {
				fmt.Println("env " + v)
			}
		case "deaf": // to everything that asks it to end
			signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
		case "polite": // it has something to say first
			ended := make(chan os.Signal, 1)
			signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
			go func() {
				fmt.Println("asked by", <-ended)
				os.Exit(0)
			}()
		case "serve":
			serve(with)
		case "sleeper":
			sleeper(with)
		case "launch": // a shard as $SPEC says, and tell in a file that it is ready
			launch(with)
		case "child": // of its own group and session unless "away" says otherwise
			child(strings.Split(with, ","))
		case "told": // whoever started it that it is as it should be
			f := os.NewFile(3, "told")
			must(f.Close())
		case "title": // what Python programs do: over arguments and environment
			must(overwrite())
		}
	}
	select {} // until a signal
}

// child starts a process and returns when it has told that it is set up.
func child(deeds []string) {
	for i, deed := range deeds { // a child's own children have theirs after semicolons
		deeds[i] = strings.ReplaceAll(deed, ";", ",")
	}
	cmd := exec.Command(os.Args[0], append([]string{actor}, deeds...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if slices.Contains(deeds, "away") {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if slices.Contains(deeds, "mute") {
		cmd.Stdout, cmd.Stderr = nil, nil
	}
	if slices.Contains(deeds, "bare") {
		cmd.Env = []string{}
	}
	r, w, err := os.Pipe()
	must(err)
	cmd.ExtraFiles = []*os.File{w}
	must(cmd.Start())
	must(w.Close())
	_, _ = r.Read(make([]byte, 1)) // EOF
	if slices.Contains(deeds, "exit=0") {
		must(cmd.Wait())
	}
}

func launch(told string) {
	var sp process.Spec
	must(json.Unmarshal([]byte(os.Getenv("SPEC")), &sp))
	r, err := process.New(process.DefaultConfig(), process.Deps{})
	must(err)
	s, err := r.Start(context.Background(), sp)
	must(err)
	_, err = s.Wait(context.Background(), process.StateReady)
	must(err)
	must(os.WriteFile(told, nil, 0o600))
}

func serve(port string) {
	var ready bool
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {
		if key := os.Getenv("KEY"); key != "" && r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if !ready { // the first question finds it loading
			ready = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "fine")
	})
	go func() { must(http.ListenAndServe("127.0.0.1:"+port, mux)) }()
}

// sleeper serves an engine that sleeps and wakes with a key, and whose health is bad
// while it sleeps.
func sleeper(port string) {
	var mu sync.Mutex
	asleep, turns := false, 0
	mux := http.NewServeMux()
	handle := func(route string, do func(w http.ResponseWriter)) {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if r.URL.Path != "/health" && r.Header.Get("Authorization") != "Bearer "+os.Getenv("KEY") {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			do(w)
		})
	}
	handle("GET /health", func(w http.ResponseWriter) {
		if asleep {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	handle("POST /sleep", func(http.ResponseWriter) { asleep, turns = true, turns+1 })
	handle("POST /wake", func(http.ResponseWriter) { asleep, turns = false, turns+1 })
	handle("POST /busy", func(w http.ResponseWriter) {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprintln(w, "not now")
	})
	handle("GET /how", func(w http.ResponseWriter) { fmt.Fprintf(w, `{"asleep":%t,"turns":%d}`, asleep, turns) })
	go func() { must(http.ListenAndServe("127.0.0.1:"+port, mux)) }()
}

// overwrite writes over the strings that /proc/self/environ shows.
func overwrite() error {
	text, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return err
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+2:]))
	const envStart, envEnd = 47, 48
	from, err := strconv.ParseInt(fields[envStart], 10, 64)
	if err != nil {
		return err
	}
	to, err := strconv.ParseInt(fields[envEnd], 10, 64)
	if err != nil {
		return err
	}
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	_, err = mem.WriteAt(make([]byte, to-from), from)
	return err
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(99)
	}
}
