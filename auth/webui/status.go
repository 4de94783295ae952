package webui

import "html/template"

// Kind is how good a state is. The zero value is none.
type Kind uint8

// The kinds. Each has a shape of its own, so that nobody needs to tell colours
// apart; the text says the rest.
const (
	Good Kind = iota + 1 // a full circle
	Busy                 // a half circle: on the way to another state
	Idle                 // a ring: nothing to do, or switched off
	Warn                 // a triangle: works, and somebody should look
	Bad                  // a cross in a square: does not work
)

// Status is a state as a mark and a word.
type Status struct {
	Kind Kind
	Text string
}

// HTML returns the status for a template. A kind that is none has no mark.
func (st Status) HTML() template.HTML {
	class, shape := "", ""
	switch st.Kind {
	case Good:
		class, shape = "good", `<circle cx="6" cy="6" r="5" fill="currentColor"/>`
	case Busy:
		class, shape = "busy", `<circle cx="6" cy="6" r="4.5" fill="none" stroke="currentColor"/><path d="M6 1.5a4.5 4.5 0 0 1 0 9z" fill="currentColor"/>`
	case Idle:
		class, shape = "idle", `<circle cx="6" cy="6" r="4.25" fill="none" stroke="currentColor" stroke-width="1.5"/>`
	case Warn:
		class, shape = "warn", `<path d="M6 1 11.5 11H.5z" fill="currentColor"/>`
	case Bad:
		class, shape = "bad", `<rect x="1" y="1" width="10" height="10" rx="2" fill="currentColor"/><path d="m4 4 4 4m0-4-4 4" class="hole"/>`
	default:
		return template.HTML(template.HTMLEscapeString(st.Text))
	}
	return template.HTML(`<span class="status ` + class + `"><svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true" focusable="false">` + shape + `</svg>` +
		template.HTMLEscapeString(st.Text) + `</span>`) // all else is ours
}
