package password_test

import (
	"context"
	"fmt"
	"log"

	"github.com/llmgw/llmgw/auth/account/password"
)

// One hash at once, ten who wait.
func Example() {
	hasher, err := password.New(password.Config{AtOnce: 1, Waiting: 10, Params: password.DefaultParams()}, nil)
	if err != nil {
		log.Fatal(err)
	}
	slot, err := hasher.Enter()
	if err != nil {
		log.Fatal(err) // ErrBusy: come again
	}
	defer slot.Leave()
	typed, err := password.Normal("correct horse battery staple")
	if err != nil {
		log.Fatal(err) // too short or too long
	}
	ctx := context.Background()
	kept, err := slot.Hash(ctx, typed)
	if err != nil {
		log.Fatal(err)
	}
	right, stale, err := slot.Verify(ctx, kept, typed)
	fmt.Println(kept[:30], right, stale, err)
	// Output: $argon2id$v=19$m=19456,t=2,p=1 true false <nil>
}
