package agent

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// The files of an agent in its state directory. Each shard has a directory of
// its own below shards.
const (
	stateName    = "state"
	previousName = "state.previous"
	damagedName  = "state.damaged"
	instanceName = "instance"
	lockName     = "lock"
	shardsName   = "shards"
)

// maxStateBytes bounds what is read: far more than any node's orders take.
const maxStateBytes = 64 << 20

// errState is the class of errors that say that a state file cannot be used.
var errState = errors.New("agent: state file cannot be used")

// savedState is the memory as it stands in the file.
type savedState struct {
	Version  int          `json:"version"`
	Node     string       `json:"node"`
	Boot     string       `json:"boot"`
	Cluster  string       `json:"cluster,omitempty"`
	Term     uint64       `json:"term,omitempty"`
	Defaults defaults     `json:"defaults,omitzero"`
	Shards   []savedHeard `json:"shards,omitempty"`
}

type savedHeard struct {
	Shard      string    `json:"shard"`
	Generation uint64    `json:"generation"`
	Stopped    bool      `json:"stopped,omitempty"`
	StopBy     time.Time `json:"stop_by,omitzero"`
	Draining   bool      `json:"draining,omitempty"`
	Posture    string    `json:"posture,omitempty"`
	At         time.Time `json:"at"`
}

// encodeState writes a state as it stands in the file: a line with the checksum
// of all that follows, and JSON, so that a person can read it.
func encodeState(node, boot string, m memory) ([]byte, error) {
	s := savedState{Version: 1, Node: node, Boot: boot, Cluster: m.Cluster, Term: m.Term, Defaults: m.Defaults}
	for id, h := range m.Shards {
		s.Shards = append(s.Shards, savedHeard{
			Shard: id.String(), Generation: h.Generation, Stopped: h.Stopped, StopBy: h.StopBy, Draining: h.Draining,
			Posture: h.Posture.String(), At: h.At,
		})
	}
	slices.SortFunc(s.Shards, func(a, b savedHeard) int { return cmp.Compare(a.Shard, b.Shard) })
	body, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return append([]byte(hex.EncodeToString(sum[:])+"\n"), body...), nil
}

// decodeState reads what encodeState wrote, whole and unharmed. The error wraps
// errState.
func decodeState(data []byte) (savedState, memory, error) {
	bad := func(format string, args ...any) (savedState, memory, error) {
		return savedState{}, memory{}, fmt.Errorf("%w: %w", errState, fmt.Errorf(format, args...))
	}
	line, body, found := bytes.Cut(data, []byte("\n"))
	if !found {
		return bad("it is cut off after %d bytes", len(data))
	}
	if sum := sha256.Sum256(body); string(line) != hex.EncodeToString(sum[:]) {
		return bad("its checksum is another: it was cut off or changed")
	}
	var s savedState
	if err := json.Unmarshal(body, &s); err != nil {
		return bad("%w", err)
	}
	if s.Version != 1 {
		return bad("version %d is not known to this agent", s.Version)
	}
	m := memory{Cluster: s.Cluster, Term: s.Term, Defaults: s.Defaults}
	for _, h := range s.Shards {
		id, err := engines.ParseShardID(h.Shard)
		if err != nil {
			return bad("%w", err)
		}
		if m.Shards == nil {
			m.Shards = make(map[engines.ShardID]heard, len(s.Shards))
		}
		m.Shards[id] = heard{Generation: h.Generation, Stopped: h.Stopped, StopBy: h.StopBy, Draining: h.Draining, Posture: parsePosture(h.Posture), At: h.At}
	}
	return s, m, nil
}

// stateDir is the directory in which an agent keeps what must outlive it.
type stateDir struct {
	path string
	node string
	boot string
}

// load reads the memory, from the file before the last where the last one cannot
// be used, and says for people what was not as it should be. It never fails: with
// neither file an agent begins anew, and what its shards' own directories say is
// added to that.
func (d stateDir) load() (m memory, oddities []string) {
	for _, name := range []string{stateName, previousName} {
		data, err := readBounded(filepath.Join(d.path, name))
		if errors.Is(err, fs.ErrNotExist) {
			if name == stateName {
				continue
			}
			return memory{}, oddities
		}
		var s savedState
		if err == nil {
			s, m, err = decodeState(data)
		}
		if err != nil {
			oddities = append(oddities, fmt.Sprintf("%s: %v; it is kept as %s", name, err, damagedName))
			if err := os.Rename(filepath.Join(d.path, name), filepath.Join(d.path, damagedName)); err != nil {
				oddities = append(oddities, err.Error())
			}
			continue
		}
		if s.Node != d.node {
			oddities = append(oddities, fmt.Sprintf("%s is of node %q, and this is %q: what that one was ordered counts for nothing here", name, s.Node, d.node))
			return memory{}, oddities
		}
		if name == previousName {
			oddities = append(oddities, "the state before the last is used; what was ordered since is learned from the shards' own directories and from the control plane")
		}
		return m, oddities
	}
	return memory{}, append(oddities, "no state can be used; what was ordered is learned from the shards' own directories and from the control plane")
}

// save puts the memory into the file, whole or not at all, and returns when it is
// on the disk. The file before stays beside it.
func (d stateDir) save(m memory) error {
	data, err := encodeState(d.node, d.boot, m)
	if err != nil {
		return err
	}
	path, previous := filepath.Join(d.path, stateName), filepath.Join(d.path, previousName)
	draft := path + ".draft"
	if err := writeSynced(draft, data); err != nil {
		return err
	}
	// A crash between the two leaves the file before alone, which is the truth:
	// what is being saved was not done yet.
	if err := os.Rename(path, previous); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(d.path)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// replaceFile puts a small file in its place whole or not at all.
func replaceFile(path string, data []byte) error {
	if err := writeSynced(path+".draft", data); err != nil {
		return err
	}
	return os.Rename(path+".draft", path)
}

// syncDir makes the names in a directory last.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxStateBytes+1))
	if err == nil && len(data) > maxStateBytes {
		err = fmt.Errorf("%s has more than %d bytes", path, maxStateBytes)
	}
	return data, err
}
