package enginetest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/engines"
)

// updating makes the suite write its golden files. A flag exists before main
// runs or not at all, so it has to stand here; its name is its own, since packages
// of tests have an -update of theirs.
//
//nolint:gochecknoglobals // see above
var updating = flag.Bool("enginetest.update", false, "write the golden and want files of the adapters' suite")

// Run holds an adapter to its contract, one subtest for each part of it. It
// reads testdata beside the test.
func Run(t *testing.T, a engines.Adapter) {
	t.Helper()
	run(t, a, false)
}

func run(t *testing.T, a engines.Adapter, brief bool) {
	t.Helper()
	s, err := newSubject(t.Context(), a, "testdata", *updating && !brief)
	if err != nil {
		t.Fatal(err)
	}
	s.brief = brief
	for _, c := range contracts() {
		t.Run(c.name, func(t *testing.T) {
			s := *s
			s.ctx, s.temp = t.Context(), t.TempDir
			found := c.judge(&s)
			for _, f := range found {
				t.Error(f)
			}
			if s.skip != "" && len(found) == 0 {
				t.Skip(s.skip)
			}
		})
	}
}

// contract is one part of what an adapter promises.
type contract struct {
	name  string
	judge func(*subject) findings
}

func contracts() []contract {
	return []contract{
		{"description", describes},
		{"checks", checkCommands},
		{"help", helpTexts},
		{"launch", goldenLaunches},
		{"profiles", anyProfile},
		{"silence", heard},
		{"refusals", refuses},
		{"invalid", invalidProfiles},
		{"concurrency", atOnce},
		{"metrics", metricPages},
		{"stop", stops},
		{"wire", wired},
	}
}

// subject is the adapter under test and what its author knows of the engine.
type subject struct {
	ctx      context.Context //nolint:containedctx // of the subtest that runs
	adapter  engines.Adapter
	dir      string
	update   bool
	brief    bool   // leaves out what takes many calls
	skip     string // why a part of the contract could not be judged
	judged   [][]engines.LogRule
	temp     func() string // a new folder
	d        engines.Description
	checks   []engines.Check
	profiles []profileFile
}

func newSubject(ctx context.Context, a engines.Adapter, dir string, update bool) (*subject, error) {
	s := &subject{ctx: ctx, adapter: a, dir: dir, update: update}
	var err error
	if s.d, err = a.Describe(ctx); err != nil {
		return nil, fmt.Errorf("the adapter does not describe itself: %w", err)
	}
	if s.checks, err = a.Checks(ctx); err != nil {
		return nil, fmt.Errorf("the adapter names no checks: %w", err)
	}
	if s.profiles, err = readProfiles(s.path("profiles")); err != nil {
		return nil, err
	}
	if len(s.profiles) == 0 {
		return nil, fmt.Errorf("no profile in %s: write the one you would run first, as the package's documentation shows", s.path("profiles"))
	}
	return s, nil
}

func (s *subject) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

// finding is one way in which an adapter breaks its contract.
type finding struct {
	contract string // what is promised
	seen     string // what was seen instead, and where
	advice   string // what to do
	more     int    // how often the same was seen elsewhere
}

func (f finding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "contract: %s\n    seen: %s", f.contract, strings.ReplaceAll(strings.TrimRight(f.seen, "\n"), "\n", "\n          "))
	if f.more > 0 {
		fmt.Fprintf(&b, " (and %s like it)", plural(f.more, "case"))
	}
	fmt.Fprintf(&b, "\n      do: %s", f.advice)
	return b.String()
}

// findings collects what is wrong, the first case of each kind.
type findings []finding

func (fs *findings) add(contract, seen, advice string) {
	for i := range *fs {
		if f := &(*fs)[i]; f.contract == contract && f.advice == advice && strings.Count(seen, "\n") == 0 {
			f.more++
			return
		}
	}
	*fs = append(*fs, finding{contract: contract, seen: seen, advice: advice})
}

// err adds every fault of an answer that is not valid.
func (fs *findings) err(contract, at string, err error) {
	if err == nil {
		return
	}
	answer, ok := errors.AsType[*engines.AnswerError](err)
	if !ok {
		fs.add(contract, at+": "+err.Error(), "mend it")
		return
	}
	for _, f := range answer.Faults {
		fs.add(contract, fmt.Sprintf("%s, %s: %s %s", at, answer.Of, f.Field, f.Problem), cmp.Or(f.Advice, "mend it"))
	}
}
