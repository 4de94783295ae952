package enginetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/engines"
)

// text writes what a launch starts so that people can judge it: one argument
// or variable a line. Log rules, which are the same for every profile, are left
// out.
type text struct{ strings.Builder }

func (w *text) line(depth int, format string, args ...any) {
	fmt.Fprintf(w, strings.Repeat("  ", depth)+format+"\n", args...)
}

func (w *text) shape(shape engines.Shape) {
	w.line(0, "shape")
	for i, r := range shape.Ranks {
		parts := []string{plural(r.Cards, "card")}
		if r.ServesHTTP {
			parts = append(parts, "serves HTTP")
		}
		for _, p := range r.Ports {
			parts = append(parts, fmt.Sprintf("port %s ×%d", p.Name, p.Count))
		}
		w.line(1, "rank %d: %s", i, strings.Join(parts, ", "))
	}
}

func (w *text) launch(rank int, l engines.Launch) {
	w.line(0, "")
	w.line(0, "rank %d", rank)
	for _, f := range l.Files {
		w.line(1, "file %s", word(f.Name))
		for line := range strings.Lines(f.Content) {
			w.line(2, "| %s", strings.TrimSuffix(line, "\n"))
		}
	}
	for _, s := range l.Sidecars {
		kind := "sidecar"
		if s.RunsOnce {
			kind = "sidecar that runs once"
		}
		w.line(1, "%s %s", kind, word(s.Name))
		w.command(2, s.Command)
		w.ready(2, s.Ready)
		w.stop(2, s.Stop)
	}
	w.line(1, "engine")
	w.command(2, l.Engine)
	w.ready(2, l.Ready)
	w.stop(2, l.Stop)
	if s := l.Sleep; s != nil {
		keyed := ""
		if s.Keyed {
			keyed = " with the key"
		}
		w.line(2, "sleeps by POST :%d%s within %v, wakes by %s within %v%s", s.Port, s.Sleep, s.SleepTimeout, s.Wake, s.WakeTimeout, keyed)
		w.line(2, "GET %s has %s asleep, %s awake", s.Check, strconv.Quote(s.Asleep), strconv.Quote(s.Awake))
	}
	if l.ServesHTTP {
		w.line(1, "serves HTTP")
	}
}

func (w *text) command(depth int, c engines.Command) {
	w.line(depth, "executable %s", word(c.Executable))
	for _, a := range c.Args {
		w.line(depth+1, "%s", word(a))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		w.line(depth, "env %s=%s", name, word(c.Env[name]))
	}
	for _, name := range slices.Sorted(slices.Values(c.Unset)) {
		w.line(depth, "unset %s", name)
	}
}

func (w *text) ready(depth int, r engines.Readiness) {
	switch {
	case r.Probe != nil:
		keyed := ""
		if r.Probe.Keyed {
			keyed = " with the key"
		}
		contains := ""
		if r.Probe.Contains != "" {
			contains = " has " + strconv.Quote(r.Probe.Contains)
		}
		w.line(depth, "ready when GET :%d%s%s%s (each at most %v)", r.Probe.Port, r.Probe.Path, keyed, contains, r.Probe.Timeout)
	case r.Log != "":
		w.line(depth, "ready when a line matches %s", word(r.Log))
	default:
		w.line(depth, "ready as long as it runs")
	}
	stalled := ""
	if r.Stalled > 0 {
		stalled = fmt.Sprintf(", stalled after %v", r.Stalled)
	}
	w.line(depth, "ready within %v%s", r.Timeout, stalled)
}

func (w *text) stop(depth int, s engines.Stop) {
	w.line(depth, "stop by %v, killed after %v", s.Signal, s.Grace)
}

// word quotes what would not read as one word.
func word(s string) string {
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// difference shows what differs, line by line, -want +got.
func difference(want, got string) string {
	return cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
}

// goldenLaunches: the launches of the author's profiles are what they were.
func goldenLaunches(s *subject) (fs findings) {
	const contract = "the launch of a profile is the one of its golden file"
	for _, f := range s.profiles {
		w := new(text)
		shape, err := s.adapter.Validate(s.ctx, f.Profile)
		if err != nil {
			fs.add("a profile of testdata/profiles can run", f.Name+": "+err.Error(), "mend the profile, or move it to testdata/invalid")
			continue
		}
		w.shape(shape)
		ranks, err := f.Shard.launched(shape)
		if err != nil {
			fs.add("a profile of testdata/profiles can run", f.Name+": "+err.Error(), "mend the profile")
			continue
		}
		whole := true
		for _, rank := range ranks {
			l, err := s.adapter.Launch(s.ctx, f.Shard.shard(f.Profile, shape, rank))
			if err != nil {
				fs.add("every rank of a valid profile launches", fmt.Sprintf("%s, rank %d: %v", f.Name, rank, err), "mend the profile or the circumstances under shard")
				whole = false
				break
			}
			w.launch(rank, l)
		}
		if whole {
			s.compare(&fs, contract, s.path("launch", f.Name+".golden"), w.String())
		}
	}
	return fs
}
