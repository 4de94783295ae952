package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines"
)

func memories() *rapid.Generator[memory] {
	return rapid.Custom(func(t *rapid.T) memory {
		m := memory{Cluster: rapid.SampledFrom([]string{"", "ours"}).Draw(t, "cluster"), Term: rapid.Uint64().Draw(t, "term")}
		m.Defaults = rapid.SampledFrom([]defaults{{}, {Interface: "bond0"}, {First: 1, Last: 2}, {"bond0", 1, 2}}).Draw(t, "defaults")
		for range rapid.IntRange(0, 5).Draw(t, "shards") {
			at := func(name string) time.Time { return time.Unix(rapid.Int64Range(1, 1e10).Draw(t, name), 0) }
			id := engines.ShardID{Replica: rapid.StringMatching(`[a-z][a-z0-9.-]{0,8}[a-z0-9]`).Draw(t, "replica"), Rank: rapid.IntRange(0, 9).Draw(t, "rank")}
			m = m.with(id, heard{
				Generation: rapid.Uint64().Draw(t, "generation"), Stopped: rapid.Bool().Draw(t, "stopped"),
				Draining: rapid.Bool().Draw(t, "draining"), Posture: posture(rapid.Uint8Max(uint8(awake)).Draw(t, "posture")), StopBy: at("by"), At: at("at"),
			})
		}
		return m
	})
}

// What is saved is read again, and a file that was cut off or changed anywhere is
// not taken for one.
func TestStateFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := memories().Draw(t, "memory")
		data, err := encodeState("node-1", "boot", m)
		if err != nil {
			t.Fatal(err)
		}
		s, read, err := decodeState(data)
		if err != nil || s.Node != "node-1" || s.Boot != "boot" || !read.equal(m) {
			t.Fatalf("%+v of %+v: %v", read, m, err)
		}
		cut := data[:rapid.IntRange(0, len(data)-1).Draw(t, "cut")]
		if _, _, err := decodeState(cut); err == nil {
			t.Fatalf("%d of %d bytes are taken for a state", len(cut), len(data))
		}
		at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
		data[at] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if _, _, err := decodeState(data); err == nil {
			t.Fatalf("a state with another byte at %d is taken for one", at)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	m := memory{Cluster: "ours", Term: 3}.found(engines.ShardID{Replica: "a"}, 2, time.Unix(1e9, 0))
	data, err := encodeState("node-1", "boot", m)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(nil))
	f.Add([]byte("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, m, err := decodeState(data)
		if err != nil {
			return
		}
		again, err := encodeState(s.Node, s.Boot, m)
		if err != nil {
			t.Fatal(err)
		}
		if _, read, err := decodeState(again); err != nil || !read.equal(m) {
			t.Errorf("%+v is read as %+v: %v", m, read, err)
		}
	})
}

// Whatever became of the files, an agent starts, says what was wrong, and knows
// what can be known.
func TestStateIsLoaded(t *testing.T) {
	id := engines.ShardID{Replica: "a"}
	first := memory{Cluster: "ours", Term: 1}.found(id, 1, time.Unix(1e9, 0))
	second := memory{Cluster: "ours", Term: 2}.found(id, 2, time.Unix(1e9, 0))
	tests := []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   memory
		says   string // in what is said; empty: nothing is
	}{
		{"whole", func(*testing.T, string) {}, second, ""},
		{"cut off", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, stateName), 70); err != nil {
				t.Fatal(err)
			}
		}, first, "checksum"},
		{"empty", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, stateName), 0); err != nil {
				t.Fatal(err)
			}
		}, first, "cut off"},
		{"lost", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, stateName)); err != nil {
				t.Fatal(err)
			}
		}, first, "the state before the last"},
		{"a directory in its place", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, stateName)); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(dir, stateName), 0o700); err != nil {
				t.Fatal(err)
			}
		}, first, "directory"},
		{"both cut off", func(t *testing.T, dir string) {
			for _, name := range []string{stateName, previousName} {
				if err := os.Truncate(filepath.Join(dir, name), 10); err != nil {
					t.Fatal(err)
				}
			}
		}, memory{}, "no state can be used"},
		{"another node's", func(t *testing.T, dir string) {
			if err := (stateDir{path: dir, node: "node-2"}).save(second); err != nil {
				t.Fatal(err)
			}
		}, memory{}, `of node "node-2"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := stateDir{path: t.TempDir(), node: "node-1", boot: "boot"}
			if m, said := d.load(); len(said) > 0 || !m.equal(memory{}) {
				t.Errorf("a new directory has %+v: %q", m, said)
			}
			for _, m := range []memory{first, second} {
				if err := d.save(m); err != nil {
					t.Fatal(err)
				}
			}
			tt.damage(t, d.path)
			m, said := d.load()
			if !m.equal(tt.want) || (len(said) > 0) != (tt.says != "") || !strings.Contains(strings.Join(said, "\n"), tt.says) {
				t.Errorf("%+v, and says %q", m, said)
			}
			if err := d.save(second); err != nil {
				t.Fatalf("it is not saved again: %v", err)
			}
			if m, said := d.load(); !m.equal(second) || len(said) > 0 {
				t.Errorf("after it was saved again: %+v, %q", m, said)
			}
		})
	}
}
