package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/placement/catalog"
)

// A batch of texts, each of which a context may hold, is reserved as a whole: the
// context of one is no bound for all.
func TestBudgetOfABatch(t *testing.T) {
	e := newRaw(t, good)
	cfg := config(at("e", e.url))
	m := priced("m")
	m.ContextTokens = 100
	cfg.Models = []catalog.Model{m}
	g := newGoverned(t, cfg, nil)
	body := fmt.Sprintf(`{"model":"m","input":["%s"]}`, strings.Repeat(strings.Repeat("w ", 50)+`","`, 20))
	_, poor := g.key(auth.Spec{Budget: auth.FormatAmount(int64(len(body))*1000-1) + "/day"})
	_, rich := g.key(auth.Spec{Budget: auth.FormatAmount(int64(len(body))*1000) + "/day"})
	for _, path := range []string{"/v1/embeddings", "/v1/rerank", "/v1/score"} {
		if a := g.do("POST", path, body, bearer(poor)...); a.status != 429 || a.code() != "insufficient_quota" {
			t.Errorf("%s: %d bytes against a budget for one less: %d %s", path, len(body), a.status, a.body)
		}
	}
	if a := g.do("POST", "/v1/embeddings", body, bearer(rich)...); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
}
