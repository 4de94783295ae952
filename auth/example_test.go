package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/llmgw/llmgw/auth"
)

// A server's routes behind keys: the store is any storage.Keys, the refusal any
// shape of error.
func Example() {
	store := newStore() // storage/sqlite or storage/postgres
	authenticator, err := auth.New(auth.DefaultConfig(), auth.Deps{Keys: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- authenticator.Run(ctx) }()
	defer func() { cancel(); <-ended }()

	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /whoami", func(w http.ResponseWriter, r *http.Request) {
		id, _ := auth.FromContext(r.Context())
		fmt.Fprintf(w, "%s of %s", id.Name(), id.Owner())
	})
	handler := authenticator.Middleware(mux, auth.DefaultExempt(), func(w http.ResponseWriter, _ *http.Request, err *auth.RefusedError) {
		http.Error(w, err.Message(), err.Status()) // its Reason is for the log alone
	})

	issuer, err := auth.NewIssuer(auth.IssuerDeps{Keys: store, Told: authenticator})
	if err != nil {
		fmt.Println(err)
		return
	}
	by := auth.By{Actor: "example"}
	issued, err := issuer.Create(ctx, auth.Spec{Name: "laptop", Owner: "ada", Budget: "1.50/day"}, by)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("printed by mistake:", issued.Secret)

	ask := func(path, key string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(path, w.Code, w.Body)
	}
	ask("/whoami", issued.Secret.Reveal())
	if _, err := issuer.Revoke(ctx, issued.Key.ID, by); err != nil {
		fmt.Println(err)
	}
	ask("/whoami", issued.Secret.Reveal())
	ask("/health", "")
	// Output:
	// printed by mistake: [redacted]
	// /whoami 200 laptop of ada
	// /whoami 401 The API key is not known here, or not valid any more. Ask whoever gave it to you for another one.
	//
	// /health 200 ok
}
