package pci

import "testing"

func TestAddress(t *testing.T) {
	for in, want := range map[string]string{
		"00000000:1A:00.0": "0000:1a:00.0", // nvidia-smi
		"0000:1a:00.0":     "0000:1a:00.0", // sysfs
		"0000:3b:00":       "0000:3b:00.0", // an XID
		"0000000F:01:00.0": "000f:01:00.0", // GB10
		"10000:e1:00.0":    "10000:e1:00.0",
		"0:1:0.7":          "0000:01:00.7",
		"":                 "",
		"1a:00.0":          "",
		"0000:1a:00.8":     "",
		"0000:1a:00.00":    "",
		"0000:1a:20.0":     "",
		"0000:1g:00.0":     "",
		"0000::00.0":       "",
		"+000:1a:00.0":     "",
		"00000:1a:00:00.0": "",
		"GPU-1a2b":         "",
	} {
		if got, ok := Address(in); got != want || ok != (want != "") {
			t.Errorf("Address(%q) = %q, %v; want %q", in, got, ok, want)
		}
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("00000000:1A:00.0")
	f.Add("0000:3b:00")
	f.Fuzz(func(t *testing.T, s string) {
		one, ok := Address(s)
		if !ok {
			return
		}
		if two, ok := Address(one); !ok || one != two {
			t.Errorf("%q is written %q, and that %q, %v", s, one, two, ok)
		}
	})
}
