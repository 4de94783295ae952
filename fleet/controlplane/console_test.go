package controlplane_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/html"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
	"github.com/llmgw/llmgw/fleet/console"
)

// shown is what a page says, and the pictures of cards on it in words.
func shown(t *testing.T, h http.Handler, path string) (text string, cards []string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	var said strings.Builder
	for z := html.NewTokenizer(w.Body); z.Next() != html.ErrorToken; {
		token := z.Token()
		if token.Type == html.TextToken {
			said.WriteString(token.Data + " ")
		}
		class, label := "", ""
		for _, a := range token.Attr {
			switch a.Key {
			case "class":
				class = a.Val
			case "aria-label":
				label = a.Val
			}
		}
		if class == "cells" && label != "" {
			cards = append(cards, label)
		}
	}
	return strings.Join(strings.Fields(said.String()), " "), cards
}

// The console shows a real control plane as llmgw ctl does, down to each card.
func TestConsole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, about, _ := settled(t)
		site, err := webui.New(webui.DefaultConfig(), webui.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := console.New(console.DefaultConfig(), console.Deps{Site: site, Nodes: p.Nodes(), Placement: about})
		if err != nil {
			t.Fatal(err)
		}
		h := c.Handler(webui.Open)
		status := ask(t, about.GetStatus, &apipb.GetStatusRequest{})

		overview, cards := shown(t, h, "/admin/")
		want := append(telling.Leads(status.GetStanding()), telling.NodeCounts(status.GetNodes()), telling.ReplicaCounts(status), telling.ModelCounts(status),
			"Whole free nodes 2", "Simulated 80GB 32 16 16 0 0 0 0%", "cp-1 (agent_listener): expires in")
		troubles := telling.StatusTroubles(status)
		for _, text := range append(append(want, troubles.Models...), troubles.SetAside...) {
			if !strings.Contains(overview, text) {
				t.Errorf("the overview does not say %q:\n%s", text, overview)
			}
		}
		if len(cards) == 0 || cards[0] != "of 32 cards 16 are taken, 16 free, 0 occupied, 0 away, 0 unusable" {
			t.Errorf("the overview's cards: %q", cards)
		}

		_, cards = shown(t, h, "/admin/nodes")
		taken, free := 0, 0
		for _, text := range cards {
			switch text {
			case "8 taken":
				taken++
			case "8 free":
				free++
			}
		}
		if taken != 2 || free != 2 {
			t.Errorf("the cards of the nodes: %q; want two nodes with all taken and two with all free", cards)
		}

		replica := p.Placing().View().Replicas[0]
		list := ask(t, about.ListReplicas, &apipb.ListReplicasRequest{}).GetReplicas()
		text, _ := shown(t, h, "/admin/replicas")
		for _, want := range []string{list[0].GetId() + " big ready", list[0].GetAddress(), "ready rank 0 on " + list[0].GetShards()[0].GetNode(), "ready rank 1 on " + list[0].GetShards()[1].GetNode()} {
			if !strings.Contains(text, want) {
				t.Errorf("the replicas' page does not say %q:\n%s", want, text)
			}
		}

		text, _ = shown(t, h, "/admin/model?name=huge")
		explained := ask(t, about.ExplainPlacement, &apipb.ExplainPlacementRequest{Model: "huge"})
		if len(explained.GetNext().GetRejected()) == 0 {
			t.Fatal("every node would do")
		}
		for _, n := range explained.GetNext().GetRejected() {
			for _, r := range n.GetReasons() {
				if !strings.Contains(text, r.GetKind()+" "+r.GetText()) || !strings.Contains(text, n.GetNode()) {
					t.Errorf("the page of huge does not say of %s: %s", n.GetNode(), r.GetText())
				}
			}
		}
		if !strings.Contains(text, explained.GetNext().GetWhy()) {
			t.Errorf("the page of huge does not say %q", explained.GetNext().GetWhy())
		}

		text, _ = shown(t, h, "/admin/node?id="+list[0].GetShards()[0].GetNode())
		for _, want := range []string{replica.Fabric + " confirmed", list[0].GetId() + " ready rank 0", "Simulated 80GB taken"} {
			if !strings.Contains(text, want) {
				t.Errorf("the node's page does not say %q:\n%s", want, text)
			}
		}
	})
}
