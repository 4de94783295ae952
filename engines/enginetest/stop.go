package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/process"
)

const (
	standing = "suite stands" // what a stand-in prints when it can be stopped
	// shortGrace is enough for a shell to obey, and little to wait for one that
	// does not.
	shortGrace = 300 * time.Millisecond
	// startTime bounds how long stand-ins take to start and end.
	startTime = time.Minute
)

// standIn is a shell that runs in place of an engine: one that obeys the signal
// that asks it to end, or one that ignores it and has a child that does, too.
func standIn(obeys bool) []string {
	script := "echo " + standing + "; exec /bin/sleep 600"
	if !obeys {
		script = "trap '' TERM INT QUIT; /bin/sleep 600 & echo " + standing + "; wait"
	}
	return []string{"-c", script}
}

// stands replaces the programs of a launch, and leaves all else of it. What runs
// once ends at once.
func stands(l engines.Launch, obeys bool) engines.Launch {
	ready := engines.Readiness{Log: standing, Timeout: startTime}
	stop := func(s engines.Stop) engines.Stop { return engines.Stop{Signal: s.Signal, Grace: shortGrace} }
	l.Engine.Executable, l.Engine.Args = "/bin/sh", standIn(obeys)
	l.Ready, l.Stop = ready, stop(l.Stop)
	sidecars := make([]engines.Sidecar, len(l.Sidecars))
	for i, sc := range l.Sidecars {
		sc.Command.Executable, sc.Command.Args = "/bin/sh", standIn(obeys)
		sc.Ready, sc.Stop = ready, stop(sc.Stop)
		if sc.RunsOnce {
			sc.Command.Args = []string{"-c", "exit 0"}
			sc.Ready.Log = ""
		}
		sidecars[i] = sc
	}
	l.Sidecars = sidecars
	return l
}

// stops: the launch can be started and stopped as it stands, with stand-ins for
// its programs: engines that obey end by the signal, and those that ignore it are
// killed with all their group when their grace is over.
func stops(s *subject) (fs findings) {
	seen := 0
	for i, f := range s.profiles {
		shape, err := s.adapter.Validate(s.ctx, f.Profile)
		if err != nil {
			continue // said elsewhere
		}
		shard := f.Shard.shard(f.Profile, shape, 0)
		shard.Dir = filepath.Join(s.temp(), "shard")
		l, err := s.adapter.Launch(s.ctx, shard)
		if err != nil || i > 0 && len(l.Sidecars)+len(l.Files) == 0 {
			continue
		}
		for _, obeys := range []bool{true, false} {
			if err := s.stop(&fs, f.Name, shard, l, obeys); errors.Is(err, process.ErrUnsupported) {
				s.skip = "package process needs Linux"
				return fs
			}
		}
		if seen++; seen == 2 {
			break // another like these would show nothing new
		}
	}
	return fs
}

func (s *subject) stop(fs *findings, name string, shard engines.Shard, l engines.Launch, obeys bool) error {
	const contract = "a launch can be started, and stopped so that nothing is left"
	cfg := process.DefaultConfig()
	cfg.Poll, cfg.Linger = 20*time.Millisecond, shortGrace
	runner, err := process.New(cfg, process.Deps{})
	if err != nil {
		panic(err) // the lines above are wrong
	}
	ctx, cancel := context.WithTimeout(s.ctx, 2*startTime)
	defer cancel()
	sh, err := runner.Start(ctx, process.Spec{
		// Processes are known by the name of their shard on the whole node, and
		// the suites of several adapters run at once.
		ID: fmt.Sprintf("suite-%d", os.Getpid()), Generation: shard.Generation, Dir: shard.Dir, Launch: stands(l, obeys), Secret: "suite-secret-of-32-bytes-or-more",
	})
	if err != nil {
		if !errors.Is(err, process.ErrUnsupported) {
			fs.add(contract, fmt.Sprintf("%s: %v", name, err), "return a launch that package process accepts")
		}
		return err
	}
	if _, err := sh.Wait(ctx, process.StateReady); err != nil {
		fs.add(contract, fmt.Sprintf("%s: with stand-ins it does not become ready: %v", name, err), "look at sidecars, files and variables of the launch")
	}
	for _, f := range l.Files {
		if info, err := os.Stat(filepath.Join(shard.Dir, f.Name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			fs.add(contract, fmt.Sprintf("%s: file %s: %v, error %v", name, f.Name, info, err), "give files of the launch names of their own in the shard's directory")
		}
	}
	if err := sh.Stop(ctx); err != nil {
		fs.add(contract, fmt.Sprintf("%s: %v", name, err), "give Stop a signal and a grace")
		return err
	}
	for _, end := range sh.Status().Ended {
		switch {
		case obeys && len(end.Killed) > 0:
			fs.add("an engine that obeys ends by the signal of its launch", fmt.Sprintf("%s: %s was killed: %v", name, end.Name, end.Killed), "use SIGTERM, or what the engine obeys")
		case !obeys && (len(end.Killed) < 2 || end.Took < shortGrace):
			fs.add("an engine that ignores its signal is killed with its group after its grace", fmt.Sprintf("%s: %s: killed %v after %v", name, end.Name, end.Killed, end.Took), "see package process")
		}
	}
	return nil
}
