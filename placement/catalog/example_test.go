package catalog_test

import (
	"fmt"

	"github.com/llmgw/llmgw/placement/catalog"
)

func Example() {
	c, err := catalog.New([]catalog.Model{
		{Name: "qwen3-32b", Aliases: []string{"large"}, Fallbacks: []string{"small"}},
		{Name: "qwen3-8b", Aliases: []string{"small"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, ok := c.Resolve("large")
	fmt.Println(ok, m.Name, m.Fallbacks)

	err = catalog.Validate([]catalog.Model{
		{Name: "qwen3-32b", Aliases: []string{"large"}},
		{Name: "large"},
	})
	fmt.Println(err)
	// Output:
	// true qwen3-32b [qwen3-8b]
	// models[0].aliases[0]: "large" is already the name of models[1]; a name or alias leads to one model
}
