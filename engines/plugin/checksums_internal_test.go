package plugin

import (
	"os"
	"path/filepath"
	"testing"
)

func FuzzChecksums(f *testing.F) {
	f.Add("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  llmgw-adapter-ours\n")
	f.Add("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 *dir/llmgw-adapter-ours\r\n# note\n\n")
	f.Add("abc  x\n")
	f.Add("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n")
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "sums")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sums, err := readChecksums(path)
		if (sums == nil) == (err == nil) {
			t.Fatalf("sums %v and error %v", sums, err)
		}
		for name, sum := range sums {
			if name == "" || name == "." || len(sum) != 32 {
				t.Errorf("%q has the sum %x", name, sum)
			}
		}
	})
}
