package webui

// Field is a labelled input of a form, for the templates "field" and "choice".
type Field struct {
	// Name is the form's and, after "f-", the element's ID: unique on its page.
	Name  string
	Label string
	// Type is as HTML has it; empty is text.
	Type  string
	Value string
	// Help stands under the label and is read out with it.
	Help string
	// Error says what is wrong with the value; empty: nothing.
	Error string
	// Autocomplete is as HTML has it; empty is off.
	Autocomplete string
	Required     bool
	// Min and Max are numbers of characters; 0 is none.
	Min, Max int
	// Focus puts the cursor here when the page opens. One field of a page.
	Focus bool
	// Options are those of a choice.
	Options []Option
}

// Option is one of a choice.
type Option struct {
	Value, Label string
}

// ID returns the element's ID.
func (f Field) ID() string { return "f-" + f.Name }
