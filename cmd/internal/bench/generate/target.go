package generate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// ErrModel means that the model to ask for cannot be told: the target lists
// none, or several.
var ErrModel = errors.New("no model to ask for")

// maxModelsBytes bounds the list of models.
const maxModelsBytes = 4 << 20

// newTransport keeps a connection for every request that may be under way.
// Answers are not compressed: their bytes are timed as they come.
func newTransport(connections int) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DisableCompression:  true,
		MaxIdleConns:        connections,
		MaxIdleConnsPerHost: connections,
		// Many times what any target sends, not the default of 10 MB.
		MaxResponseHeaderBytes: maxHeadBytes,
		// Below uvicorn's 5 s, so that a target never closes a connection
		// just when a request is sent on it.
		IdleConnTimeout: 4 * time.Second,
	}
}

// newClient follows no redirect: a POST would become a GET.
func newClient(rt http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     rt,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// discover asks the target for its models and returns the only one. Errors wrap
// [ErrModel] or a *[RequestError].
func (g *Generator) discover(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, min(g.cfg.Timeout, 30*time.Second))
	defer cancel()
	names, err := g.models(ctx)
	if err != nil {
		return "", fmt.Errorf("ask %s/models which model there is (or name one): %w", g.base, err)
	}
	switch len(names) {
	case 0:
		return "", fmt.Errorf("%w: %s/models lists none", ErrModel, g.base)
	case 1:
		return names[0], nil
	}
	const most = 20
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return "", fmt.Errorf("%w: %s/models lists several, name one of them: %s%s", ErrModel, g.base, strings.Join(names, ", "), more)
}

func (g *Generator) models(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.base+"/models", http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header = g.header.Clone()
	var at progressed
	resp, err := g.client.Do(req.WithContext(traced(ctx, &at)))
	if err != nil {
		return nil, failure(err, at.now())
	}
	defer func() { _ = resp.Body.Close() }() // read for what it says
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModelsBytes+1))
	if err == nil && len(body) > maxModelsBytes {
		err = fmt.Errorf("%w: a list of models of more than %d MiB", errTooLong, maxModelsBytes>>20)
	}
	if err != nil {
		return nil, failure(err, phaseContent)
	}
	contentType := resp.Header.Get("Content-Type")
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, refused(resp.StatusCode, contentType, body)
	case isHTML(contentType, body):
		return nil, &RequestError{Kind: KindHTML, Message: excerpt(body)}
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, &RequestError{Kind: KindNotJSON, Message: excerpt(body), Err: err}
	}
	var names []string
	for _, m := range list.Data {
		if m.ID != "" {
			names = append(names, m.ID)
		}
	}
	return names, nil
}
