package provider

import (
	"net/http"
	"slices"
)

// Auth is how a credential is sent. The zero value is as AuthBearer.
type Auth uint8

// The ways.
const (
	AuthBearer  Auth = iota + 1 // Authorization: Bearer …
	AuthXAPIKey                 // x-api-key: …, as Anthropic has it
)

// Vendor is an entry of the cloud catalogue: how a vendor's API is asked.
type Vendor struct {
	// Name is what a provider of it is called by default, and what stores keep.
	Name string
	// Title is what the vendor calls itself.
	Title string
	// BaseURL is as ParseBaseURL writes it. GET of it + ModelsPath lists the models.
	BaseURL    string
	ModelsPath string
	Auth       Auth
	// Headers go with every request.
	Headers []Header
	// Source is the page of the vendor's documentation that says so.
	Source string
}

// Header is a header and its value.
type Header struct{ Name, Value string }

// Catalogue returns the vendors that are known, by name.
func Catalogue() []Vendor { return slices.Clone(catalogue) }

// VendorNamed returns the entry of that name.
func VendorNamed(name string) (Vendor, bool) {
	i, ok := slices.BinarySearchFunc(catalogue, name, func(v Vendor, name string) int {
		switch {
		case v.Name < name:
			return -1
		case v.Name > name:
			return 1
		}
		return 0
	})
	if !ok {
		return Vendor{}, false
	}
	return catalogue[i], true
}

// Facts of vendors, each from its Source. By name.
//
//nolint:gochecknoglobals // a constant table
var catalogue = []Vendor{
	{
		// The list is paged: 1000 is the longest page.
		Name: "anthropic", Title: "Anthropic", BaseURL: "https://api.anthropic.com/v1", ModelsPath: "/models?limit=1000", Auth: AuthXAPIKey,
		Headers: []Header{{"anthropic-version", "2023-06-01"}}, Source: "https://docs.anthropic.com/en/api/models-list",
	},
	{
		Name: "cerebras", Title: "Cerebras", BaseURL: "https://api.cerebras.ai/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://inference-docs.cerebras.ai/api-reference/models",
	},
	{
		// The documentation has no /v1; it says that one may be put there, as OpenAI's
		// clients do.
		Name: "deepseek", Title: "DeepSeek", BaseURL: "https://api.deepseek.com/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://api-docs.deepseek.com/api/list-models",
	},
	{
		Name: "fireworks", Title: "Fireworks AI", BaseURL: "https://api.fireworks.ai/inference/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
	},
	{
		Name: "google", Title: "Google Gemini", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://ai.google.dev/gemini-api/docs/openai",
	},
	{
		Name: "groq", Title: "Groq", BaseURL: "https://api.groq.com/openai/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://console.groq.com/docs/openai",
	},
	{
		Name: "mistral", Title: "Mistral AI", BaseURL: "https://api.mistral.ai/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://docs.mistral.ai/api/endpoint/models",
	},
	{
		Name: "openai", Title: "OpenAI", BaseURL: "https://api.openai.com/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://platform.openai.com/docs/api-reference/models/list",
	},
	{
		Name: "openrouter", Title: "OpenRouter", BaseURL: "https://openrouter.ai/api/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://openrouter.ai/docs/api-reference/list-available-models",
	},
	{
		// It answers a list without an object around it.
		Name: "together", Title: "Together AI", BaseURL: "https://api.together.ai/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://docs.together.ai/docs/inference/openai-compatibility",
	},
	{
		Name: "xai", Title: "xAI", BaseURL: "https://api.x.ai/v1", ModelsPath: "/models", Auth: AuthBearer,
		Source: "https://docs.x.ai/docs/api-reference",
	},
}

// Authorise sets the headers that a vendor, or an engine that is none's, wants.
func (v Vendor) Authorise(h http.Header, secret Secret) {
	for _, x := range v.Headers {
		h.Set(x.Name, x.Value)
	}
	switch {
	case secret.IsZero():
	case v.Auth == AuthXAPIKey:
		h.Set("X-Api-Key", secret.Reveal())
	default:
		h.Set("Authorization", "Bearer "+secret.Reveal())
	}
}
