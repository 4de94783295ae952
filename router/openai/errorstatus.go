package openai

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/llmgw/llmgw/router/internal/apierror"
)

// ErrorStatus is the HTTP status that the error means which data, the data of an
// error event, tells of: the one that it names as its code, else the one that
// goes with its type or symbolic code. It is between 400 and 599, and 500 for
// what says neither.
//
// An engine that has begun a stream can only use its words for what another one
// says with a status; SGLang and TGI begin every stream with 200.
func ErrorStatus(data []byte) int {
	f := apierror.Read("application/json", data)
	if n, err := strconv.Atoi(f.Code); err == nil && n >= 400 && n <= 599 {
		return n
	}
	for _, word := range [...]string{f.Code, f.Type} {
		if status := statusOfWord(word); status != 0 {
			return status
		}
	}
	return http.StatusInternalServerError
}

// statusWords are pieces of error types and codes, of the OpenAI and Anthropic
// APIs and of vLLM, SGLang, llama.cpp, TGI and Ollama. The first found decides.
var statusWords = [...]struct { //nolint:gochecknoglobals // constant table
	piece  string
	status int
}{
	{"ratelimit", http.StatusTooManyRequests},
	{"toomanyrequests", http.StatusTooManyRequests},
	{"insufficientquota", http.StatusTooManyRequests},
	{"overloaded", http.StatusServiceUnavailable},
	{"unavailable", http.StatusServiceUnavailable},
	{"timeout", http.StatusGatewayTimeout},
	{"contextlength", http.StatusBadRequest},
	{"contextsize", http.StatusBadRequest},
	{"contextwindow", http.StatusBadRequest},
	{"notfound", http.StatusNotFound},
	{"authentication", http.StatusUnauthorized},
	{"invalidapikey", http.StatusUnauthorized},
	{"permission", http.StatusForbidden},
	{"toolarge", http.StatusRequestEntityTooLarge},
	{"unprocessable", http.StatusUnprocessableEntity},
	{"notsupported", http.StatusNotImplemented},
	{"notimplemented", http.StatusNotImplemented},
	{"badrequest", http.StatusBadRequest},
	{"validation", http.StatusBadRequest},
	{"invalid", http.StatusBadRequest}, // invalid_request_error, invalid_prompt, …
}

// statusOfWord is the status that a type or symbolic code means, 0 if none is
// known.
func statusOfWord(word string) int {
	word = strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(word))
	for _, w := range statusWords {
		if strings.Contains(word, w.piece) {
			return w.status
		}
	}
	return 0
}
