package router

import (
	"math"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/llmgw/llmgw/router/openai"
)

// shape is the API whose errors and models a path speaks.
type shape uint8

const (
	shapeOpenAI shape = iota
	shapeAnthropic
)

// route is what a path means.
type route struct {
	kind    routeKind
	shape   shape
	dialect openai.Dialect
	// label is the path as metrics and records show it: of a bounded set.
	label string
	// path is where an engine has it.
	path string
	// form: the body may be multipart/form-data.
	form bool
	// open: streams need not end with an event that says so.
	open bool
	// stores: the engine may keep the answer, for later requests to refer to.
	stores bool
	// response is the ID in the path of a stored response.
	response string
	// usage: streams take stream_options, so usage can be asked for.
	usage bool
	// work is what is computed.
	work Work
	// prompt: an engine reads a prompt and continues it, so that what it has read
	// before is of use.
	prompt bool
	// pairs: a model may read pairs of texts, one of which stands in the body once.
	pairs bool
}

// promptBytes is how many bytes of prompt a model reads for the request.
func (rt *route) promptBytes(p *openai.Peek) int {
	n := p.PromptSpan.Len()
	if rt.pairs {
		n = max(n, int(min(p.PairBytes(), math.MaxInt)))
	}
	return n
}

type routeKind uint8

const (
	routeNone      routeKind = iota
	routeInference           // POST, JSON with a model
	routeModels              // GET, the list
	routeModel               // GET, one model
	routeStored              // what concerns one stored response
)

// otherLabel is how the paths without a name of their own are shown.
const otherLabel = "other"

// twice is what a client asks for that adds /v1 to a base URL which has it.
const twice = "/v1/v1/"

// azure reports whether clients for Azure made the path: below /openai, or, where they
// were given a base URL, with a deployment in place of a model.
func azure(p string) bool {
	return strings.HasPrefix(p, "/openai/") || strings.HasPrefix(p, "/v1/deployments/") || strings.HasPrefix(p, "/deployments/")
}

// inferencePaths are the paths with a name of their own. Every other POST below
// /v1/ that carries a model goes to an engine, too, and is shown as "other".
var inferencePaths = map[string]route{ //nolint:gochecknoglobals // constant table
	"/v1/chat/completions":      {usage: true, prompt: true},
	"/v1/completions":           {usage: true, prompt: true},
	"/v1/embeddings":            {work: WorkRead},
	rerank:                      {work: WorkRead, pairs: true},
	"/v1/score":                 {work: WorkRead, pairs: true},
	"/v1/responses":             {dialect: openai.DialectResponses, stores: true, prompt: true},
	responsesTokens:             {dialect: openai.DialectResponses, open: true, work: WorkNone},
	responsesCompact:            {dialect: openai.DialectResponses, open: true},
	"/v1/audio/speech":          {dialect: openai.DialectMedia, open: true},
	"/v1/audio/transcriptions":  {dialect: openai.DialectMedia, open: true, form: true},
	"/v1/audio/translations":    {dialect: openai.DialectMedia, open: true, form: true},
	"/v1/images/generations":    {dialect: openai.DialectMedia, open: true},
	"/v1/images/edits":          {dialect: openai.DialectMedia, open: true, form: true},
	"/v1/images/variations":     {dialect: openai.DialectMedia, open: true, form: true},
	"/v1/messages":              {dialect: openai.DialectMessages, shape: shapeAnthropic, prompt: true},
	"/v1/messages/count_tokens": {dialect: openai.DialectMessages, shape: shapeAnthropic, work: WorkNone},
	"/tokenize":                 {work: WorkNone},
}

// rerank is where most engines rank texts. Cohere's clients ask for it under the
// second version of its API, which has the same bodies and which vLLM alone serves.
const (
	rerank   = "/v1/rerank"
	rerankV2 = "/v2/rerank"
)

// What takes a model below /v1/responses/. All else there speaks of one response.
const (
	responsesTokens  = "/v1/responses/input_tokens"
	responsesCompact = "/v1/responses/compact"
)

// keptPaths begin the paths of what a server keeps for its callers. An engine
// does not know callers apart, and who may have what is known here of responses
// only.
var keptPaths = []string{ //nolint:gochecknoglobals // constant table
	"/v1/responses", "/v1/conversations", "/v1/threads", "/v1/assistants",
	"/v1/files", "/v1/uploads", "/v1/batches", "/v1/vector_stores", "/v1/containers",
}

// kept reports whether a path in lower case, some servers' own rule, is of those.
func kept(lower string) bool {
	return slices.ContainsFunc(keptPaths, func(p string) bool {
		rest, ok := strings.CutPrefix(lower, p)
		return ok && (rest == "" || rest[0] == '/')
	})
}

// adminPaths change an engine or look into it. vLLM and SGLang have them below
// /v1 or close to it; they are no business of a client, model or not.
var adminPaths = map[string]bool{ //nolint:gochecknoglobals // constant table
	"/v1/load_lora_adapter":   true,
	"/v1/unload_lora_adapter": true,
	"/v1/loads":               true,
}

// lookup says what the path of u means.
func lookup(r *http.Request) route {
	p := r.URL.Path
	if r.URL.RawPath == "" {
		if p == rerankV2 {
			p = rerank
		}
		rt, ok := inferencePaths[p]
		if !ok && !strings.HasPrefix(p, "/v1/") {
			// Half of the clients are given a base URL without /v1.
			if rt, ok = inferencePaths["/v1"+p]; ok || p == "/models" || strings.HasPrefix(p, "/models/") || strings.HasPrefix(p, "/responses/") {
				p = "/v1" + p
			}
		}
		if ok {
			rt.kind, rt.label, rt.path = routeInference, p, p
			if rt.dialect == 0 {
				rt.dialect = openai.DialectChat
			}
			if rt.work == WorkUnset {
				rt.work = WorkAnswer
			}
			return rt
		}
	} else if strings.HasPrefix(p, "/models/") {
		p = "/v1" + p
	}
	sh := shapeOpenAI
	if strings.HasPrefix(p, "/v1/messages") || anthropicClient(r.Header) {
		sh = shapeAnthropic
	}
	if id, label, ok := stored(r.Method, p); ok && plain(r.URL.EscapedPath(), r.URL.Path) {
		return route{kind: routeStored, label: label, path: p, shape: sh, dialect: openai.DialectResponses, open: true, work: WorkNone, response: id}
	}
	switch {
	case p == "/v1/models" && r.URL.RawPath == "":
		return route{kind: routeModels, label: p, shape: sh, work: WorkNone}
	case strings.HasPrefix(p, "/v1/models/"):
		return route{kind: routeModel, label: "/v1/models/{model}", shape: sh, work: WorkNone}
	case strings.HasPrefix(p, "/v1/") && !strings.HasPrefix(p, twice) && !azure(p) && plain(r.URL.EscapedPath(), p):
		if lower := strings.ToLower(p); adminPaths[lower] || kept(lower) {
			break
		}
		return route{kind: routeInference, label: otherLabel, path: p, shape: sh, dialect: openai.DialectChat, open: true, work: WorkAnswer, pairs: true}
	}
	return route{kind: routeNone, label: otherLabel, shape: sh, work: WorkNone}
}

// maxResponseID is how long the ID of a response may be. Engines make some of a
// request's ID, of which 128 bytes may be the client's.
const maxResponseID = 256

// stored reads the path of a stored response.
func stored(method, p string) (id, label string, ok bool) {
	rest, ok := strings.CutPrefix(p, "/v1/responses/")
	if !ok {
		return "", "", false
	}
	id, action, _ := strings.Cut(rest, "/")
	if !plainName(id, maxResponseID) || id == "." || id == ".." {
		return "", "", false
	}
	switch label = "/v1/responses/{id}"; {
	case action == "" && id == rest && (method == http.MethodGet || method == http.MethodDelete),
		action == "input_items" && method == http.MethodGet,
		action == "cancel" && method == http.MethodPost:
		if action != "" {
			label += "/" + action
		}
		return id, label, true
	}
	return "", "", false
}

// plain reports whether a path means the same to every server that reads it: no
// dot segments, empty segments, escapes or parameters.
func plain(escaped, p string) bool {
	return escaped == p && path.Clean(p) == p && !strings.Contains(p, ";")
}

// anthropicClient reports whether an Anthropic SDK sent the request: they always
// name a version, and OpenAI's never do.
func anthropicClient(h http.Header) bool { return h["Anthropic-Version"] != nil }
