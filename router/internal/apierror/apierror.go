// Package apierror holds what errors of the OpenAI and the Anthropic API have
// in common: reading what an engine said in whatever shape, and the headers
// that tell a client whether and when to try again.
package apierror

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxMessageBytes bounds an error message that came from elsewhere.
const MaxMessageBytes = 4 << 10

// Shape is how an engine's error body is built. The zero Shape is unset.
type Shape uint8

const (
	ShapeText   Shape = iota + 1 // no JSON object; HTML included
	ShapeNested                  // {"error":{"message":…}}
	ShapeString                  // {"error":"…"}, with "error_type" from TGI and TEI
	ShapeFlat                    // {"message":…}, {"object":"error","message":…}
	ShapeDetail                  // {"detail":…}, of FastAPI
)

// Foreign is an error as an engine worded it.
type Foreign struct {
	Shape   Shape
	Message string // bounded, valid UTF-8; empty if none was found
	Type    string
	Code    string // symbolic or numeric
	Param   string

	// Strict is whether the error's fields have the types the OpenAI API
	// gives them: string message and type, string or null code and param.
	Strict bool
	// Root is the top-level "type", "error" in the Anthropic shape.
	Root string
}

// Read finds the error in the body of an answer with an error status.
func Read(contentType string, body []byte) Foreign {
	var doc map[string]json.RawMessage
	if json.Unmarshal(body, &doc) != nil {
		return Foreign{Shape: ShapeText, Message: plainText(contentType, body)}
	}
	root, _ := str(doc["type"])
	if inner, ok := doc["error"]; ok {
		var nested map[string]json.RawMessage
		if json.Unmarshal(inner, &nested) == nil && nested != nil {
			f := fields(nested)
			f.Shape, f.Root = ShapeNested, root
			return f
		}
		if message, ok := str(inner); ok {
			kind, _ := str(doc["error_type"])
			return Foreign{Shape: ShapeString, Message: Bound(message), Type: kind}
		}
	}
	if detail, ok := doc["detail"]; ok {
		return Foreign{Shape: ShapeDetail, Message: Bound(detailText(detail))}
	}
	f := fields(doc)
	f.Shape = ShapeFlat
	return f
}

func fields(doc map[string]json.RawMessage) Foreign {
	var f Foreign
	message, okMessage := str(doc["message"])
	if message == "" {
		message, _ = str(doc["msg"])
	}
	kind, okType := str(doc["type"])
	code, okCode := str(doc["code"])
	param, okParam := str(doc["param"])
	if !okCode && number(doc["code"]) {
		code = string(doc["code"])
	}
	if param == "None" {
		param, okParam = "", false
	}
	f.Message, f.Type, f.Code, f.Param = Bound(message), Bound(kind), Bound(code), Bound(param)
	f.Strict = okMessage && message != "" && okType &&
		(absent(doc["code"]) || okCode && !Numeric(code)) && (absent(doc["param"]) || okParam)
	return f
}

func absent(raw json.RawMessage) bool { return raw == nil || string(raw) == "null" }

func str(raw json.RawMessage) (string, bool) {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	return s, true
}

func number(raw json.RawMessage) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// Numeric is whether a code is a number in disguise, such as "429", or None
// from Python.
func Numeric(code string) bool {
	_, err := strconv.ParseFloat(code, 64)
	return err == nil || code == "None" || code == ""
}

// detailText reads FastAPI's "detail": a string, or a list of validation
// errors with their places.
func detailText(raw json.RawMessage) string {
	if s, ok := str(raw); ok {
		return s
	}
	var list []struct {
		Loc []any  `json:"loc"`
		Msg string `json:"msg"`
	}
	if json.Unmarshal(raw, &list) == nil {
		var lines []string
		for _, item := range list {
			var at []string
			for _, part := range item.Loc {
				switch part := part.(type) {
				case string:
					at = append(at, part)
				case float64:
					at = append(at, strconv.FormatFloat(part, 'f', -1, 64))
				}
			}
			line := item.Msg
			if len(at) > 0 {
				line = strings.Join(at, ".") + ": " + line
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "; ")
	}
	var nested map[string]json.RawMessage
	if json.Unmarshal(raw, &nested) == nil && nested != nil {
		if f := fields(nested); f.Message != "" {
			return f.Message
		}
		if s, ok := str(nested["error"]); ok {
			return s
		}
	}
	return string(raw)
}

// plainText is what a body that is no JSON object says: a JSON string, the
// title of an HTML page, or the text itself unless it is binary.
func plainText(contentType string, body []byte) string {
	body = bytes.TrimSpace(body)
	if s, ok := str(json.RawMessage(body)); ok {
		return Bound(s)
	}
	if bytes.HasPrefix(body, []byte("<")) || strings.Contains(contentType, "html") {
		return htmlTitle(body)
	}
	if bytes.HasPrefix(body, []byte("{")) || bytes.HasPrefix(body, []byte("[")) {
		return "" // JSON that was cut, or a list
	}
	head := body[:min(len(body), MaxMessageBytes)]
	for _, c := range head {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' {
			return ""
		}
	}
	return Bound(string(body[:min(len(body), 2*MaxMessageBytes)]))
}

func htmlTitle(body []byte) string {
	lower := bytes.ToLower(body[:min(len(body), 16<<10)])
	start := bytes.Index(lower, []byte("<title>"))
	if start < 0 {
		return ""
	}
	start += len("<title>")
	end := bytes.IndexByte(lower[start:], '<')
	if end < 0 || len(lower) > len(body) {
		return ""
	}
	return Bound(string(bytes.TrimSpace(body[start:min(start+end, len(body))])))
}

// Bound returns s as valid UTF-8 of at most MaxMessageBytes.
func Bound(s string) string { return Cut(strings.ToValidUTF8(s, "\uFFFD"), MaxMessageBytes) }

// Cut shortens s to at most n bytes on a rune's edge, and says so with "…".
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Hints are what a client's retry logic reads.
type Hints struct {
	RetryAfter time.Duration // 0: none
	NoRetry    bool          // the same request will fail again
	Allow      string        // methods, with status 405
}

// SetHeaders writes the headers of an error answer: content type, the request
// id under both names, and the hints. Retry-After is in whole seconds, rounded
// up; retry-after-ms is exact.
func SetHeaders(h http.Header, requestID string, hints Hints) {
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if requestID != "" {
		h.Set("X-Request-Id", requestID)
		h.Set("Request-Id", requestID)
	}
	if hints.Allow != "" {
		h.Set("Allow", hints.Allow)
	}
	switch {
	case hints.NoRetry:
		h.Set("X-Should-Retry", "false")
	case hints.RetryAfter > 0:
		h.Set("X-Should-Retry", "true")
		seconds := math.Ceil(hints.RetryAfter.Seconds())
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
		ms := (hints.RetryAfter + time.Millisecond - 1) / time.Millisecond
		h.Set("Retry-After-Ms", strconv.FormatInt(int64(ms), 10))
	}
}
