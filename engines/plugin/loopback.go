package plugin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/llmgw/llmgw/engines"
	"github.com/llmgw/llmgw/engines/plugin/pluginpb"
)

// Loopback returns adapter as a host would hand it out, through the whole protocol
// but in this process: for tests of adapters. stop ends it; it may be called again.
func Loopback(adapter engines.Adapter) (remoteAdapter engines.Adapter, stop func(), err error) {
	l := bufconn.Listen(64 << 10)
	s := grpc.NewServer(grpc.MaxRecvMsgSize(mostBytes))
	pluginpb.RegisterAdapterServer(s, &server{adapter: adapter, log: slog.New(slog.DiscardHandler)})
	conn, err := grpc.NewClient("passthrough:adapter", append(dialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
	if err != nil {
		return nil, nil, fmt.Errorf("plugin: %w", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) }) // ends with Stop
	return &remote{client: pluginpb.NewAdapterClient(conn)}, sync.OnceFunc(func() {
		_ = conn.Close()
		s.Stop()
		serving.Wait()
	}), nil
}
