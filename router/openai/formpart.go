package openai

import (
	"mime"
	"strings"
	"unicode/utf8"
)

// formPart is what the header of a part says.
type formPart struct {
	name  string
	file  bool // it has a file name
	plain bool // its value is text as it stands there
}

// namesModel is whether some server takes the part for the model: without
// regard to case, to space around it, or to the brackets of a list.
func (p *formPart) namesModel() bool {
	return strings.EqualFold(strings.TrimSuffix(strings.TrimSpace(p.name), "[]"), "model")
}

// readPart reads the header of a part, without the blank line at its end. why is
// empty, or what is wrong with it, in words without any of its bytes.
func readPart(block []byte) (p formPart, why string) {
	if !headerText(block) {
		return p, "the header of a part holds a bare line end or a control character"
	}
	p.plain = true
	disposition, dispositions := "", 0
	for line := range strings.SplitSeq(string(block), "\r\n") {
		key, value, ok := strings.Cut(line, ":")
		if !ok || !token(key) {
			return p, "the header of a part has a line without a name"
		}
		value = strings.Trim(value, " \t")
		key = strings.ToLower(key)
		if key != "content-disposition" && !utf8.ValidString(value) {
			return p, "the header of a part is not UTF-8"
		}
		switch key {
		case "content-disposition":
			disposition = value
			dispositions++
		case "content-transfer-encoding":
			switch strings.ToLower(value) {
			case "binary", "7bit", "8bit":
			default:
				return p, "a part has a Content-Transfer-Encoding; send its bytes as they are"
			}
		case "content-type":
			p.plain = p.plain && plainType(value)
		}
	}
	if dispositions != 1 {
		return p, "the header of a part has no Content-Disposition, or two"
	}
	var ok bool
	if p.name, p.file, ok = readDisposition(disposition); !ok {
		return p, `the Content-Disposition of a part is not form-data with a name, or it holds \" or is of an unknown form`
	}
	return p, ""
}

// headerText is whether b is lines of text that end in CRLF, none of them
// folded.
func headerText(b []byte) bool {
	for i, c := range b {
		switch {
		case c == '\r':
			if i+1 >= len(b) || b[i+1] != '\n' {
				return false
			}
		case c == '\n':
			if i == 0 || b[i-1] != '\r' || i+1 < len(b) && (b[i+1] == ' ' || b[i+1] == '\t') {
				return false
			}
		case c < ' ' && c != '\t' || c == 0x7f:
			return false
		}
	}
	return len(b) > 0 && b[0] != ' ' && b[0] != '\t'
}

// plainType is whether a value of that content type is text in UTF-8.
func plainType(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "text/plain" {
		return false
	}
	charset := params["charset"]
	return charset == "" || strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "us-ascii")
}

// token is whether s is a token of RFC 9110.
func token(s string) bool {
	for _, c := range []byte(s) {
		if !alphanumeric(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// readDisposition reads a Content-Disposition by the grammar that all servers
// share, and makes sure that package mime reads it alike.
func readDisposition(v string) (name string, file, ok bool) {
	kind, rest, _ := strings.Cut(v, ";")
	if !strings.EqualFold(strings.Trim(kind, " \t"), "form-data") {
		return "", false, false
	}
	seen := map[string]bool{}
	for rest = strings.TrimLeft(rest, " \t"); rest != ""; {
		key, text, cut := strings.Cut(rest, "=")
		key = strings.ToLower(key)
		if !cut || !token(key) || seen[key] || strings.Contains(key, "*") && key != "filename*" {
			return "", false, false
		}
		seen[key] = true
		value, after, fine := dispositionValue(text)
		if !fine && key == "filename" && name != "" {
			value, fine = lastValue(text)
			after = ""
		}
		if !fine || key != "filename" && !utf8.ValidString(value) {
			return "", false, false
		}
		switch key {
		case "name":
			if name = value; name == "" || strings.Contains(name, `\`) {
				return "", false, false
			}
		case "filename", "filename*":
			file = true
		}
		if after = strings.TrimLeft(after, " \t"); after != "" {
			if after[0] != ';' {
				return "", false, false
			}
			after = strings.TrimLeft(after[1:], " \t")
		}
		rest = after
	}
	_, params, err := mime.ParseMediaType(v)
	return name, file, err == nil && name != "" && params["name"] == name
}

// dispositionValue takes a token or a quoted string off the front of s. A
// backslash in a quoted string may stand for itself (Windows sends paths so),
// but not before a quote: half of the servers take that for the string's end.
func dispositionValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexAny(s, "; \t")
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], token(s[:end])
	}
	end := strings.IndexByte(s[1:], '"')
	if end < 0 || strings.HasSuffix(s[1:1+end], `\`) {
		return "", "", false
	}
	return s[1 : 1+end], s[2+end:], true
}

// lastValue takes a quoted string with quotes in it, each behind a backslash, as
// curl wrote them before version 7.81. Where a server takes the first of them
// for the string's end what follows it must say nothing: the string is the last
// thing in its header, and what a parameter is made with is not in it.
func lastValue(s string) (value string, ok bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", false
	}
	value = s[1 : len(s)-1]
	for i := range len(value) {
		switch value[i] {
		case '"':
			if i == 0 || value[i-1] != '\\' {
				return "", false
			}
		case '\\':
			if i+1 == len(value) || value[i+1] == '\\' {
				return "", false // does it stand for itself, or for the next one?
			}
		case ';', '=':
			return "", false
		}
	}
	return value, true
}
