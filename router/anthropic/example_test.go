package anthropic_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/llmgw/llmgw/router/anthropic"
)

func ExampleWriteError() {
	w := httptest.NewRecorder()
	anthropic.WriteError(w, &anthropic.Error{
		Status: http.StatusTooManyRequests, Message: "Slow down: 60 requests a minute are allowed.", RetryAfter: 3 * time.Second,
	}, "req_1")
	fmt.Println(w.Code, w.Header().Get("Retry-After"), w.Header().Get("Request-Id"))
	fmt.Println(w.Body)
	// Output:
	// 429 3 req_1
	// {"type":"error","error":{"type":"rate_limit_error","message":"Slow down: 60 requests a minute are allowed."},"request_id":"req_1"}
}

func ExampleModelList() {
	models := []anthropic.Model{{ID: "claude-local", DisplayName: "Local 8B", Created: time.Unix(1700000000, 0)}, {ID: "other"}}
	body, err := anthropic.ModelList(models, anthropic.Page{Limit: 1})
	fmt.Println(string(body), err)
	// Output:
	// {"data":[{"type":"model","id":"claude-local","display_name":"Local 8B","created_at":"2023-11-14T22:13:20Z"}],"has_more":true,"first_id":"claude-local","last_id":"claude-local"} <nil>
}
