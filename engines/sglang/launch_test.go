package sglang_test

import (
	"errors"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/sglang"
)

// shard is one rank of a replica over two nodes.
func shard(rank int) engines.Shard {
	return engines.Shard{
		Profile: engines.Profile{
			Engine: engines.SGLang, Model: "/models/m", ServedNames: []string{"m"},
			Ranks: 2, TensorParallel: 2,
		},
		Rank: rank, Leader: "10.0.0.1", Address: "10.0.0.2", Bind: "10.0.0.2", Dir: "/run/s", Keyed: true,
		Cards:       []engines.Card{{Vendor: engines.NVIDIA, UUID: "GPU-0"}},
		Ports:       map[string]int{engines.PortHTTP: 30000, "dist": 20000},
		LeaderPorts: map[string]int{engines.PortHTTP: 30000, "dist": 20000},
	}
}

// The key is in a file that the command line names by one word of its own and
// with the ending that SGLang insists on.
func TestKeyInFile(t *testing.T) {
	t.Parallel()
	l, err := sglang.Adapter{}.Launch(t.Context(), shard(0))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.Index(l.Engine.Args, "--config")
	if i < 0 || len(l.Files) != 1 || l.Engine.Args[i+1] != path.Join("/run/s", l.Files[0].Name) || path.Ext(l.Engine.Args[i+1]) != ".yaml" {
		t.Fatalf("files %v, arguments %q", l.Files, l.Engine.Args)
	}
	if want := `api-key: "` + engines.SecretPlaceholder + "\"\n"; l.Files[0].Content != want {
		t.Errorf("the file has %q; want %q", l.Files[0].Content, want)
	}
}

// What a rank without the leader's part opens on its port is a stub, which is
// asked and reached by nobody but the launcher.
func TestStub(t *testing.T) {
	t.Parallel()
	l, err := sglang.Adapter{}.Launch(t.Context(), shard(1))
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.Index(l.Engine.Args, "--host"); i < 0 || l.Engine.Args[i+1] != "127.0.0.1" {
		t.Errorf("the stub is not on the loopback: %q", l.Engine.Args)
	}
	if l.ServesHTTP || l.Ready.Probe == nil || len(l.Files) > 0 || slices.Contains(l.Engine.Args, "--config") {
		t.Errorf("serves %t, probe %v, files %v", l.ServesHTTP, l.Ready.Probe, l.Files)
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	attention := func(version string) ([]string, error) {
		s := shard(0)
		s.Profile.Mode, s.Profile.TensorParallel, s.Profile.DataParallel, s.EngineVersion = "dp-attention", 1, 2, version
		l, err := sglang.Adapter{}.Launch(t.Context(), s)
		return l.Engine.Args, err
	}
	for version, want := range map[string]string{"": "--enable-dp-attention", "0.5.5": "--enable-dp-attention", "0.5.21": "--enable-dp-attention", "0.5.22": "--attn-dp-size", "0.6.0": "--attn-dp-size"} {
		args, err := attention(version)
		if err != nil || !slices.Contains(args, want) || slices.Contains(args, "--enable-dp-attention") == slices.Contains(args, "--attn-dp-size") {
			t.Errorf("version %q: %v, error %v; want %s alone", version, args, err, want)
		}
	}
	_, err := attention("0.5.4")
	pe, refused := errors.AsType[*engines.ProfileError](err)
	if !refused || pe.Faults[0].Field != "engine_version" || !strings.Contains(pe.Faults[0].Advice, "0.5.5 or later") {
		t.Errorf("an old version: %v", err)
	}
}
