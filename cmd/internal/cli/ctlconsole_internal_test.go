package cli

import (
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/console"
)

// The console says each sentence that ctl says of the same answer.
func TestConsoleSaysWhatCtlSays(t *testing.T) {
	site, err := webui.New(webui.DefaultConfig(), webui.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	fake := &fakePlacement{}
	c, err := console.New(console.DefaultConfig(), console.Deps{Site: site, Placement: fake})
	if err != nil {
		t.Fatal(err)
	}
	pages := c.Handler(webui.Open)
	tag := regexp.MustCompile(`<[^>]*>`)
	for _, tt := range []struct {
		command []string
		path    string
	}{
		{[]string{"status"}, "/admin/"}, {[]string{"models"}, "/admin/models"}, {[]string{"explain-placement", "big"}, "/admin/model?name=big"},
	} {
		code, out, errs := placed(t, fake, tt.command...)
		if code != 0 {
			t.Fatalf("ctl %v: %d %s", tt.command, code, errs)
		}
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil))
		page := strings.Join(strings.Fields(html.UnescapeString(tag.ReplaceAllString(w.Body.String(), " "))), " ")
		said := 0
		for line := range strings.Lines(out) {
			line = strings.TrimSpace(line)
			// Rows of tables, which a page has in columns of its own, are held together by
			// runs of spaces; the rest are sentences.
			if line == "" || strings.Contains(line, "  ") {
				continue
			}
			// What a sentence is about may be a heading there.
			if _, after, found := strings.Cut(line, ": "); found && !strings.Contains(page, line) {
				line = after
			}
			if strings.HasPrefix(line, "A model of several nodes") || strings.HasPrefix(line, "certificate ") { // the one explains a table, the other is a mark with a sentence
				continue
			}
			line, low := strings.ToLower(line), strings.ToLower(page)
			if said++; !strings.Contains(low, line) && !strings.Contains(low, strings.Replace(line, " is ", " ", 1)) { // "big-a is ready" is a name and a mark there
				t.Errorf("ctl %s says %q, and %s does not:\n%s", strings.Join(tt.command, " "), line, tt.path, page)
			}
		}
		if said < 3 {
			t.Errorf("ctl %v says %d sentences, which shows nothing", tt.command, said)
		}
	}
}
