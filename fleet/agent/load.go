package agent

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/exposition"
	"github.com/llmgw/llmgw/engines/process"
)

const (
	loadTimeout  = 2 * time.Second
	maxLoadBytes = 8 << 20
)

// loads reads how much engines have to do, from their own pages.
type loads struct{ client *http.Client }

func newLoads() *loads {
	return &loads{&http.Client{
		Timeout: loadTimeout,
		// An engine's page is never behind a proxy, nor anywhere else.
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// read returns the requests that an engine runs and holds back; nil: not known.
func (l *loads) read(ctx context.Context, w wish, dir string) (running, waiting *int) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	page, err := l.page(ctx, w, dir)
	if err != nil {
		return nil, nil
	}
	load, err := exposition.Read(page, *w.Metrics)
	if err != nil {
		return nil, nil
	}
	return count(load.Running), count(load.Waiting)
}

func (l *loads) page(ctx context.Context, w wish, dir string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.Address+w.Metrics.Path, nil)
	if err != nil {
		return nil, err
	}
	if w.Metrics.NeedsKey {
		secret, err := os.ReadFile(filepath.Join(dir, process.SecretFile))
		if err != nil {
			return nil, err
		}
		if len(secret) > 0 {
			req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(secret)))
		}
	}
	resp, err := l.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("agent: the engine's page is answered %s", resp.Status)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxLoadBytes))
}

func count(r engines.Reading) *int {
	v, known := r.Get()
	if !known || v < 0 || v > math.MaxInt32 {
		return nil
	}
	return new(int(math.Ceil(v)))
}
