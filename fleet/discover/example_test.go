package discover_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"

	"github.com/llmgw/llmgw/fleet/discover"
)

// A scan of one host finds what answers as an engine does.
func ExampleScanner_Scan() {
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"object":"list","data":[{"id":"nvidia/Qwen3.6-35B"}]}`)
	}))
	defer engine.Close()
	at := netip.MustParseAddrPort(engine.Listener.Addr().String())

	cfg := discover.DefaultConfig()
	cfg.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} // an example's engine
	scanner, err := discover.NewScanner(cfg, discover.ScannerDeps{Sources: []discover.Source{
		discover.PortScan{Host: at.Addr().String(), Name: "gold01", Ports: []int{int(at.Port())}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := scanner.Scan(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range found {
		fmt.Println(f.Model, f.Name == "gold01-nvidia-qwen3.6-35b-"+strconv.Itoa(int(at.Port())))
	}
	// Output: nvidia/Qwen3.6-35B true
}
