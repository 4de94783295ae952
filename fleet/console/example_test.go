package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/llmgw/llmgw/auth/webui"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/console"
)

// oneNode is a fleet of one.
type oneNode struct{}

func (oneNode) ListNodes(context.Context, *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	return &apipb.ListNodesResponse{Nodes: []*apipb.Node{{Id: "gpu-7", State: apipb.NodeState_NODE_STATE_LOST}}}, nil
}

func (oneNode) GetNode(context.Context, *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error) {
	return &apipb.GetNodeResponse{Node: &apipb.Node{Id: "gpu-7"}}, nil
}

// A console on a listener that only operators reach, of a program that has nodes and
// nothing else.
func Example() {
	site, err := webui.New(webui.DefaultConfig(), webui.Deps{})
	if err != nil {
		fmt.Println(err)
		return
	}
	c, err := console.New(console.DefaultConfig(), console.Deps{Site: site, Root: console.LocalRoot, Nodes: oneNode{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// go c.Run(ctx), for rates and sums of usage
	w := httptest.NewRecorder()
	c.Handler(webui.Open).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/console/nodes", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "gpu-7"), strings.Contains(w.Body.String(), "/console/replicas"))
	// Output: 200 true false
}
