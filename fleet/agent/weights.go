package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/llmgw/llmgw/fleet/fleetpb"
	"github.com/llmgw/llmgw/fleet/internal/convert"
	"github.com/llmgw/llmgw/storage/weights"
)

// looker looks for weights in the directories that the configuration names. It is
// asked which by the control plane, since nobody else knows: an agent that listed
// its directories would read filers of thousands of models for the few that are
// wanted. What was found is told once a session, and again when it has changed.
//
// Each directory has a goroutine while it is looked into, so that a dead filer
// delays no other, and one look that does not come back is the last into its
// directory until it does.
type looker struct {
	cfg  Weights
	log  *slog.Logger
	tell func(session uint64, f *fleetpb.WeightsFound)
	wake chan struct{} // has an element when there is another list

	mu      sync.Mutex
	session uint64                   // guarded by mu; that asked last
	list    []*fleetpb.WeightsWanted // guarded by mu; not changed itself
	fresh   bool                     // guarded by mu; the list was not seen by run

	dirs  []*weightsDir
	found map[string]*fleetpb.WeightsFound // by key; run goroutine only
	asked map[string]*fleetpb.WeightsWanted
}

// weightsDir is a directory of weights.
type weightsDir struct {
	path   string
	before func() // called before each reading, by tests alone; nil: nothing

	mu    sync.Mutex
	stuck time.Time // guarded by mu; since when a look has not come back; zero: none is out too long
}

// The most that is looked for: what a control plane asks for beyond it is left out.
const (
	mostWanted  = 10_000
	mostSource  = 4 << 10
	weightsPart = 32 // entries of one message, each of which may have some kB
)

func newLooker(cfg Weights, log *slog.Logger, tell func(uint64, *fleetpb.WeightsFound)) *looker {
	l := &looker{cfg: cfg, log: log, tell: tell, wake: make(chan struct{}, 1), found: map[string]*fleetpb.WeightsFound{}}
	for _, dir := range cfg.Dirs {
		l.dirs = append(l.dirs, &weightsDir{path: filepath.Clean(dir)})
	}
	// The innermost directory answers for what is in it.
	slices.SortStableFunc(l.dirs, func(a, b *weightsDir) int { return cmp.Compare(len(b.path), len(a.path)) })
	return l
}

// ask replaces what is looked for. It does not block.
func (l *looker) ask(session uint64, wanted []*fleetpb.WeightsWanted) {
	l.mu.Lock()
	l.session, l.list, l.fresh = session, wanted[:min(len(wanted), mostWanted)], true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run looks until ctx is done, and waits for nothing that hangs: a look that does
// not come back outlives it, for nothing can end it.
func (l *looker) run(ctx context.Context) {
	if len(l.dirs) == 0 {
		return // told nothing, it tells nothing
	}
	told := uint64(0)
	timer := time.NewTicker(l.cfg.Interval)
	defer timer.Stop()
	for {
		again := false
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-timer.C:
			again = true
		}
		l.mu.Lock()
		session, list, fresh := l.session, l.list, l.fresh
		l.fresh = false
		l.mu.Unlock()
		if fresh {
			l.want(list)
		}
		if session != told {
			for _, key := range slices.Sorted(maps.Keys(l.found)) {
				l.tell(session, l.found[key])
			}
			told = session
		}
		l.look(ctx, session, again)
	}
}

// want takes another list: what is not on it is forgotten.
func (l *looker) want(list []*fleetpb.WeightsWanted) {
	asked := make(map[string]*fleetpb.WeightsWanted, len(list))
	for _, w := range list {
		if w.GetKey() != "" && len(w.GetKey())+len(w.GetSource())+len(w.GetRevision()) <= 2*mostSource {
			asked[w.GetKey()] = w
		}
	}
	maps.DeleteFunc(l.found, func(key string, _ *fleetpb.WeightsFound) bool {
		return !proto.Equal(asked[key], l.asked[key])
	})
	l.asked = asked
}

// look looks for all that nothing was found of, or for everything again, and tells
// what is not as it was.
func (l *looker) look(ctx context.Context, session uint64, again bool) {
	left := make(map[string]int) // directories that have not answered, by key
	best := make(map[string]*fleetpb.WeightsFound)
	tasks := make(map[*weightsDir][]*fleetpb.WeightsWanted)
	for _, key := range slices.Sorted(maps.Keys(l.asked)) {
		if l.found[key] != nil && !again {
			continue
		}
		for _, dir := range l.dirs {
			if _, in := dir.below(l.asked[key].GetSource()); in {
				tasks[dir] = append(tasks[dir], l.asked[key])
				if left[key]++; strings.HasPrefix(l.asked[key].GetSource(), "/") {
					break
				}
			}
		}
		if left[key] == 0 {
			l.keep(session, outside(l.asked[key]))
		}
	}
	results := make(chan *fleetpb.WeightsFound)
	var readers sync.WaitGroup
	for dir, wanted := range tasks {
		readers.Go(func() {
			for _, w := range wanted {
				f := dir.look(ctx, w, l.cfg.Timeout)
				select {
				case results <- f:
				case <-ctx.Done():
					return
				}
			}
		})
	}
	go func() { readers.Wait(); close(results) }()
	for f := range results {
		key := f.GetKey()
		// Of answers that say as much always the same one counts, or each look were news.
		if b := best[key]; b == nil || better(f.GetState(), b.GetState()) || (f.GetState() == b.GetState() && f.GetPath() < b.GetPath()) {
			best[key] = f
		}
		if left[key]--; left[key] == 0 {
			l.keep(session, best[key])
		}
	}
}

// better reports whether one answer says more than another: a name may be in one of
// several directories.
func better(a, b fleetpb.WeightsState) bool {
	rank := func(s fleetpb.WeightsState) int {
		switch s {
		case fleetpb.WeightsState_WEIGHTS_STATE_PRESENT:
			return 3
		case fleetpb.WeightsState_WEIGHTS_STATE_PARTIAL:
			return 2
		case fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE:
			return 1
		default:
			return 0
		}
	}
	return rank(a) > rank(b)
}

// keep notes what was found, and tells it if it is not as it was.
func (l *looker) keep(session uint64, f *fleetpb.WeightsFound) {
	was := l.found[f.GetKey()]
	if was != nil && proto.Equal(was, f) {
		return
	}
	l.found[f.GetKey()] = f
	if was == nil || was.GetState() != f.GetState() {
		l.log.Debug("looked for weights", "source", l.asked[f.GetKey()].GetSource(), "state", stateWord(f.GetState()), "path", f.GetPath(), "reason", f.GetReason())
	}
	l.tell(session, f)
}

func stateWord(s fleetpb.WeightsState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "WEIGHTS_STATE_"))
}

// outside is the answer for what is in no directory that may be looked into.
func outside(w *fleetpb.WeightsWanted) *fleetpb.WeightsFound {
	return &fleetpb.WeightsFound{
		Key: w.GetKey(), State: fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE,
		Reason: "it is in none of the directories that weights.dirs of the node's configuration names, so it was not looked at",
	}
}

// below returns where in the directory a source is: for a path one place, for a name
// those at which it would be.
func (d *weightsDir) below(source string) (places []string, in bool) {
	if strings.HasPrefix(source, "/") {
		rest, is := strings.CutPrefix(path.Clean(source), d.path)
		if !is || (rest != "" && rest[0] != '/') {
			return nil, false
		}
		return []string{cmp.Or(strings.TrimPrefix(rest, "/"), ".")}, true
	}
	if !fs.ValidPath(source) || source == "." || len(source) > mostSource {
		return nil, false
	}
	return []string{source, "models--" + strings.ReplaceAll(source, "/", "--")}, true
}

// look looks for weights in the directory, for no longer than timeout.
func (d *weightsDir) look(ctx context.Context, w *fleetpb.WeightsWanted, timeout time.Duration) *fleetpb.WeightsFound {
	d.mu.Lock()
	stuck := d.stuck
	d.mu.Unlock()
	if !stuck.IsZero() {
		return d.silent(w)
	}
	answer := make(chan *fleetpb.WeightsFound, 1)
	go func() {
		answer <- d.read(w) // before the lock: who gives up looks there under it
		d.mu.Lock()
		d.stuck = time.Time{}
		d.mu.Unlock()
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case f := <-answer:
		return f
	case <-timer.C:
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	select {
	case f := <-answer: // meanwhile
		return f
	default:
		d.stuck = time.Now()
		return d.silent(w)
	}
}

func (d *weightsDir) silent(w *fleetpb.WeightsWanted) *fleetpb.WeightsFound {
	return &fleetpb.WeightsFound{
		Key: w.GetKey(), State: fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE, Path: d.path,
		Reason: fmt.Sprintf("the filesystem of %s does not answer; see whether its server does", d.path),
	}
}

// read reads what is in the directory of the weights. It may hang as long as the
// filesystem does.
func (d *weightsDir) read(w *fleetpb.WeightsWanted) *fleetpb.WeightsFound {
	if d.before != nil {
		d.before()
	}
	found := &fleetpb.WeightsFound{Key: w.GetKey(), Path: d.path}
	// A root lets no path and no link lead out of it, however it is made meanwhile.
	root, err := os.OpenRoot(d.path)
	if err != nil {
		found.State, found.Reason = fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE, err.Error()
		if errors.Is(err, fs.ErrNotExist) {
			found.State = fleetpb.WeightsState_WEIGHTS_STATE_ABSENT
		}
		return found
	}
	defer root.Close()
	places, _ := d.below(w.GetSource())
	for i, place := range places {
		if i > 0 { // a name, as Hugging Face's cache has it
			place = snapshot(root, place, w.GetRevision())
			if place == "" {
				continue
			}
		} else if w.GetRevision() != "" && !strings.HasPrefix(w.GetSource(), "/") {
			continue // which revision a plain directory is does not show
		}
		next := d.readAt(root, place, w)
		if i == 0 || better(next.GetState(), found.GetState()) {
			found = next
		}
	}
	if found.GetState() == fleetpb.WeightsState_WEIGHTS_STATE_UNSPECIFIED {
		found.State, found.Reason = fleetpb.WeightsState_WEIGHTS_STATE_ABSENT, "nothing in "+d.path+" has that name"
	}
	return found
}

// snapshot returns where a cache of Hugging Face's has a revision of a model; "": it
// has none.
func snapshot(root *os.Root, model, revision string) string {
	revision = cmp.Or(revision, "main")
	if !fs.ValidPath(revision) {
		return ""
	}
	if data, err := readBelow(root, path.Join(model, "refs", revision), 256); err == nil {
		revision = strings.TrimSpace(string(data))
	}
	at := path.Join(model, "snapshots", revision)
	if !fs.ValidPath(at) {
		return ""
	}
	if info, err := root.Stat(at); err != nil || !info.IsDir() {
		return ""
	}
	return at
}

// readBelow reads a small regular file.
func readBelow(root *os.Root, name string, most int64) ([]byte, error) {
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, fmt.Errorf("%s is no small file", name)
	}
	return root.ReadFile(name)
}

// readAt reads the weights at a place in the directory.
func (d *weightsDir) readAt(root *os.Root, place string, w *fleetpb.WeightsWanted) *fleetpb.WeightsFound {
	found := &fleetpb.WeightsFound{Key: w.GetKey(), Path: path.Join(d.path, place)}
	facts, err := weights.Read(root.FS(), place)
	if err != nil {
		found.State, found.Reason = stateOf(err), clip(err.Error())
		return found
	}
	found.State = fleetpb.WeightsState_WEIGHTS_STATE_PRESENT
	found.Files, found.Facts = uint32(len(facts.Files)), convert.WeightsToWire(&facts) //nolint:gosec // bounded
	if bytes := facts.Bytes(); bytes >= 0 {
		found.Bytes = new(uint64(bytes))
	}
	found.Shared = sharedAt(found.GetPath())
	return found
}

// stateOf is what an error of a look means.
func stateOf(err error) fleetpb.WeightsState {
	switch {
	case errors.Is(err, weights.ErrNotFound), errors.Is(err, weights.ErrEmpty):
		return fleetpb.WeightsState_WEIGHTS_STATE_ABSENT
	case errors.Is(err, weights.ErrIncomplete):
		return fleetpb.WeightsState_WEIGHTS_STATE_PARTIAL
	}
	return fleetpb.WeightsState_WEIGHTS_STATE_UNREADABLE
}

// sharedAt returns which place of which shared filesystem a path is at; "" for a
// local one, and where that cannot be told.
func sharedAt(name string) string {
	resolved, err := filepath.EvalSymlinks(name)
	if err != nil {
		return ""
	}
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "" // not Linux
	}
	defer mounts.Close()
	return weights.SharedAt(mounts, resolved)
}

// weightsOf are the messages of what was found.
func weightsOf(found map[string]*fleetpb.WeightsFound) []*fleetpb.ConnectRequest {
	var out []*fleetpb.ConnectRequest
	var list []*fleetpb.WeightsFound
	for _, key := range slices.Sorted(maps.Keys(found)) {
		list = append(list, found[key])
	}
	for part := range slices.Chunk(list, weightsPart) {
		out = append(out, &fleetpb.ConnectRequest{Message: &fleetpb.ConnectRequest_Weights{Weights: &fleetpb.Weights{Found: part}}})
	}
	return out
}
