package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// Shard is one shard that a Runner attends to. Its methods may be called by
// several goroutines at once.
type Shard struct {
	runner *Runner
	log    *slog.Logger
	id     string
	dir    string
	secret string
	roles  []role
	lock   *os.File // held as long as the shard is attended to

	// cancel ends the goroutine that attends to the shard, which closes done.
	cancel context.CancelCauseFunc
	done   chan struct{}
	// unwatch ends the goroutines that wait for processes which are not our
	// children; watchers counts them.
	unwatch  context.CancelFunc
	watchers sync.WaitGroup

	// turn is held by Stop and Detach.
	turn chan struct{}
	// left is closed when the shard was stopped or let go and the lock given
	// back. The holder of turn closes it.
	left chan struct{}

	// The goroutine that attends, and after it the holder of turn, alone.
	record *record
	procs  []*proc // by place among roles; nil: not started

	mu      sync.Mutex
	status  Status        // guarded by mu
	changed chan struct{} // guarded by mu; closed at the next change
}

// proc is one process of a shard, for as long as it is attended to.
type proc struct {
	role
	place  int
	begun  time.Time
	id     identity
	group  group
	output *logFile
	exit   Exit          // valid once exited is closed
	exited chan struct{} // closed when the process has ended
	noted  bool          // its end stands in the record
	asked  time.Time     // when it was asked to end; zero: it was not
}

// ended reports whether the process has ended.
func (p *proc) ended() bool { return isClosed(p.exited) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Start begins to start a shard and returns without waiting for more than its
// files, its record and a look at its ports. What goes wrong after that is the
// shard's failure: see [Shard.Wait]. Nothing of the shard depends on ctx after
// the return. The caller has to end with Stop or Detach.
//
// A spec that says nothing that can be started is [ErrSpec]; a directory in
// which an earlier start still runs [ErrRunning], or [ErrAttended] while
// somebody attends to it; ports that are held a [*PortsError] with their
// holders.
func (r *Runner) Start(ctx context.Context, spec Spec) (*Shard, error) {
	if err := errors.Join(supported(), spec.validate(), context.Cause(ctx)); err != nil {
		return nil, err
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	since, err := ticks()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("process: shard %s: %w", spec.ID, err)
	}
	lock, err := r.lockDir(ctx, spec.Dir)
	if err != nil {
		return nil, fmt.Errorf("process: shard %s: %w", spec.ID, err)
	}
	rec := &record{
		Version: 1, ID: spec.ID, Generation: spec.Generation, Boot: boot, Since: since, Start: rand.Text(),
		Command: CommandHash(spec.Launch), Launch: spec.Launch, Address: spec.Address, Ports: spec.Ports,
		Begun: time.Now(),
	}
	for _, p := range spec.processes() {
		rec.Processes = append(rec.Processes, processRecord{Name: p.name})
	}
	err = r.prepare(spec, rec)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("process: shard %s: %w", spec.ID, err), lock.Close())
	}
	s := r.shard(spec.Dir, spec.Secret, rec, lock)
	s.update(func(st *Status) { st.State, st.Since = StateStarting, rec.Begun })
	s.begin()
	return s, nil
}

// prepare does everything that comes before the first process.
func (r *Runner) prepare(spec Spec, rec *record) error {
	if err := r.vacant(spec, rec.Boot); err != nil {
		return err
	}
	if err := portsError("the shard's ports are not free", unfree(spec.Ports)); err != nil {
		return err
	}
	root, err := os.OpenRoot(spec.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range spec.Launch.Files {
		if err := writeFile(root, filepath.Clean(f.Name), withSecret(f.Content, spec.Secret)); err != nil {
			return err
		}
	}
	if err := writeFile(root, SecretFile, spec.Secret); err != nil {
		return err
	}
	return rec.write(spec.Dir)
}

// vacant reports as [ErrRunning] what runs of an earlier start in the directory.
func (r *Runner) vacant(spec Spec, boot string) error {
	groups := []group{{marker: spec.ID + "/"}}
	old, err := readRecord(spec.Dir)
	switch {
	case err == nil && old.Boot == boot:
		for _, p := range old.Processes {
			if p.PID > 0 {
				groups = append(groups, group{leader: p.identity, marker: old.marker(p.Name), log: logPath(spec.Dir, p.Name)})
			}
		}
	case errors.Is(err, ErrRecord):
		r.deps.Logger.Warn("a record that cannot be read is replaced; nothing of its shard is seen to run", "shard", spec.ID, "err", err)
	}
	for _, g := range groups {
		found, err := g.scan()
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("%w: %s", ErrRunning, list(found))
		}
	}
	return nil
}

// shard returns a shard that nobody attends to yet.
func (r *Runner) shard(dir, secret string, rec *record, lock *os.File) *Shard {
	s := &Shard{
		runner: r, id: rec.ID, dir: dir, secret: secret, roles: roles(rec.Launch), lock: lock,
		log:  r.deps.Logger.With("shard", rec.ID, "generation", rec.Generation),
		done: make(chan struct{}), turn: make(chan struct{}, 1), left: make(chan struct{}),
		record: rec, procs: make([]*proc, len(rec.Processes)),
		changed: make(chan struct{}),
	}
	s.status = Status{ID: rec.ID, Generation: rec.Generation, Start: rec.Start, Command: rec.Command}
	for _, p := range rec.Processes {
		s.status.Processes = append(s.status.Processes, ProcessStatus{Name: p.Name, PID: p.PID, Exit: p.Exit})
	}
	return s
}

// begin starts to attend to the shard.
func (s *Shard) begin() {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.cancel = cancel
	go func() {
		defer close(s.done)
		s.attend(ctx)
	}()
}

// attend starts what does not run yet, one process after the other is ready,
// and looks after it until ctx is done.
func (s *Shard) attend(ctx context.Context) {
	for i := range s.roles {
		if i < len(s.roles)-1 && s.procs[len(s.roles)-1] != nil {
			continue // adopted: the engine runs, so its sidecars were ready
		}
		if ctx.Err() != nil {
			return
		}
		p := s.procs[i]
		if p == nil {
			var err error
			if p, err = s.launch(i); err != nil {
				s.fail(&FailedError{Shard: s.id, Process: s.roles[i].name, Class: ErrStart, Reason: err.Error()})
				break
			}
		}
		if ready := s.untilReady(ctx, p); !ready {
			break
		}
	}
	s.keep(ctx)
}

// launch starts one process and puts it into the record. A process that cannot
// be recorded does not stay.
func (s *Shard) launch(place int) (*proc, error) {
	p := &proc{role: s.roles[place], place: place, begun: time.Now(), exited: make(chan struct{})}
	env := s.runner.environment(p.command, s.record.marker(p.name), s.secret)
	cmd, err := command(p.command, env, s.dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	file, err := createLog(root, p.name+".log")
	if err != nil {
		return nil, err
	}
	defer file.Close() // the process has it
	cmd.Stdout, cmd.Stderr = file, file
	ownSession(cmd)
	p.output, err = s.runner.openLog(logPath(s.dir, p.name), s.secret)
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		p.output.close()
		return nil, err
	}
	// Nobody waits for the process yet, so that its number is its own.
	st, err := readStat(cmd.Process.Pid)
	if err == nil {
		p.id = st.identity
		s.record.Processes[place].identity, s.record.Processes[place].Begun = p.id, p.begun
		err = s.record.write(s.dir)
	}
	p.group = group{leader: p.id, marker: s.record.marker(p.name), log: p.output.path}
	go func() {
		_ = cmd.Wait() // what it returns is in ProcessState
		p.exit = exitOf(cmd.ProcessState)
		close(p.exited)
	}()
	if err != nil {
		err = errors.Join(err, signalGroup(cmd.Process.Pid, sigKill))
		p.output.close()
		return nil, err
	}
	s.procs[place] = p
	s.log.Info("process started", "process", p.name, "pid", p.id.PID)
	s.update(func(status *Status) {
		status.Processes[place].PID = p.id.PID
		if p.name == Engine {
			status.State = StateLoading
		}
	})
	return p, nil
}

func logPath(dir, process string) string { return filepath.Join(dir, process+".log") }

func withSecret(text, secret string) string {
	return strings.ReplaceAll(text, engines.SecretPlaceholder, secret)
}

// fail ends the shard's life as far as it goes by itself.
func (s *Shard) fail(failure *FailedError) {
	// The lines that were printed last are for those who may see the status: the
	// requests of clients can stand in them.
	s.log.Error("shard failed", "process", failure.Process, "why", failure.Class.Error(), "exit", failure.Exit, "reason", failure.Reason, "advice", failure.Advice)
	s.update(func(status *Status) {
		status.State, status.Failure = StateFailed, failure
		status.Process, status.Reason = failure.Process, failure.Reason
	})
}

// lockDir keeps others from attending to a shard's directory until the file is
// closed, by the end of this process at the latest.
func (r *Runner) lockDir(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(r.cfg.LockWait)
	for {
		err := lockFile(f)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, ErrAttended) || time.Now().After(deadline) {
			return nil, errors.Join(err, f.Close())
		}
		if err := until(ctx, nil, leastPause); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}

// Detach lets the shard go without stopping anything of it, as a launcher does
// that ends itself, and returns when nobody attends to it any more. [Runner.Adopt]
// takes it up again. Status stays what it was. A shard that was stopped is left
// as it is.
func (s *Shard) Detach() {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.cancel(ErrDetached)
	<-s.done
	s.letGo()
}

// letGo gives back what attending takes. The holder of turn calls it.
func (s *Shard) letGo() {
	if isClosed(s.left) {
		return
	}
	defer close(s.left)
	if s.unwatch != nil {
		s.unwatch()
	}
	s.watchers.Wait()
	for _, p := range s.procs {
		if p != nil {
			p.output.close()
		}
	}
	_ = s.lock.Close()
}
