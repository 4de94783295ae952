package process

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func statLine(pid int, name string, state byte, parent, group, session, threads int, start uint64) string {
	return fmt.Sprintf("%d (%s) %c %d %d %d 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 %d 0 %d 1000 200 18446744073709551615\n",
		pid, name, state, parent, group, session, threads, start)
}

func TestParseStat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := stat{
			identity: identity{PID: rapid.IntRange(1, 1<<22).Draw(t, "pid"), Start: rapid.Uint64().Draw(t, "start")},
			name:     rapid.SampledFrom([]string{"python", "a b", "tmux: server", ") R 1 (", "((", "))", "é\xff", ""}).Draw(t, "name"),
			state:    rapid.SampledFrom([]byte("RSDZTtXI")).Draw(t, "state"),
			parent:   rapid.IntRange(0, 1<<22).Draw(t, "parent"),
			group:    rapid.IntRange(-1, 1<<22).Draw(t, "group"),
			session:  rapid.IntRange(-1, 1<<22).Draw(t, "session"),
			threads:  rapid.IntRange(0, 5000).Draw(t, "threads"),
		}
		got, err := parseStat([]byte(statLine(want.PID, want.name, want.state, want.parent, want.group, want.session, want.threads, want.Start)))
		if err != nil || got != want {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	})
}

func TestDead(t *testing.T) {
	for s, want := range map[stat]bool{
		{state: 'S', threads: 1}: false,
		{state: 'D', threads: 1}: false,
		{state: 'Z', threads: 1}: true,
		{state: 'Z', threads: 9}: false, // a driver still takes memory back from the others
		{state: 'X'}:             true,
	} {
		if got := s.dead(); got != want {
			t.Errorf("%c with %d threads: dead is %v", s.state, s.threads, got)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine(42, "a) (b", 'S', 1, 42, 42, 3, 99)))
	f.Add([]byte("1 () R"))
	f.Add([]byte(")("))
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := parseStat(line)
		if err == nil && s.PID < 1 {
			t.Fatalf("%q gives %+v", line, s)
		}
		if err != nil && s != (stat{}) {
			t.Fatalf("%q gives %+v and %v", line, s, err)
		}
	})
}

func FuzzParseMark(f *testing.F) {
	f.Add("replica-1.0/7/ABC/engine")
	f.Add("a/+7/b/c")
	f.Add("///")
	f.Fuzz(func(t *testing.T, value string) {
		if m, ok := parseMark(value); ok && m.String() != value {
			t.Fatalf("%q reads as %+v", value, m)
		}
	})
}

func TestParseMark(t *testing.T) {
	want := Mark{ID: "r.0", Generation: 7, Start: "ABC", Process: "ray-head"}
	if got, ok := parseMark(want.String()); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	for _, bad := range []string{"", "r.0/7/ABC", "r.0/x/ABC/engine", "r 0/7/ABC/engine", "r.0/7/A/B/engine"} {
		if m, ok := parseMark(bad); ok {
			t.Errorf("%q reads as %+v", bad, m)
		}
	}
}
