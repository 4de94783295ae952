package engines

import "strconv"

// Args builds a command line. Each method leaves the flag out where its value
// is the zero value, which in a [Profile] means that the engine chooses.
type Args []string

// Add appends words as they are.
func (a *Args) Add(words ...string) { *a = append(*a, words...) }

// Text appends flag and value.
func (a *Args) Text(flag, value string) {
	if value != "" {
		a.Add(flag, value)
	}
}

// Number appends flag and value in decimal.
func (a *Args) Number(flag string, value int) {
	if value != 0 {
		a.Add(flag, strconv.Itoa(value))
	}
}

// Ratio appends flag and value with as many digits as it needs.
func (a *Args) Ratio(flag string, value float64) {
	if value != 0 {
		a.Add(flag, strconv.FormatFloat(value, 'f', -1, 64))
	}
}

// Switch appends flag alone.
func (a *Args) Switch(flag string, on bool) {
	if on {
		a.Add(flag)
	}
}
