package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestEndIsNoticed: by either way, of a process that is not waited for.
func TestEndIsNoticed(t *testing.T) {
	for name, notice := range map[string]func(context.Context, identity, time.Duration) error{"pidfd": await, "proc": watch} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "/bin/sleep", "600")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			st, err := readStat(cmd.Process.Pid)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() { done <- notice(ctx, st.identity, time.Millisecond) }()
			why := errors.New("let go")
			cancel(why)
			if err := <-done; !errors.Is(err, why) {
				t.Errorf("let go: %v", err)
			}
			another := identity{PID: st.PID, Start: st.Start - 1}
			if err := notice(t.Context(), another, time.Millisecond); err != nil {
				t.Errorf("a process that has another's number: %v", err)
			}
			if err := signalOne(another, sigKill); err == nil {
				t.Error("a process that has another's number was signalled")
			}
			go func() { done <- notice(t.Context(), st.identity, time.Millisecond) }()
			if err := signalOne(st.identity, sigKill); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err == nil || exitOf(cmd.ProcessState) != (Exit{Known: true, Signal: "SIGKILL"}) {
				t.Errorf("exit is %v", exitOf(cmd.ProcessState))
			}
			if err := notice(t.Context(), st.identity, time.Millisecond); err != nil {
				t.Errorf("after its end: %v", err)
			}
		})
	}
}

func TestTicksAreThoseOfProc(t *testing.T) {
	before, err := ticks()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	st, err := readStat(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	after, err := ticks()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if st.Start < before || st.Start > after {
		t.Errorf("a process started at %d, between %d and %d", st.Start, before, after)
	}
	if own, err := readStat(os.Getpid()); err != nil || own.Start > before {
		t.Errorf("this process started at %d, before %d: %v", own.Start, before, err)
	}
}

func TestSocketsOn(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:4E20 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 3171 1 0000 100 0 0 10 0
   1: 0100007F:9999 0100007F:4E20 01 00000000:00000000 00:00000000 00000000     0        0 3172 1 0000 20 4 30 10 -1
   2: 0100007F:4E20 0100007F:9999 06 00000000:00000000 03:00000000 00000000     0        0 0 3 0000
   3: short
`
	if got := socketsOn([]byte(table), 20000); len(got) != 1 || got[0] != "3171" {
		t.Errorf("sockets are %q", got)
	}
}
