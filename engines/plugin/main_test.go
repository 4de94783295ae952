package plugin_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// role is the first argument of the test's own executable where it is to be a
// program that a host starts, or a host.
const role = "test-role"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == role {
		play(os.Args[2])
		return
	}
	// A program that the race detector watches sleeps a second at its end.
	if err := errors.Join(os.Setenv("GORACE", "atexit_sleep_ms=0"), flag.Set("rapid.checks", "25")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func play(part string) {
	switch part {
	case "ours":
		plugin.Serve(&adapter{})
	case "theirs":
		plugin.Serve(&adapter{engine: "theirs"})
	case "invalid":
		plugin.Serve(&adapter{engine: "No Name"})
	case "mute": // describes itself never
		plugin.Serve(&adapter{mute: true})
	case "silent":
		wait()
	case "garbage":
		fmt.Println("Welcome to ours 1.0!")
		wait()
	case "unended": // a line
		fmt.Print("Loading")
		wait()
	case "endless":
		for piece := bytes.Repeat([]byte("x"), 64<<10); ; {
			_, _ = os.Stdout.Write(piece)
		}
	case "binary":
		_, _ = os.Stdout.Write([]byte("\x7fELF\x00\xff\xfe|\x00|\x00|\x00|\n"))
		wait()
	case "core": // go-plugin's own version
		fmt.Println("99|1|unix|/nowhere|grpc|")
		wait()
	case "certificate":
		fmt.Printf("1|1|unix|%s/x|grpc|%s\n", os.Getenv("PLUGIN_UNIX_SOCKET_DIR"), strings.Repeat("A", 4000))
		wait()
	case "netrpc":
		fmt.Printf("1|1|unix|%s/x|netrpc|\n", os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
		wait()
	case "newer":
		fmt.Println("1|2|unix|/nowhere|grpc|")
		wait()
	case "elsewhere":
		fmt.Println("1|1|tcp|127.0.0.1:80|grpc|")
		wait()
	case "nobody":
		fmt.Printf("1|1|unix|%s/nobody|grpc|\n", os.Getenv("PLUGIN_UNIX_SOCKET_DIR"))
		wait()
	case "failing":
		fmt.Fprintln(os.Stderr, "no licence found")
		os.Exit(3)
	case "host": // runs one adapter, and says its process's number
		cfg := config()
		cfg.SocketDir = os.Args[3]
		host, err := plugin.New(cfg, plugin.Deps{Builtin: []plugin.Program{playing("ours")}})
		if err != nil {
			panic(err)
		}
		go func() { _ = host.Run(context.Background()) }()
		a, err := host.Adapter("ours")
		if err != nil {
			panic(err)
		}
		launch, err := a.Launch(context.Background(), shard("env"))
		fmt.Println(launch.Engine.Args, err)
		wait()
	}
}

// config is the default, and hands GORACE on.
func config() plugin.Config {
	cfg := plugin.DefaultConfig()
	cfg.Environment = append(cfg.Environment, "GORACE")
	return cfg
}

// wait ends with the signal of whoever started the program, and never by itself.
func wait() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	<-c
}

// playing is the program of the adapter "ours" that plays a part.
func playing(part string) plugin.Program {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return plugin.Program{Name: "ours", Path: exe, Args: []string{role, part}}
}

// adapter is of the engine "ours". What a profile's model is called it does.
type adapter struct {
	engine engines.Name
	mute   bool
	mu     sync.Mutex
}

func (a *adapter) Describe(ctx context.Context) (engines.Description, error) {
	if a.mute {
		<-ctx.Done()
		return engines.Description{}, ctx.Err()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	name := a.engine
	if name == "" {
		name = "ours"
	}
	return engines.Description{
		Engine: name, Title: "Ours", Version: "1",
		Metrics: &engines.MetricContract{Engine: name, Path: "/metrics", Prefix: "ours_", Running: engines.Metric{Names: []string{"ours_running"}, Aggregate: engines.AggregateSum}},
	}, nil
}

func (a *adapter) Validate(ctx context.Context, p engines.Profile) (engines.Shape, error) {
	d, err := a.Describe(ctx)
	if err != nil {
		return engines.Shape{}, err
	}
	fs := d.Faults(p)
	if err := fs.Err("ours"); err != nil {
		return engines.Shape{}, err
	}
	if p.Model == "shapeless" {
		return engines.Shape{}, nil
	}
	return engines.Shape{Ranks: []engines.RankShape{{Cards: p.Cards(), ServesHTTP: true, Ports: []engines.PortNeed{{Name: engines.PortHTTP, Count: 1}}}}}, nil
}

func (a *adapter) Launch(ctx context.Context, s engines.Shard) (engines.Launch, error) {
	l := engines.Launch{
		Engine:     engines.Command{Executable: "ours", Args: []string{fmt.Sprint(os.Getpid())}},
		Files:      []engines.File{{Name: "key", Content: engines.SecretPlaceholder + "\xff"}},
		ServesHTTP: true,
		Ready:      engines.Readiness{Timeout: time.Minute},
		Stop:       engines.Stop{Signal: engines.SignalTerm},
	}
	switch s.Profile.Model {
	case "env":
		l.Engine.Env = make(map[string]string)
		for _, v := range os.Environ() {
			name, value, _ := strings.Cut(v, "=")
			l.Engine.Env[name] = value
		}
	case "slow":
		<-ctx.Done()
		return l, ctx.Err()
	case "nap": // until there is a file
		if err := os.WriteFile(filepath.Join(s.Dir, "naps"), nil, 0o600); err != nil {
			return l, err
		}
		for range time.Tick(5 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(s.Dir, "wake")); err == nil {
				return l, nil
			}
		}
	case "lock": // for ever
		a.mu.Lock()
		<-ctx.Done()
		return l, ctx.Err()
	case "exit":
		os.Exit(4)
	case "panic":
		panic("no such card")
	case "fail":
		return l, fmt.Errorf("no idea")
	case "away":
		return l, fmt.Errorf("asking a server: %w", engines.ErrUnavailable)
	case "leak":
		l.Engine.Args = []string{"--key", engines.SecretPlaceholder}
	case "huge":
		l.Engine.Args = []string{strings.Repeat("x", 5<<20)}
	case "latin1":
		l.Engine.Args = []string{"caf\xe9"}
	case "refuse":
		fs := engines.Faults{{Field: "cards", Problem: "there are none", Advice: "give it one"}, {Field: "model", Problem: "is odd"}}
		return l, fmt.Errorf("launch: %w", fs.Err("ours"))
	}
	return l, nil
}

func (a *adapter) Checks(context.Context) ([]engines.Check, error) {
	return []engines.Check{{Name: "serve", Command: engines.Command{Executable: "ours"}, HelpArgs: []string{"--help"}, Timeout: time.Second}}, nil
}

func shard(model string) engines.Shard {
	return engines.Shard{Profile: engines.Profile{Engine: "ours", Model: model, ServedNames: []string{"m"}}}
}
