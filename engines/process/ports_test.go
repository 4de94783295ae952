package process_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/engines/process"
)

// TestPorts holds the book against a model of it: what is handed out is free,
// rested, consecutive and in the range, and nothing is refused that is there.
func TestPorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := process.PortsConfig{First: 20000, Last: 20000 + rapid.IntRange(0, 15).Draw(t, "size"), Rest: 10 * time.Minute}
		ports, err := process.NewPorts(cfg)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Unix(0, 0)
		taken, freed := map[int]bool{}, map[int]time.Time{}
		type run struct{ first, count int }
		var runs []run
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 240).Draw(t, "seconds")) * time.Second)
			if len(runs) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(runs)-1).Draw(t, "which")
				for p := runs[i].first; p < runs[i].first+runs[i].count; p++ {
					delete(taken, p)
					freed[p] = now
				}
				ports.Free(now, runs[i].first, runs[i].count)
				runs = slices.Delete(runs, i, i+1)
				continue
			}
			strange := map[int]bool{}
			for _, p := range rapid.SliceOfN(rapid.IntRange(cfg.First, cfg.Last), 0, 4).Draw(t, "strangers") {
				strange[p] = true
			}
			free := func(p int) bool {
				at, was := freed[p]
				return p <= cfg.Last && !taken[p] && !strange[p] && (!was || now.Sub(at) >= cfg.Rest)
			}
			count := rapid.IntRange(1, cfg.Last-cfg.First+1).Draw(t, "count")
			first, skipped, err := ports.Take(now, count, func(p int) (process.Holder, bool) {
				return process.Holder{Port: p, PID: 4711, Command: "stranger"}, strange[p]
			})
			for _, h := range skipped {
				if !strange[h.Port] {
					t.Fatalf("%v was skipped", h)
				}
			}
			if err != nil {
				if !errors.Is(err, process.ErrPorts) {
					t.Fatal(err)
				}
				for p := cfg.First; p+count-1 <= cfg.Last; p++ {
					if n := 0; free(p) {
						for n < count && free(p+n) {
							n++
						}
						if n == count {
							t.Fatalf("%d from %d are free: %v", count, p, err)
						}
					}
				}
				continue
			}
			for p := first; p < first+count; p++ {
				if p < cfg.First || !free(p) {
					t.Fatalf("port %d of %d from %d is not free", p, count, first)
				}
				taken[p] = true
			}
			runs = append(runs, run{first, count})
			if got := ports.Taken(); len(got) != len(taken) {
				t.Fatalf("taken are %v, want %v", got, taken)
			}
		}
	})
}

func TestPortsGoRound(t *testing.T) {
	ports, err := process.NewPorts(process.PortsConfig{First: 20000, Last: 20009})
	if err != nil {
		t.Fatal(err)
	}
	ports.Claim(20000, 2) // of a shard that was adopted
	none := func(int) (process.Holder, bool) { return process.Holder{}, false }
	var got []int
	for range 6 {
		first, _, err := ports.Take(time.Unix(0, 0), 3, none)
		if err != nil {
			t.Fatal(err)
		}
		ports.Free(time.Unix(0, 0), first, 3)
		got = append(got, first)
	}
	if want := []int{20002, 20005, 20002, 20005, 20002, 20005}; !slices.Equal(got, want) {
		t.Errorf("ports are %v, want %v", got, want)
	}
	if _, _, err := ports.Take(time.Unix(0, 0), 11, none); err == nil {
		t.Error("11 of 10 ports were handed out")
	}
}

// Another range holds for what is taken from then on; what is in use or rests does so
// in whichever range, also when that comes back.
func TestPortsMove(t *testing.T) {
	ports, err := process.NewPorts(process.PortsConfig{First: 20000, Last: 20003, Rest: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	none := func(int) (process.Holder, bool) { return process.Holder{}, false }
	take := func(count int) int {
		t.Helper()
		first, _, err := ports.Take(now, count, none)
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	move := func(first, last int) {
		t.Helper()
		if err := ports.Move(first, last); err != nil {
			t.Fatal(err)
		}
	}
	if at := take(2); at != 20000 {
		t.Errorf("the first two are at %d", at)
	}
	ports.Free(now, 20001, 1)
	move(20001, 20004) // which begins within what was in use
	if at := take(2); at != 20002 {
		t.Errorf("the next two are at %d", at)
	}
	move(30000, 30001)
	if at := take(2); at != 30000 {
		t.Errorf("two of the other range are at %d", at)
	}
	if _, _, err := ports.Take(now, 1, none); !errors.Is(err, process.ErrPorts) || !strings.Contains(err.Error(), "from 30000 to 30001") {
		t.Errorf("one more: %v", err)
	}
	ports.Free(now, 20000, 1)
	move(20000, 20003)
	if at, _, err := ports.Take(now, 1, none); err == nil {
		t.Errorf("%d is in use, or rests", at)
	}
	now = now.Add(time.Minute)
	if at := take(2); at != 20000 {
		t.Errorf("after the rest: %d", at)
	}
	for _, bad := range [][2]int{{0, 5}, {5, 4}, {5, 65536}} {
		if err := ports.Move(bad[0], bad[1]); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
	if want := []int{20000, 20001, 20002, 20003, 30000, 30001}; !slices.Equal(ports.Taken(), want) {
		t.Errorf("%v are in use, want %v", ports.Taken(), want)
	}
}

func TestPortsErrorNamesTheHolders(t *testing.T) {
	ports, err := process.NewPorts(process.PortsConfig{First: 20000, Last: 20001, Rest: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	_, skipped, err := ports.Take(time.Unix(0, 0), 1, func(p int) (process.Holder, bool) {
		return process.Holder{Port: p, PID: 4711, Command: "nginx: master"}, true
	})
	const want = "process: no 1 consecutive ports from 20000 to 20001: 0 are in use, 0 rest for up to 1m0s after use; port 20000 is held by 4711 (nginx: master); port 20001 is held by 4711 (nginx: master)"
	if err == nil || err.Error() != want || len(skipped) != 2 {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
	for _, bad := range []process.PortsConfig{{}, {First: 2, Last: 1}, {First: 1, Last: 65536}, {First: 1, Last: 2, Rest: -1}} {
		if _, err := process.NewPorts(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestConfig(t *testing.T) {
	if err := process.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	if _, err := process.New(process.Config{HandOn: []string{"A=B"}}, process.Deps{}); err == nil {
		t.Error("a zero Config is accepted")
	}
}
