package process

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// The files of this package in a shard's directory.
const (
	recordName = "shard.json"
	lockName   = "lock"
	// draftSuffix ends the name of a file that is not whole yet.
	draftSuffix = ".draft"
)

// SecretFile is the file in a shard's directory that holds its secret, for who
// has to show it to the engine. It is empty where the engine asks for none.
const SecretFile = "secret"

// Errors of records.
var (
	// ErrNoRecord says that no shard was ever started in the directory.
	ErrNoRecord = errors.New("process: no record of a shard")
	// ErrRecord says that the record is there and cannot be read.
	ErrRecord = errors.New("process: record of a shard cannot be read")
	// ErrAttended says that a Runner, here or in another process, holds the
	// shard.
	ErrAttended = errors.New("process: shard is attended to already")
	// ErrRunning says that the shard that was started in the directory before
	// still runs; adopt it, and stop it.
	ErrRunning = errors.New("process: an earlier start of the shard still runs")
)

// record is what is known of a shard on disk. It is written before anything
// starts, and after each change; whoever takes the shard up begins from it.
type record struct {
	Version    int    `json:"version"`
	ID         string `json:"id"`
	Generation uint64 `json:"generation"`
	// Boot is the machine's boot: in another one nothing of the shard runs.
	Boot string `json:"boot"`
	// Since is when the start began, in clock ticks since the machine started: no
	// process of it is older.
	Since uint64 `json:"since"`
	// Start is a random name of this start, by which its processes are found
	// before their numbers are known.
	Start string `json:"start"`
	// Command is the SHA-256 of the launch.
	Command  string         `json:"command"`
	Launch   engines.Launch `json:"launch"`
	Address  string         `json:"address,omitempty"`
	Ports    []int          `json:"ports,omitempty"`
	Begun    time.Time      `json:"begun"`
	Ready    time.Time      `json:"ready,omitzero"`
	Stopping time.Time      `json:"stopping,omitzero"`
	Stopped  time.Time      `json:"stopped,omitzero"`
	// Processes are in the order in which they start, the engine last.
	Processes []processRecord `json:"processes"`
}

type processRecord struct {
	Name string `json:"name"`
	// identity is zero until the process was started.
	identity
	Begun time.Time `json:"begun,omitzero"`
	Exit  *Exit     `json:"exit,omitempty"`
}

// CommandHash returns the SHA-256 of everything that l says, in hexadecimal: two
// launches with the same hash start the same processes in the same way.
func CommandHash(l engines.Launch) string {
	text, err := json.Marshal(l)
	if err != nil {
		panic("process: a launch is plain data: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// marker is the value of [Marker] in the environment of a process of the start.
func (r *record) marker(process string) string {
	return Mark{ID: r.ID, Generation: r.Generation, Start: r.Start, Process: process}.String()
}

func readRecord(dir string) (*record, error) {
	text, err := os.ReadFile(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrNoRecord, err)
	}
	var r record
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil {
		err = r.validate()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrRecord, filepath.Join(dir, recordName), err)
	}
	return &r, nil
}

func (r *record) validate() error {
	if r.Version != 1 {
		return fmt.Errorf("version %d is not known here", r.Version)
	}
	all := roles(r.Launch)
	if r.Boot == "" || r.Start == "" || !shardID.MatchString(r.ID) || len(r.Processes) != len(all) {
		return errors.New("parts of it are missing")
	}
	for i, p := range all {
		if r.Processes[i].Name != p.name {
			return fmt.Errorf("processes[%d] is %q, and the launch says %q", i, r.Processes[i].Name, p.name)
		}
		if p.name != Engine && !roleName.MatchString(p.name) {
			return fmt.Errorf("processes[%d]: %q is no name of a process", i, p.name)
		}
		if r.Processes[i].PID < 0 || r.Processes[i].PID == 1 {
			return fmt.Errorf("processes[%d]: %d is no process of a shard", i, r.Processes[i].PID)
		}
	}
	return nil
}

func (r *record) write(dir string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return writeFile(root, recordName, string(append(text, '\n')))
}

// writeFile puts a file in its place whole or not at all, for the owner alone.
// Links that lead out of root are not followed. The content reaches the disk
// before the name does; that the name is there after a loss of power is of no
// use, for nothing that it tells of is.
func writeFile(root *os.Root, name, content string) error {
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	draft := name + draftSuffix
	if err := root.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = root.Rename(draft, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(draft))
	}
	return nil
}
