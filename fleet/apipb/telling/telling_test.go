package telling_test

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

// What nobody has said is told as not known, and never as none.
func TestNotKnown(t *testing.T) {
	for what, got := range map[string]string{
		"an idle time":   telling.Idle(-1),
		"a number":       telling.Optional(nil),
		"a time":         telling.Since(timestamppb.Now(), nil),
		"memory":         telling.Memory(nil),
		"a class's":      telling.MemoryUsed(&apipb.CardClass{MemoryBytes: new(uint64(1))}),
		"load":           telling.Full(&apipb.PlacedScaling{}),
		"bounds":         telling.Bounds(nil),
		"a standing":     telling.Standing(nil),
		"weights":        telling.FabricWeights(nil),
		"an estimate":    telling.MemoryOff(&apipb.ClassMemory{}),
		"a card's names": telling.CardNames(nil),
	} {
		if got != "-" {
			t.Errorf("%s that is not known is %q; want -", what, got)
		}
	}
	if got, want := telling.Leads(nil), []string{
		"this control plane gives no orders: why is not known", "which replicas there are is not known yet: the store was not read",
	}; !cmp.Equal(got, want) {
		t.Errorf("nothing known of standing: %q; want %q", got, want)
	}
	unheard := &apipb.Node{HardwareKnown: true, Gpus: []*apipb.NodeGPU{{}, {}}, Fabrics: []*apipb.NodeFabric{{Name: "ib"}}}
	if got := telling.Cards(unheard); got != "not known of 2" {
		t.Errorf("cards of a node that was not heard: %q", got)
	}
	if got := telling.NodeTroubles(unheard); len(got) > 0 {
		t.Errorf("troubles of a node that was not heard: %q; want none", got)
	}
}

func TestTroubles(t *testing.T) {
	at := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(at.Add(-d)) }
	got := telling.StatusTroubles(&apipb.GetStatusResponse{
		At:      ago(0),
		Classes: []*apipb.CardClass{{Class: "H100", UnusableWhy: []*apipb.UnusableCards{{Reason: "xid-79", Count: 2, Nodes: []string{"gpu-7", "gpu-8"}}}}},
		Models: []*apipb.PlacedModel{
			{Name: "a", IdleSeconds: 7200}, {Name: "b", IdleSeconds: -1, Unplaced: "0 of 4 nodes fit", CouldEver: true, Failures: 1, NextTry: ago(-time.Minute)},
		},
		Troubled: []*apipb.TroubledReplica{{
			Replica: "a-1", Model: "a", State: apipb.ReplicaState_REPLICA_STATE_LOST, Since: ago(time.Minute), Reason: "node gpu-9 is lost", Leaving: "gpu-9 is drained",
		}},
		Strays:       []*apipb.StrayShard{{Node: "gpu-3", Since: ago(time.Minute), Status: &apipb.NodeShard{Replica: "x", State: "ready"}}},
		SetAside:     []*apipb.SetAsideModel{{Name: "odd"}},
		Certificates: []*apipb.CertificateExpiry{{Use: "agent_listener", Name: "cp", NotAfter: ago(time.Hour)}},
	})
	want := &telling.Troubles{
		Cards: []string{"H100: 2 unusable, xid-79 (gpu-7, gpu-8)"},
		Models: []string{
			"b has no place: 0 of 4 nodes fit", "b failed once in a row: why is not known; the next start is tried in 1m",
		},
		Replicas:     []string{"replica a-1 of a is lost for 1m: node gpu-9 is lost; it is to be replaced: gpu-9 is drained"},
		Strays:       []string{"node gpu-3 has shard 0 of x, which no replica on record knows, for 1m: it is ready, gets no requests, and is being ended"},
		Unasked:      []string{"a: nobody has asked for it for 2h0m"},
		SetAside:     []string{"odd is set aside: why is not known"},
		Certificates: []string{"certificate cp (agent_listener) has expired on 2026-03-02"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all := got.All(); len(all) != 8 || all[0] != want.Cards[0] || all[7] != want.Certificates[0] {
		t.Errorf("all: %q", all)
	}
}

// What strangers wrote cannot move the cursor, change a title or turn text around.
func FuzzPrintable(f *testing.F) {
	for in, want := range map[string]string{
		"a\tb\n":              "a\tb\n",
		"\x1b[2Jgone\r":       `\u001b[2Jgone\u000d`,
		"\u009b2J \x7f":       `\u009b2J \u007f`,
		"moc\u202emodel":      `moc\u202emodel`,
		"broken \xff\xfe end": `broken \xff\xfe end`,
		"模型 é – ≤":            "模型 é – ≤",
	} {
		if got := string(telling.Printable(nil, []byte(in))); got != want {
			f.Errorf("%q is %q; want %q", in, got, want)
		}
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got := telling.Printable([]byte("before "), in)
		rest, ok := strings.CutPrefix(string(got), "before ")
		if !ok || !utf8.ValidString(rest) {
			t.Fatalf("%q is %q", in, got)
		}
		for _, r := range rest {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Fatalf("%q is %q, with %U", in, got, r)
			}
		}
	})
}
