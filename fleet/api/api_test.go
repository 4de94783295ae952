package api_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

// fake answers as it was told and keeps what it was asked last.
type fake struct {
	answer *apipb.ExplainRouteResponse
	err    error
	asked  atomic.Pointer[apipb.ExplainRouteRequest]
}

func (f *fake) ExplainRoute(_ context.Context, req *apipb.ExplainRouteRequest) (*apipb.ExplainRouteResponse, error) {
	f.asked.Store(req)
	return f.answer, f.err
}

func serve(t *testing.T, deps api.Deps) string {
	t.Helper()
	return serveHandler(t, api.NewHandler(deps))
}

func serveHandler(t *testing.T, h http.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	for _, p := range api.Paths() {
		mux.Handle(p, h)
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

func post(t *testing.T, url, contentType string, body io.Reader, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+apipb.RoutingServiceExplainRouteProcedure, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// The client and curl get the same answer, and the service what they sent.
func TestCall(t *testing.T) {
	f := &fake{answer: &apipb.ExplainRouteResponse{
		Summary: []string{"It runs."},
		Turns: []*apipb.RouteTurn{{Model: "m", Decision: &apipb.RouteDecision{Candidates: []*apipb.RouteCandidate{
			{Endpoint: "a", Waiting: new(0.0)},
		}}}},
	}}
	url := serve(t, api.Deps{Routes: f})
	client, err := api.NewClient(api.ClientConfig{URL: url + "/"})
	if err != nil {
		t.Fatal(err)
	}
	req := &apipb.ExplainRouteRequest{Body: []byte("{\xff}"), Session: new("")}
	got, err := client.Routing.ExplainRoute(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.answer, got, protocmp.Transform()); diff != "" {
		t.Errorf("answer (-sent +got):\n%s", diff)
	}
	if diff := cmp.Diff(req, f.asked.Load(), protocmp.Transform()); diff != "" {
		t.Errorf("request (-sent +got):\n%s", diff)
	}

	status, text := post(t, url, "application/json", strings.NewReader(`{"body":"e30=","band":"gold"}`))
	// Zero is there, what is not known is not.
	for _, want := range []string{`"in_flight":0`, `"waiting":0`, `"summary":["It runs."]`} {
		if status != 200 || !strings.Contains(strings.ReplaceAll(text, ": ", ":"), want) {
			t.Errorf("%d %s; want %s", status, text, want)
		}
	}
	if strings.Contains(text, "running") {
		t.Errorf("%s has what is not known", text)
	}
	if asked := f.asked.Load(); string(asked.GetBody()) != "{}" || asked.GetBand() != "gold" || asked.Session != nil {
		t.Errorf("asked %v", asked)
	}
}

func TestBadCalls(t *testing.T) {
	url := serveHandler(t, api.NewSmallHandler(api.Deps{Routes: &fake{answer: &apipb.ExplainRouteResponse{}}}))
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write([]byte(`{"session":"`))
	_, _ = z.Write(make([]byte, 4*api.SmallMessageBytes))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		kind   string
		body   io.Reader
		header []string
		status int
		want   string
	}{
		{"a field that there is not", "application/json", strings.NewReader(`{"bdy":""}`), nil, 400, `unknown field \"bdy\"`},
		{"no JSON", "application/json", strings.NewReader(`{`), nil, 400, "invalid_argument"},
		{"nothing", "application/json", strings.NewReader(``), nil, 400, "the message is empty"},
		{"no message", "application/proto", strings.NewReader("\xff\xff"), nil, 400, "invalid_argument"},
		{"what a web page can send unasked", "text/plain", strings.NewReader(`{}`), nil, 415, ""},
		{"a form", "application/x-www-form-urlencoded", strings.NewReader(`{}`), nil, 415, ""},
		{"too long", "application/json", io.LimitReader(zeros{}, 4*api.SmallMessageBytes), nil, 429, "resource_exhausted"},
		{"too long when unpacked", "application/json", &bomb, []string{"Content-Encoding", "gzip"}, 429, "resource_exhausted"},
		{"a long band", "application/json", strings.NewReader(`{"band":"` + strings.Repeat("x", 2000) + `"}`), nil, 400, "band has 2000 bytes; want at most 1024"},
		{"a long body", "application/proto", bytes.NewReader(longBody()), nil, 400, "leave pictures and sound out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, text := post(t, url, tt.kind, tt.body, tt.header...)
			if tt.kind == "application/proto" && status == 400 {
				text = "invalid_argument " + text // errors are JSON whatever was sent
			}
			if status != tt.status || !strings.Contains(text, tt.want) {
				t.Errorf("%d %s; want %d with %s", status, text, tt.status, tt.want)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// longBody is a message whose body has one byte too many.
func longBody() []byte {
	m, _ := proto.Marshal(&apipb.ExplainRouteRequest{Body: make([]byte, api.SmallBodyBytes+1)}) // cannot fail
	return m
}

// An error of the joint's is told with its text if it is for the caller, else not.
func TestErrors(t *testing.T) {
	tests := []struct {
		err  error
		code connect.Code
		text string
	}{
		{api.Invalid(errors.New("at byte 3")), connect.CodeInvalidArgument, "at byte 3"},
		{api.NotFound(errors.New("there are m, n")), connect.CodeNotFound, "there are m, n"},
		{errors.New("10.1.2.3 is away"), connect.CodeInternal, "a fault of the server, which its log tells more of"},
	}
	for _, tt := range tests {
		var log bytes.Buffer
		client, err := api.NewClient(api.ClientConfig{URL: serve(t, api.Deps{Routes: &fake{err: tt.err}, Logger: slog.New(slog.NewTextHandler(&log, nil))})})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Routing.ExplainRoute(t.Context(), &apipb.ExplainRouteRequest{})
		e, ok := errors.AsType[*connect.Error](err)
		if !ok || e.Code() != tt.code || e.Message() != tt.text {
			t.Errorf("%v: %v", tt.err, err)
		}
		if logged := strings.Contains(log.String(), "10.1.2.3"); logged != (tt.code == connect.CodeInternal) {
			t.Errorf("%v: logged %q", tt.err, log.String())
		}
	}
	client, err := api.NewClient(api.ClientConfig{URL: serve(t, api.Deps{})})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Routing.ExplainRoute(t.Context(), &apipb.ExplainRouteRequest{}); connect.CodeOf(err) != connect.CodeUnimplemented {
		t.Errorf("without routes: %v", err)
	}
}

func TestClientConfig(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:9090", "ftp://x", "http://", "http://x?a=b", "http://u:secret@x", "://"} {
		_, err := api.NewClient(api.ClientConfig{URL: url})
		if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:9090") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}
