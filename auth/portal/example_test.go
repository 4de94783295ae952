package portal_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/llmgw/llmgw/auth/portal"
	"github.com/llmgw/llmgw/auth/webui"
)

// The landing page alone, as where no accounts are kept. With accounts, Sessions and
// Nav of this package go into webui.Deps, and the service into portal.Deps.
func Example() {
	site, err := webui.New(webui.Config{PublicURL: "https://llm.example.org"}, webui.Deps{Assets: portal.Assets()})
	if err != nil {
		panic(err)
	}
	p, err := portal.New(portal.Config{Contact: "help@example.org"}, portal.Deps{Site: site})
	if err != nil {
		panic(err)
	}
	h := site.Handler(p.Routes())

	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	_, example, _ := strings.Cut(w.Body.String(), "curl ")
	example, _, _ = strings.Cut(example, " \\")
	_, contact, _ := strings.Cut(w.Body.String(), "mailto:")
	contact, _, _ = strings.Cut(contact, `"`)
	fmt.Println(example)
	fmt.Println(contact)
	fmt.Println(site.Exempt(p.Routes()))
	// Output:
	// https://llm.example.org/v1/models
	// help@example.org
	// [GET / GET /assets/ HEAD / HEAD /assets/]
}
