package plugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

// A version of the protocol is never changed in place: the next one is added here,
// and both are served for one minor release.
const version = 1

// The cookie tells a program that it was started as an adapter. It is for people,
// not for security.
const (
	cookieKey   = "LLMGW_ENGINE_ADAPTER"
	cookieValue = "e7a9c1d05b3f4268"
)

// service is the name of the only thing that an adapter's program serves.
const service = "adapter"

// mostBytes bounds one message, for a program that answers without an end.
const mostBytes = 4 << 20

func handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{MagicCookieKey: cookieKey, MagicCookieValue: cookieValue}
}

// versions returns what is spoken in each version. serve is nil in a host.
func versions(serve *server) map[int]goplugin.PluginSet {
	return map[int]goplugin.PluginSet{version: {service: &wire{serve: serve}}}
}

// spoken lists the versions for people.
func spoken() string {
	var texts []string
	for _, v := range slices.Sorted(maps.Keys(versions(nil))) {
		texts = append(texts, fmt.Sprint(v))
	}
	return strings.Join(texts, " and ")
}

// wire joins the protocol to go-plugin.
type wire struct {
	goplugin.NetRPCUnsupportedPlugin
	serve *server
}

var _ goplugin.GRPCPlugin = (*wire)(nil)

// GRPCServer registers the adapter.
func (w *wire) GRPCServer(_ *goplugin.GRPCBroker, s *grpc.Server) error {
	if w.serve == nil {
		return errors.New("plugin: nothing to serve")
	}
	pluginpb.RegisterAdapterServer(s, w.serve)
	return nil
}

// GRPCClient returns a [*remote].
func (w *wire) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return &remote{client: pluginpb.NewAdapterClient(conn)}, nil
}

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(mostBytes), grpc.MaxCallSendMsgSize(mostBytes))}
}

var _ engines.Adapter = (*remote)(nil)
