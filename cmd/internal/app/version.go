package app

import (
	"runtime"
	"runtime/debug"
	"strings"
)

// Version says what a binary was built from.
type Version struct {
	Version  string `json:"version"`            // of the module, e.g. v0.3.0; "devel" for a working tree
	Revision string `json:"revision,omitempty"` // commit, with "+dirty" if files differed from it
	Time     string `json:"time,omitempty"`     // of the commit, RFC 3339
	Go       string `json:"go"`                 // toolchain, e.g. go1.26.1
	Platform string `json:"platform"`           // e.g. linux/amd64
}

// ReadVersion reads what the Go toolchain wrote into the running binary.
func ReadVersion() Version {
	v := Version{Version: "devel", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	dirty := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			dirty = s.Value == "true"
		}
	}
	if dirty && v.Revision != "" {
		v.Revision += "+dirty"
	}
	return v
}

// String is one line for people.
func (v Version) String() string {
	parts := []string{"llmgw", v.Version}
	if v.Revision != "" {
		parts = append(parts, "("+v.Revision[:min(12, len(v.Revision))]+strings.TrimLeft(v.Revision, "0123456789abcdef")+")")
	}
	return strings.Join(append(parts, v.Go, v.Platform), " ")
}
