package control_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/control"
	"github.com/llmgw/llmgw/fleet/fleetpb"
)

// agentsEnv makes the test's binary the agents of BenchmarkAgents: it names a
// directory with what they need.
const agentsEnv = "LLMGW_BENCH_AGENTS_DIR"

// BenchmarkAgents measures what 2,000 agents cost that do nothing but live: over
// loopback and mutual TLS, each with eight cards and eight shards, a heartbeat
// every five seconds. The agents are another process. MiB is what the process
// holds of the machine's memory, live-MiB what of it is in use after a collection
// of garbage, with the stacks of goroutines.
//
//	go test -run '^$' -bench Agents ./fleet/control
func BenchmarkAgents(b *testing.B) {
	const agents, measured = 2000, 20 * time.Second
	b.Run("agents="+strconv.Itoa(agents), func(b *testing.B) {
		p, err := control.New(control.DefaultConfig(), control.Deps{Authority: leader(), Verify: func(*tls.ConnectionState, string) error { return nil }})
		if err != nil {
			b.Fatal(err)
		}
		certs := newCertifier(b)
		dir := b.TempDir()
		write(b, dir, "address", []byte(serveTLS(b, p, certs)))
		write(b, dir, "agents", []byte(strconv.Itoa(agents)))
		write(b, dir, "root.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certs.cert.Raw}))
		client := certs.issue("agent")
		key, err := x509.MarshalECPrivateKey(client.PrivateKey.(*ecdsa.PrivateKey))
		if err != nil {
			b.Fatal(err)
		}
		write(b, dir, "cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: client.Certificate[0]}))
		write(b, dir, "key.pem", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}))

		child := exec.CommandContext(b.Context(), os.Args[0]) //nolint:gosec // this binary
		child.Env = append(os.Environ(), agentsEnv+"="+dir)
		child.Stderr = os.Stderr
		stdin, err := child.StdinPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := child.Start(); err != nil {
			b.Fatal(err)
		}
		defer func() { _ = child.Wait() }()
		defer func() { _ = stdin.Close() }()
		for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
			if connected(p) == agents {
				break
			}
			if time.Now().After(deadline) {
				b.Fatalf("%d of %d agents came", connected(p), agents)
			}
		}
		time.Sleep(6 * time.Second) // what their coming cost is over
		b.ResetTimer()
		for range b.N {
			before := processorTime(b)
			time.Sleep(measured)
			b.ReportMetric(100*(processorTime(b)-before).Seconds()/measured.Seconds(), "%core")
		}
		b.ReportMetric(residentMiB(b), "MiB")
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		b.ReportMetric(float64(memory.HeapAlloc+memory.StackInuse)/(1<<20), "live-MiB")
		b.ReportMetric(0, "ns/op")
		if got := connected(p); got != agents {
			b.Errorf("%d of %d agents are connected", got, agents)
		}
	})
}

func write(b *testing.B, dir, name string, data []byte) {
	b.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
		b.Fatal(err)
	}
}

func connected(p *control.Plane) (count int) {
	for _, n := range p.Nodes() {
		if n.Connected && n.State == control.Ready {
			count++
		}
	}
	return count
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func residentMiB(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		if kib, is := strings.CutPrefix(lines.Text(), "VmRSS:"); is {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(kib), " kB"))
			if err != nil {
				b.Fatal(err)
			}
			return float64(n) / 1024
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// liveAsAgents is the process of BenchmarkAgents' agents: they live until its
// input ends.
func liveAsAgents(dir string) error {
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // of the benchmark
		if err != nil {
			panic(err)
		}
		return string(data)
	}
	count, err := strconv.Atoi(read("agents"))
	if err != nil {
		return err
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(read("root.pem")))
	config := &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13}
	address := "https://" + read("address")
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var wg sync.WaitGroup
	for i := range count {
		wg.Go(func() {
			if err := liveAsAgent(ctx, config.Clone(), address, i); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
		time.Sleep(5 * time.Second / time.Duration(count)) // so their heartbeats are spread
	}
	wg.Wait()
	return nil
}

func liveAsAgent(ctx context.Context, config *tls.Config, address string, i int) error {
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP2(true)
	defer transport.CloseIdleConnections()
	h, beat := typicalAgent(fmt.Sprintf("n%d", i))
	var stream *clientStream
	for { // until there is room
		var err error
		if stream, err = fleetpb.NewAgentServiceClient(&http.Client{Transport: transport}, address).Connect(ctx); err != nil {
			return err
		}
		_ = stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Hello{Hello: h}})
		_, err = stream.Receive()
		if err == nil {
			break
		}
		if connect.CodeOf(err) != connect.CodeUnavailable {
			return err
		}
		_ = stream.CloseRequest()
		_ = stream.CloseResponse()
		time.Sleep(time.Second)
	}
	context.AfterFunc(ctx, func() { _ = stream.CloseRequest() })
	ticker := time.NewTicker(5 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		beat.Sequence++
		beat.At = timestamppb.Now()
		if err := stream.Send(&fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Heartbeat{Heartbeat: beat}}); err != nil {
			return err
		}
		if _, err := stream.Receive(); err != nil {
			return err
		}
	}
}

// typicalAgent is a node with eight cards, eight ports and eight shards.
func typicalAgent(node string) (*fleetpb.Hello, *fleetpb.Heartbeat) {
	h := hello(node)
	h.Inventory = &fleetpb.Inventory{Host: &fleetpb.Host{Hostname: node, Os: "linux", Arch: "amd64"}}
	beat := &fleetpb.Heartbeat{State: &fleetpb.NodeState{MemoryAvailableBytes: new(uint64(1 << 40))}}
	for i := range int64(8) {
		uuid := fmt.Sprintf("GPU-4cdd4f5e-0b8f-4b1c-9d5f-%s-%d", node, i)
		device := "mlx5_" + strconv.FormatInt(i, 10)
		h.Inventory.Gpus = append(h.Inventory.Gpus, &fleetpb.GPU{Index: i, Uuid: uuid, Name: "NVIDIA H100 80GB HBM3", Vendor: "nvidia", BusId: "0000:1a:00.0", Driver: "570.124.06", MemoryBytes: new(uint64(80 << 30))})
		h.Inventory.Links = append(h.Inventory.Links, &fleetpb.LinkRow{To: []string{"NV18", "NV18", "NV18", "NV18", "NV18", "NV18", "NV18", "NV18"}})
		h.Inventory.Ports = append(h.Inventory.Ports, &fleetpb.FabricPort{Device: device, Port: 1, LinkLayer: "infiniband", Guid: "b83f:d203:00ae:9c14"})
		s := shard("chat-"+node+"-"+strconv.FormatInt(i, 10), 3, 9, fleetpb.ShardState_SHARD_STATE_READY)
		s.Address, s.Start, s.Command = "10.0.0.1:20000", "start-of-"+uuid, "hash-of-"+uuid
		h.Shards = append(h.Shards, s)
		brief := brief(s)
		brief.Running, brief.Waiting = new(uint32(i)), new(uint32(0)) //nolint:gosec // small
		beat.Shards = append(beat.Shards, brief)
		beat.State.Gpus = append(beat.State.Gpus, &fleetpb.GPUState{
			Gpu: uuid, MemoryUsedBytes: new(uint64(70 << 30)), MemoryFreeBytes: new(uint64(10 << 30)), UtilizationRatio: new(0.9), TemperatureC: new(61.0),
			Corrected: new(uint64(0)), Uncorrected: new(uint64(0)), RemapPending: new(false), RemapFailed: new(false), Health: "healthy",
		})
		beat.State.Ports = append(beat.State.Ports, &fleetpb.PortState{Device: device, Port: 1, State: "ACTIVE", Physical: "LinkUp", RateGbps: new(400.0)})
	}
	return h, beat
}
