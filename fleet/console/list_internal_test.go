package console

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Whoever follows the links from the first page to the last sees each row that is
// looked for once, in order.
func TestListShowsEachRowOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.StringMatching(`[a-cA-C]{0,4}`), 0, 120).Draw(t, "items")
		rows := rapid.IntRange(1, 50).Draw(t, "rows")
		q := rapid.StringMatching(`[a-c ]{0,2}`).Draw(t, "q")
		var want []string
		for _, item := range items {
			if strings.Contains(strings.ToLower(item), strings.TrimSpace(q)) {
				want = append(want, item)
			}
		}
		var got []string
		path := "/admin/x?" + url.Values{"q": {q}, "k": {"a b&c"}}.Encode()
		for n := 0; path != ""; n++ {
			if n > len(items) {
				t.Fatal("the pages do not end")
			}
			r := httptest.NewRequest("GET", path, nil)
			l, page := asked(r, "rows", param{"k", r.URL.Query().Get("k")})
			shown := cut(&l, page, rows, items, func(b *strings.Builder, s string) { words(b, s) })
			if len(shown) > rows || l.All != len(items) || l.Found != len(want) || r.URL.Query().Get("k") != "a b&c" {
				t.Fatalf("%s: %d rows, %+v", path, len(shown), l)
			}
			if (l.Prev != "") != (n > 0) {
				t.Fatalf("page %d leads back to %q", n+1, l.Prev)
			}
			got = append(got, shown...)
			path = l.Next
		}
		if !slices.Equal(got, want) {
			t.Fatalf("shown %q; want %q", got, want)
		}
	})
}

// Whatever stands in an address, there is a page.
func FuzzAsked(f *testing.F) {
	f.Add("q=a&page=2")
	f.Add("page=99999999999999999999&q=%ff%00")
	f.Add("page=-1&q=" + strings.Repeat("x", 300))
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest("GET", "/admin/x", nil)
		r.URL.RawQuery = query
		l, page := asked(r, "rows")
		if len(l.Q) > maxFilter || page < 1 || page > maxPage {
			t.Fatalf("%q: page %d, %q", query, page, l.Q)
		}
		shown := cut(&l, page, 10, []int{1, 2, 3}, func(b *strings.Builder, n int) { words(b, fmt.Sprint(n)) })
		if len(shown) > 3 || l.From > l.To && l.Found > 0 {
			t.Fatalf("%q: %v, %+v", query, shown, l)
		}
		if u, err := url.Parse(l.Clear()); err != nil || u.Host != "" || u.Path != "/admin/x" {
			t.Fatalf("%q leads to %q", query, l.Clear())
		}
	})
}

// Each state has a shape of its own, with as many squares as there are cards, and says
// in words what it shows.
func TestCells(t *testing.T) {
	seen := map[string]card{}
	for c := range cardStates {
		look := c.class() + c.shape(0, 0)
		for other := range seen {
			if strings.TrimPrefix(other, seen[other].class()) == c.shape(0, 0) && (c != cardFree || seen[other] != cardTaken) {
				t.Errorf("%v looks as %v", c, seen[other]) // taken is a free one that is filled
			}
		}
		seen[look] = c
	}
	states := []card{cardTaken, cardTaken, cardFree, cardUnusable, cardOccupied, cardAway, cardUnknown, cardFree, cardTaken}
	if got, want := countStates(states), "3 taken, 2 free, 1 occupied, 1 away, 1 unusable, 1 not known"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	got := string(cells(states, 8, `"<8>"`))
	if strings.Count(got, "<path") != int(cardStates) || strings.Count(got, "M") != len(states) || !strings.Contains(got, `viewBox="0 0 80 20"`) || !strings.Contains(got, `aria-label="&#34;&lt;8&gt;&#34;"`) {
		t.Errorf("%s", got)
	}
	if cells(nil, 8, "") != "" {
		t.Error("no cards are drawn")
	}
	bar := string(classBar(&apipb.CardClass{Total: 1000, Taken: 990, Free: 10}))
	if strings.Count(bar, "M") != mostSquares || !strings.Contains(bar, "of 1000 cards 990 are taken, 10 free") {
		t.Errorf("%s", bar)
	}
	if got := squareOf(&apipb.CardClass{Total: 1000}); got != "a square is about 15.6 cards" {
		t.Error(got)
	}
	few := &apipb.CardClass{Total: 32, Taken: 12, Free: 17, Unusable: 2, Away: 1}
	bar = string(classBar(few))
	for class, want := range map[string]int{"taken": 12, "free": 17} {
		_, path, _ := strings.Cut(bar, `class="`+class+`" d="`)
		path, _, _ = strings.Cut(path, `"`)
		if n := strings.Count(path, "M"); n != want {
			t.Errorf("%d of %s; want %d: %s", n, class, want, path)
		}
	}
	if squareOf(few) != "" {
		t.Error("a card is no square")
	}
}

// What a node's cards are, and in which order that counts.
func TestStatesOf(t *testing.T) {
	node := func(change func(*apipb.Node)) *apipb.Node {
		n := &apipb.Node{State: apipb.NodeState_NODE_STATE_READY, Target: apipb.NodeTarget_NODE_TARGET_ACTIVE}
		n.Heard = timestamppb.New(time.Unix(1, 0))
		for i := range 4 {
			n.Gpus = append(n.Gpus, &apipb.NodeGPU{Id: fmt.Sprint(i), Usable: true, MemoryBytes: new(uint64(100)), MemoryUsedBytes: new(uint64(10))})
		}
		n.Gpus[1].MemoryUsedBytes = new(uint64(11))
		n.Gpus[2].Usable = false
		change(n)
		return n
	}
	taken := map[string]bool{"2": true, "3": true}
	for _, tt := range []struct {
		name   string
		change func(*apipb.Node)
		want   []card
	}{
		{"ready", func(*apipb.Node) {}, []card{cardFree, cardOccupied, cardUnusable, cardTaken}},
		{"cordoned", func(n *apipb.Node) { n.Target = apipb.NodeTarget_NODE_TARGET_CORDONED }, []card{cardAway, cardAway, cardUnusable, cardTaken}},
		{"silent", func(n *apipb.Node) { n.State = apipb.NodeState_NODE_STATE_UNREACHABLE }, []card{cardAway, cardAway, cardUnusable, cardTaken}},
		{"not heard", func(n *apipb.Node) { n.Heard = nil }, []card{cardUnknown, cardUnknown, cardUnknown, cardUnknown}},
		{"memory not known", func(n *apipb.Node) { n.Gpus[1].MemoryUsedBytes = nil }, []card{cardFree, cardFree, cardUnusable, cardTaken}},
		{"strangers", func(n *apipb.Node) { n.Gpus[0].Foreign = []*apipb.NodeGPUProcess{{}} }, []card{cardOccupied, cardOccupied, cardUnusable, cardTaken}},
	} {
		if got := statesOf(node(tt.change), taken); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v; want %v", tt.name, got, tt.want)
		}
	}
}

func TestPrices(t *testing.T) {
	for in, want := range map[string]string{
		"name: x\nprices:\n  - input: 1\n    output: 2\nprofile:\n  env:\n    A: secret\n":      "  - input: 1\n    output: 2",
		"- name: x\n  prices:\n  - input: 1\n    output: 2\n  profile:\n    env: {A: secret}\n": "- input: 1\n  output: 2",
		"prices:\n- input: 1": "- input: 1",
		"name: x\n":           "",
		"name: x\nprices: []\nprofile:\n  env:\n    A: s": "",
		"": "",
	} {
		if got := prices(in); got != want {
			t.Errorf("%q: %q; want %q", in, got, want)
		}
	}
}

// A course that is longer than a chart keeps its newest and its mean.
func TestThinned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1000).Draw(t, "n")
		course := make([]point, n)
		for i := range course {
			course[i] = point{time.Unix(int64(i), 0), rate{Requests: 7, Known: true}}
		}
		got := thinned(course)
		if len(got) > mostColumns || n > 0 && (len(got) == 0 || !got[len(got)-1].at.Equal(course[n-1].at)) {
			t.Fatalf("%d points of %d", len(got), n)
		}
		for _, p := range got {
			if p.Requests != 7 || !p.Known {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// A rate that is not known is left out, and is not zero.
func TestOverBoth(t *testing.T) {
	for _, tt := range []struct{ ten, minute, want string }{
		{"-", "-", "not known yet"},
		{"0", "0.10", "0 over\u00a010\u00a0s, 0.10 over\u00a01\u00a0min"},
		{"-", "2", "2 over\u00a01\u00a0min"},
	} {
		if got := overBoth(tt.ten, tt.minute); got != tt.want {
			t.Errorf("%q and %q: %q", tt.ten, tt.minute, got)
		}
	}
}
