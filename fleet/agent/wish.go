package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
)

// The files in a shard's directory: what was wished of the shard, and the
// directory of its processes, which is package process's and the engine's.
const (
	wishName = "wish.json"
	runName  = "run"
)

// wish is what an agent has to know of a shard beside what package process
// records, to report it and to look after it when it takes it up again. It is
// written before the shard starts and never changed. The secret is not in it.
type wish struct {
	Version    int          `json:"version"`
	Shard      string       `json:"shard"`
	Generation uint64       `json:"generation"`
	Engine     engines.Name `json:"engine"`
	Ordered    time.Time    `json:"ordered"`
	// Process is the shard's name among the processes of the machine.
	Process string          `json:"process"`
	Ports   map[string]span `json:"ports,omitempty"`
	// Address is host:port of the engine's HTTP server; empty: it has none.
	Address string `json:"address,omitempty"`
	// Metrics says where the engine's load stands; nil: nowhere.
	Metrics *engines.MetricContract `json:"metrics,omitempty"`
	// Cards are the ids of its cards, with the bytes that were in use on each before
	// it started, where that was known.
	Cards []cardBefore `json:"cards,omitempty"`
}

type cardBefore struct {
	ID        string              `json:"id"`
	UsedBytes engines.Opt[uint64] `json:"used_bytes,omitzero"`
}

var errWish = errors.New("agent: what was wished of the shard cannot be read")

func (w wish) write(dir string) error {
	data, err := json.MarshalIndent(w, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, wishName), data)
}

// readWish returns the wish in a shard's directory. The error wraps errWish, or
// says that there is none.
func readWish(dir string) (wish, error) {
	data, err := readBounded(filepath.Join(dir, wishName))
	if err != nil {
		return wish{}, err
	}
	var w wish
	if err := json.Unmarshal(data, &w); err != nil {
		return wish{}, fmt.Errorf("%w: %w", errWish, err)
	}
	if _, err := engines.ParseShardID(w.Shard); err != nil || w.Version != 1 {
		return wish{}, fmt.Errorf("%w: version %d, shard %q", errWish, w.Version, w.Shard)
	}
	for need, s := range w.Ports {
		if s.First < 1 || s.Count < 1 || s.First+s.Count > 65536 {
			return wish{}, fmt.Errorf("%w: ports of %s: %+v", errWish, need, s)
		}
	}
	return w, nil
}

// dirName is the name of a shard's directory; parseDirName reads it.
func dirName(id engines.ShardID) string { return id.Replica + "." + strconv.Itoa(id.Rank) }

func parseDirName(name string) (engines.ShardID, error) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return engines.ShardID{}, fmt.Errorf("%w: %q", engines.ErrID, name)
	}
	return engines.ParseShardID(name[:dot] + "/" + name[dot+1:])
}

// processID is the shard's name among the processes of the machine, where more
// than one agent may run: the instance tells theirs apart.
func processID(id engines.ShardID, instance string) string {
	return dirName(id) + "." + instanceTag(instance)
}

// parseProcessID returns the shard of a process of this agent's.
func parseProcessID(name, instance string) (engines.ShardID, bool) {
	dir, ours := strings.CutSuffix(name, "."+instanceTag(instance))
	if !ours {
		return engines.ShardID{}, false
	}
	id, err := parseDirName(dir)
	return id, err == nil
}

func instanceTag(instance string) string { return strings.ToLower(instance[:8]) }
