package sqlite

import "testing"

func TestNetworkFS(t *testing.T) {
	for magic, want := range map[uint32]string{0x6969: "NFS", 0xff534d42: "SMB", 0xef53: "", 0x01021994: "", 0x9123683e: ""} {
		if got := networkType(magic); got != want {
			t.Errorf("%#x is %q; want %q", magic, got, want)
		}
	}
	if name := networkFS(t.TempDir()); name != "" {
		t.Skipf("temporary files are on %s", name)
	}
}
