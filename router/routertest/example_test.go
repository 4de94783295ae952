package routertest_test

import (
	"fmt"

	"github.com/llmgw/llmgw/router"
	"github.com/llmgw/llmgw/router/routertest"
)

func ExampleCatalog() {
	models := &routertest.Catalog{
		Models:  []router.Model{{Name: "org/chat-8b", Fallbacks: []string{"org/chat-1b"}}, {Name: "org/chat-1b"}},
		Aliases: map[string]string{"chat": "org/chat-8b"},
	}
	m, ok := models.Catalog().Resolve("chat")
	fmt.Println(m.Name, m.Fallbacks, ok)
	// Output: org/chat-8b [org/chat-1b] true
}
