package webui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing/fstest"

	"github.com/llmgw/llmgw/auth/webui"
)

// A site of one page. A POST that is added to the table needs a form's token without
// another word.
func Example() {
	site, err := webui.New(webui.DefaultConfig(), webui.Deps{})
	if err != nil {
		panic(err)
	}
	views, err := site.Views(fstest.MapFS{"hello.html": {Data: []byte(`<h1>Hello, {{.}}</h1>`)}}, nil, "*.html")
	if err != nil {
		panic(err)
	}
	h := site.Handler([]webui.Route{
		{Method: "GET", Path: "/hello", Access: webui.Open, Handler: func(w http.ResponseWriter, r *http.Request, _ webui.Visit) error {
			return site.Page(w, r, http.StatusOK, webui.Page{Title: "Hello", Views: views, Body: "hello.html", Data: r.URL.Query().Get("name")})
		}},
		{Method: "POST", Path: "/hello", Access: webui.Open, Handler: func(http.ResponseWriter, *http.Request, webui.Visit) error {
			panic("nobody gets here without a token")
		}},
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/hello?name=<b>Ann", nil))
	_, main, _ := strings.Cut(w.Body.String(), "<h1>")
	main, _, _ = strings.Cut(main, "</h1>")
	fmt.Println(w.Code, main)

	r := httptest.NewRequest(http.MethodPost, "/hello", strings.NewReader("name=Ann"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code)
	// Output:
	// 200 Hello, &lt;b&gt;Ann
	// 403
}
