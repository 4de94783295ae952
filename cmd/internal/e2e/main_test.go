package e2e

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// What the test binary does when it starts itself.
const (
	actPlane  = "act-as-a-control-plane"
	actKeeper = "act-as-a-keeper"
)

// tokenName is a variable that every process of a test has, engines included, so
// that all of them can be found and ended, whoever started them.
const tokenName = "E2E_TOKEN"

// runToken begins the token of every process of this run.
var runToken = fmt.Sprintf("e2e-%d-", os.Getpid())

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case actPlane:
			os.Exit(runPlane(os.Args[2:]))
		case actKeeper:
			_, _ = io.Copy(io.Discard, os.Stdin) // until the tests have ended, in whatever way
			endAll(os.Args[2])
			if _, err := os.Stat(filepath.Join("/run/netns", networkName(os.Args[2]))); err == nil {
				_ = exec.Command("ip", "netns", "del", networkName(os.Args[2])).Run() //nolint:gosec,noctx // of this run
			}
			_ = os.RemoveAll(os.Args[3])
			os.Exit(0)
		}
	}
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.parallel") }) {
		_ = flag.Set("test.parallel", "4") // tests wait for processes, most of the time
	}
	os.Exit(run(m))
}

// run runs the tests below a keeper, a process that ends what they leave behind:
// engines outlive those who start them, and a test that times out cleans nothing up.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "llmgw-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binaries.dir = dir
	keeper := exec.Command(os.Args[0], actKeeper, runToken, dir) //nolint:gosec,noctx // itself, until the tests have ended
	keeper.Stderr = os.Stderr
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	held, err := keeper.StdinPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	status := m.Run()
	_ = held.Close()
	_ = keeper.Wait()
	return status
}

// networkName is the network namespace of a run.
func networkName(token string) string { return strings.TrimSuffix(token, "-") }

// endAll kills every process whose token begins with the given one.
func endAll(token string) {
	own := os.Getpid()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err != nil || !strings.Contains("\x00"+string(environ), "\x00"+tokenName+"="+token) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(file, "/proc/%d/", &pid); err == nil && pid != own {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// binaries are the programs under test, built once for all tests.
var binaries built

type built struct {
	once sync.Once
	dir  string
	err  error
}

// binary returns the path of llmgw or llmgw-agent, as they are built for users but
// for LLMGW_TEST_BINARIES, which names a directory that has them.
func binary(t *testing.T, name string) string {
	t.Helper()
	ready := os.Getenv("LLMGW_TEST_BINARIES")
	if ready == "" {
		binaries.once.Do(func() {
			build := exec.Command("go", "build", "-o", binaries.dir, "./cmd/llmgw", "./cmd/llmgw-agent") //nolint:noctx // the tests' own deadline ends it
			build.Dir = filepath.Join("..", "..", "..")
			build.Env = append(os.Environ(), "GOFLAGS=") // those of the tests, such as -race, are not for them
			if out, err := build.CombinedOutput(); err != nil {
				binaries.err = fmt.Errorf("%w\n%s", err, out)
			}
		})
		if binaries.err != nil {
			t.Fatal(binaries.err)
		}
	}
	return filepath.Join(cmp.Or(ready, binaries.dir), name)
}
