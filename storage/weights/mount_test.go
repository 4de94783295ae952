package weights_test

import (
	"strings"
	"testing"

	"github.com/llmgw/llmgw/storage/weights"
)

// A share is the same wherever it is mounted, and a local disc never one, whatever
// its source is called.
func TestSharedAt(t *testing.T) {
	const mounts = `22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p1 rw
40 22 0:50 / /models rw - nfs4 10.0.0.5:/export rw,vers=4.2
41 22 0:51 /models /srv/filer\040one rw shared:7 - nfs 10.0.0.5:/export rw
42 22 0:52 / /lustre rw - lustre 10.1.1.1@tcp:/fs rw
43 22 0:53 / /guest rw - virtiofs models rw
44 22 0:54 /data /gluster rw - fuse.glusterfs server:vol rw
45 22 0:55 / /local rw - xfs /dev/nvme0n1p1 rw
46 22 0:56 / /models/local rw - tmpfs none rw
47 22 0:57 / /odd
48 22 0:58 / /nameless rw - nfs none rw
49 22 0:59 / /covered rw - nfs 10.0.0.5:/covered rw
50 22 0:60 / /covered rw - xfs /dev/sdb rw
`
	for path, want := range map[string]string{
		"/models/llama":            "nfs 10.0.0.5:/export/llama",
		"/models":                  "nfs 10.0.0.5:/export",
		"/srv/filer one/llama":     "nfs 10.0.0.5:/export/models/llama",
		"/lustre/a/b":              "lustre 10.1.1.1@tcp:/fs/a/b",
		"/gluster/m":               "glusterfs server:vol /data/m",
		"/guest/m":                 "",
		"/local/m":                 "",
		"/models/local/m":          "",
		"/modelsother":             "",
		"/nameless/m":              "",
		"/covered/m":               "",
		"/home/anybody/.cache/hub": "",
	} {
		if got := weights.SharedAt(strings.NewReader(mounts), path); got != want {
			t.Errorf("%s: %q; want %q", path, got, want)
		}
	}
	if got := weights.SharedAt(strings.NewReader("\x00 garbage - \n - \n"), "/models"); got != "" {
		t.Errorf("of garbage: %q", got)
	}
}
