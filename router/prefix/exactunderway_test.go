package prefix_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/llmgw/llmgw/router/prefix"
)

func chainOf(text string) *prefix.Chain {
	var c prefix.Chain
	c.Reset(prefix.Root("m"))
	_, _ = c.WriteString(text)
	return &c
}

// instances returns IDs as an index gives them out.
func instances(t testing.TB, n int) []prefix.ID {
	t.Helper()
	x, err := prefix.NewExact(prefix.DefaultExactConfig(), prefix.Deps{})
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]prefix.ID, n)
	for i := range ids {
		if ids[i], err = x.Add(1); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// A prompt counts from its begin until it has ended and lingered, as far as another
// begins alike; what failed counts no more.
func TestUnderway(t *testing.T) {
	const linger = time.Second
	ids := instances(t, 2)
	u := prefix.NewUnderway(1000, linger)
	now := time.Unix(1_800_000_000, 0)
	long := strings.Repeat("some words of a prompt that is long enough. ", 300)
	one, two := chainOf(long+" and one end"), chainOf(long[:6000]+" and another end"+long)
	var r prefix.Result
	held := func(id prefix.ID, c *prefix.Chain) int {
		u.Lookup(now, c, &r)
		m, _ := r.Of(id)
		return m.Bytes
	}
	check := func(what string, got, least, most int) {
		t.Helper()
		if got < least || got > most {
			t.Errorf("%s: %d bytes; want %d to %d", what, got, least, most)
		}
	}
	check("nothing", held(ids[0], one), 0, 0)
	u.Begin(now, ids[0], one)
	check("the same", held(ids[0], one), len(long)-1024, len(long)+12)
	check("one that begins alike", held(ids[0], two), 6000-1024, 6000)
	check("another endpoint", held(ids[1], one), 0, 0)
	u.Begin(now, ids[1], two)
	u.Begin(now, ids[0], one)
	if u.Lookup(now, one, &r); len(r.Matches) != 2 || r.Matches[0].ID != ids[0] || r.Matches[0].Bytes <= r.Matches[1].Bytes {
		t.Errorf("%+v", r.Matches)
	}
	u.End(now, ids[0], one, false)
	check("one of two failed", held(ids[0], one), len(long)-1024, len(long)+12)
	now = now.Add(time.Minute)
	check("a minute later", held(ids[0], one), len(long)-1024, len(long)+12)
	u.End(now, ids[0], one, true)
	u.End(now, ids[1], two, false)
	check("failed", held(ids[1], two), 0, 0)
	now = now.Add(linger - 1)
	check("just ended", held(ids[0], one), len(long)-1024, len(long)+12)
	now = now.Add(1)
	check("ended", held(ids[0], one), 0, 0)
	u.Begin(now, ids[0], chainOf(long))
	now = now.Add(time.Hour)
	check("whose end was never told", held(ids[0], one), 0, 0)
}

// Against a list of all that was begun: never more than is underway, never less than
// a step of it; and nothing is left once all have ended and lingered.
func TestUnderwayAgainstAll(t *testing.T) {
	ids := instances(t, 3)
	texts := make([]string, 6)
	for i := range texts {
		texts[i] = strings.Repeat("x", 700*(i/2)) + strings.Repeat(fmt.Sprint(i), 900*(i+1))
	}
	rapid.Check(t, func(t *rapid.T) {
		u := prefix.NewUnderway(1<<16, time.Second)
		now := time.Unix(1_800_000_000, 0)
		type run struct {
			id    prefix.ID
			text  string
			until time.Time // zero: not ended
		}
		var runs []run
		text := rapid.SampledFrom(texts)
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				r := run{id: rapid.SampledFrom(ids).Draw(t, "id"), text: text.Draw(t, "text")}
				runs = append(runs, r)
				u.Begin(now, r.id, chainOf(r.text))
			},
			"end": func(t *rapid.T) {
				var open []int
				for i := range runs {
					if runs[i].until.IsZero() {
						open = append(open, i)
					}
				}
				if len(open) == 0 {
					t.Skip("none")
				}
				i := rapid.SampledFrom(open).Draw(t, "which")
				runs[i].until = now.Add(time.Second)
				u.End(now, runs[i].id, chainOf(runs[i].text), true)
			},
			"pass": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 1500).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) {
				asked := text.Draw(t, "asked")
				var r prefix.Result
				u.Lookup(now, chainOf(asked), &r)
				for _, id := range ids {
					want := 0
					for _, x := range runs {
						if x.id == id && (x.until.IsZero() || x.until.After(now)) {
							n := 0
							for n < min(len(x.text), len(asked)) && x.text[n] == asked[n] {
								n++
							}
							want = max(want, n)
						}
					}
					m, _ := r.Of(id)
					step := 256
					if want >= 4096 {
						step = 1024
					}
					if m.Bytes > want || m.Bytes <= want-step {
						t.Fatalf("%d bytes are known of %d", m.Bytes, want)
					}
				}
			},
		})
		for i := range runs {
			if runs[i].until.IsZero() {
				u.End(now, runs[i].id, chainOf(runs[i].text), true)
			}
		}
		now = now.Add(2 * time.Second)
		u.End(now, ids[0], chainOf(""), true)
		if n, lost := u.Stats(); n != 0 || lost != 0 {
			t.Fatalf("%d beginnings are left, %d were lost", n, lost)
		}
	})
}

// What there is no room for is not known, and counted; and its end does no harm.
func TestUnderwayIsBounded(t *testing.T) {
	ids := instances(t, 1)
	u := prefix.NewUnderway(10, time.Second)
	now := time.Unix(1_800_000_000, 0)
	for i := range 5 {
		u.Begin(now, ids[0], chainOf(strings.Repeat(fmt.Sprint(i), 1024)))
	}
	if n, lost := u.Stats(); n != 10 || lost != 10 {
		t.Errorf("%d are known, %d lost", n, lost)
	}
	for i := range 5 {
		u.End(now, ids[0], chainOf(strings.Repeat(fmt.Sprint(i), 1024)), true)
	}
	u.End(now.Add(time.Second), ids[0], chainOf(""), true)
	if n, _ := u.Stats(); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func BenchmarkUnderway(b *testing.B) {
	ids := instances(b, 1)
	u := prefix.NewUnderway(1<<17, time.Second)
	now := time.Unix(1_800_000_000, 0)
	c := chainOf(strings.Repeat("some words of a prompt that is long enough. ", 745)) // 32 KB
	var r prefix.Result
	b.ReportAllocs()
	for b.Loop() {
		u.Lookup(now, c, &r)
		u.Begin(now, ids[0], c)
		u.End(now, ids[0], c, true)
		now = now.Add(10 * time.Millisecond)
	}
}
