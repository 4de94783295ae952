package router

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// explainHeader asks for the decision and answers with it.
const explainHeader = "X-Llmgw-Explain"

// maxExplainBytes bounds the answer: some proxies take 4 KiB of headers in all.
const maxExplainBytes = 1024

// explain puts the decision that was made last into the answer's header, for a
// caller who asked for it and may know.
func (c *call) explain(h http.Header) {
	if c.out.Decision == nil || !c.mayExplain() {
		return
	}
	switch v := c.req.Header[explainHeader]; {
	case len(v) != 1, v[0] == "", v[0] == "0", strings.EqualFold(v[0], "false"):
		return
	}
	h[explainHeader] = []string{c.explanation()}
}

// mayExplain reports whether the caller may know how endpoints are chosen.
func (c *call) mayExplain() bool {
	if c.rt.deps.Caller != nil || !c.rt.cfg.ExplainToLoopback {
		return c.identity.MayExplain
	}
	host, _, err := net.SplitHostPort(c.req.RemoteAddr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// explanation is the decision in one line of printable ASCII: fields of the form
// name=value, a space between them.
func (c *call) explanation() string {
	d := &c.decision
	var b strings.Builder
	field := func(name, format string, args ...any) {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name)
		b.WriteByte('=')
		fmt.Fprintf(&b, format, args...)
	}
	field("model", "%s", d.Model)
	field("profile", "%s", d.Profile)
	if d.Band != "" {
		field("band", "%s", d.Band)
	}
	pick, next := d.Picked, -1
	for i := range d.Candidates {
		if i != pick && i < len(d.Scores) && (next < 0 || d.Scores[i] > d.Scores[next]) {
			next = i
		}
	}
	if pick < 0 {
		field("pick", "none")
	} else {
		e := &d.Candidates[pick]
		field("pick", "%s", e.Endpoint.ID())
		field("score", "%.3f", d.Scores[pick])
		field("votes", "")
		for i, w := range d.Scorers() {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "%s:%.2f*%g", w.Scorer.Name(), d.Vote(i, pick), w.Weight)
		}
		if next >= 0 {
			field("next", "%s:%.3f", d.Candidates[next].Endpoint.ID(), d.Scores[next])
		}
		if m := e.Prefix; m.PromptBytes > 0 {
			field("prefix", "%d/%d", m.Bytes, m.PromptBytes)
		}
	}
	field("pool", "%d", d.Pool)
	if d.Sampled {
		field("looked", "%d", d.Considered())
	}
	field("attempt", "%d", c.out.Attempts)
	for i, drop := range d.Dropped {
		if i == 0 {
			field("dropped", "")
		} else {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s:%s", drop.Endpoint.ID(), drop.Filter)
		if b.Len() > maxExplainBytes {
			break // it is cut below; a pool may have a thousand
		}
	}
	return headerText(b.String())
}

// headerText is s as a header can carry it: printable ASCII of a bounded length.
func headerText(s string) string {
	const more = "..."
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	if len(s) > maxExplainBytes {
		s = s[:maxExplainBytes-len(more)] + more
	}
	return s
}
