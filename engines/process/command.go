package process

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/engines"
)

// environment returns exactly what a process gets: what is handed on by name,
// without what the command refuses, what the command sets, and the marker.
func (r *Runner) environment(c engines.Command, marker, secret string) map[string]string {
	env := map[string]string{}
	for _, v := range r.deps.Environ() {
		if name, value, ok := strings.Cut(v, "="); ok && slices.Contains(r.cfg.HandOn, name) {
			env[name] = value
		}
	}
	for _, name := range c.Unset {
		delete(env, name)
	}
	for name, value := range c.Env {
		env[name] = withSecret(value, secret)
	}
	env[Marker] = marker
	return env
}

// command returns the command, not started, with nothing to read from.
func command(c engines.Command, env map[string]string, dir string) (*exec.Cmd, error) {
	path, err := lookup(c.Executable, env["PATH"])
	if err != nil {
		return nil, err
	}
	words := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		words = append(words, name+"="+env[name])
	}
	// Not CommandContext: a process of a shard ends by Stop, never by a context.
	return &exec.Cmd{Path: path, Args: append([]string{c.Executable}, c.Args...), Env: words, Dir: dir}, nil
}

// lookup finds a name in the directories of path, which is the PATH that the
// process itself gets.
func lookup(name, path string) (string, error) {
	if filepath.IsAbs(name) {
		return name, nil
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) { // a working directory decides nothing
			continue
		}
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: %q in PATH=%s; give its absolute path, or add its directory", exec.ErrNotFound, name, path)
}
