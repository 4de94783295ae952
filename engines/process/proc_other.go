//go:build !linux

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/llmgw/llmgw/engines"
)

func supported() error { return fmt.Errorf("%w: this is %s", ErrUnsupported, runtime.GOOS) }

func readStat(int) (stat, error)                           { return stat{}, supported() }
func bootID() (string, error)                              { return "", supported() }
func ticks() (uint64, error)                               { return 0, supported() }
func allStats() (map[int]stat, error)                      { return nil, supported() }
func markerOf(int) (string, bool)                          { return "", false }
func prints(int, os.FileInfo) bool                         { return false }
func signalOne(identity, syscall.Signal) error             { return supported() }
func signalGroup(int, syscall.Signal) error                { return supported() }
func number(engines.Signal) syscall.Signal                 { return syscall.SIGTERM }
func await(context.Context, identity, time.Duration) error { return supported() }
func ownSession(*exec.Cmd)                                 {}
func exitOf(*os.ProcessState) Exit                         { return Exit{} }
func lockFile(*os.File) error                              { return supported() }
func holderOf(int) Holder                                  { return Holder{} }
func listeningPorts() ([]int, error)                       { return nil, supported() }
func strictly(string, string, syscall.RawConn) error       { return nil }

const sigKill = syscall.SIGKILL
