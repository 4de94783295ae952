package placement_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/llmgw/llmgw/placement"
)

// The pages have every kind of reason and every criterion, in their order.
func TestPagesAreComplete(t *testing.T) {
	var kinds, criteria []string
	for _, k := range placement.Kinds() {
		kinds = append(kinds, k.String())
	}
	for _, c := range placement.Criteria() {
		criteria = append(criteria, c.String())
	}
	for _, tt := range []struct {
		page, rows string
		want       []string
	}{
		{"reference", "(?m)^\\| `([a-z-]+)` \\|", kinds},
		{"explanation", "(?m)^\\| \\d+ \\| ([a-z ]+) \\|", criteria},
	} {
		page, err := os.ReadFile("../docs/" + tt.page + "/placement.md")
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, row := range regexp.MustCompile(tt.rows).FindAllStringSubmatch(string(page), -1) {
			got = append(got, row[1])
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("docs/%s/placement.md differs (-code +page):\n%s", tt.page, diff)
		}
	}
}
