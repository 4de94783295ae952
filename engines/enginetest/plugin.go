package enginetest

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin"
)

// RunPlugin holds the program of an adapter, whose name begins with
// [plugin.Prefix], to the same contract, as a host runs it: every answer goes
// over the wire. Of the many pairs of changes to a profile, which [Run] tries,
// none is. It reads testdata beside the test.
func RunPlugin(t *testing.T, path string) {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	name, ok := strings.CutPrefix(filepath.Base(path), plugin.Prefix)
	if !ok {
		t.Fatalf("%s: the program of an adapter is called %sNAME", path, plugin.Prefix)
	}
	cfg := plugin.DefaultConfig()
	cfg.Dir = filepath.Dir(path)
	cfg.StartTimeout, cfg.CallTimeout, cfg.PingTimeout = time.Minute, time.Minute, time.Minute // machines of tests are busy
	host, err := plugin.New(cfg, plugin.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context() // ends before the cleanup
	var running sync.WaitGroup
	running.Go(func() { _ = host.Run(ctx) }) // nil
	t.Cleanup(running.Wait)
	a, err := host.Adapter(engines.Name(name))
	if err != nil {
		t.Fatal(err)
	}
	run(t, a, true)
}

// wired: over the wire an adapter says what it says in the same process.
func wired(s *subject) (fs findings) {
	const contract = "over the protocol of plug-ins an adapter says the same"
	remote, stop, err := plugin.Loopback(s.adapter)
	if err != nil {
		fs.add(contract, err.Error(), "see package plugin")
		return fs
	}
	defer stop()
	files := append([]profileFile(nil), s.profiles...)
	invalid, err := readProfiles(s.path("invalid"))
	if err != nil {
		return nil // said elsewhere
	}
	files = append(files, invalid...)
	for _, f := range files {
		here, there := s.said(s.adapter, f), s.said(remote, f)
		if here != there {
			fs.add(contract, f.Name+":\n"+difference(here, there), "return nothing that the protocol does not carry")
		}
	}
	return fs
}

// said is what an adapter answers for a profile, as text.
func (s *subject) said(a engines.Adapter, f profileFile) string {
	w := new(text)
	shape, err := a.Validate(s.ctx, f.Profile)
	if err != nil {
		return refusal(err)
	}
	w.shape(shape)
	ranks, err := f.Shard.launched(shape)
	if err != nil {
		return err.Error()
	}
	for _, rank := range ranks {
		l, err := a.Launch(s.ctx, f.Shard.shard(f.Profile, shape, rank))
		if err != nil {
			return refusal(err)
		}
		w.launch(rank, l)
		for _, r := range l.Logs {
			fmt.Fprintf(w, "%q %v %q %q\n", r.Match, r.Phase, r.Reason, r.Advice)
		}
	}
	return w.String()
}

// refusal is the profile's part of an error: over the wire more stands around
// it.
func refusal(err error) string {
	if pe, ok := errors.AsType[*engines.ProfileError](err); ok {
		return pe.Error()
	}
	return err.Error()
}
