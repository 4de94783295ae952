package account_test

import (
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/auth/account"
)

func ExampleParseAddress() {
	fmt.Println(account.ParseAddress(" Ada@Example.org\n"))
	_, err := account.ParseAddress("ada lovelace@example.org")
	if bad, ok := errors.AsType[*account.InvalidError](err); ok {
		fmt.Println(bad.Field, bad.Problem)
	}
	// Output:
	// ada@example.org <nil>
	// address has a space or a letter that is not of ASCII; want plain letters, and the xn-- form of a domain that has others
}
