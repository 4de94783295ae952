package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// ClientConfig is how a server is reached.
type ClientConfig struct {
	// URL is the root of the listener that has the API, such as
	// http://127.0.0.1:9090. Required.
	URL string
	// HTTP sends the requests; nil means http.DefaultClient.
	HTTP *http.Client
}

// Validate reports what is wrong with the URL.
func (c ClientConfig) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case c.URL == "":
		return errors.New("api: the URL is empty; want such as http://127.0.0.1:9090")
	case err != nil:
		return fmt.Errorf("api: %q is no URL; want such as http://127.0.0.1:9090", c.URL)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("api: %q has no http:// or https:// and host; want such as http://127.0.0.1:9090", c.URL)
	case u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return fmt.Errorf("api: %q has more than an address; want such as http://127.0.0.1:9090", u.Redacted())
	}
	return nil
}

// Client calls the services of one server. Its methods may be called concurrently.
type Client struct {
	// Routing is RoutingService.
	Routing apipb.RoutingServiceClient
	// Keys is KeyService. Who called CreateKey, RotateKey or CreateKeyLink and got no
	// answer does not know whether there is a new key or link; it is lost then.
	Keys apipb.KeyServiceClient
	// Limits is LimitService.
	Limits apipb.LimitServiceClient
	// Usage is UsageService.
	Usage apipb.UsageServiceClient
	// Users is UserService.
	Users apipb.UserServiceClient
	// Nodes is NodeService.
	Nodes apipb.NodeServiceClient
	// Models is ModelService.
	Models apipb.ModelServiceClient
	// Placement is PlacementService.
	Placement apipb.PlacementServiceClient
	// Audit is AuditService.
	Audit apipb.AuditServiceClient
}

// NewClient validates cfg and returns a Client. It dials nothing.
func NewClient(cfg ClientConfig) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	client := cfg.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	opts := []connect.ClientOption{connect.WithReadMaxBytes(maxMessageBytes)}
	return &Client{
		Routing:   apipb.NewRoutingServiceClient(client, cfg.URL, opts...),
		Keys:      apipb.NewKeyServiceClient(client, cfg.URL, opts...),
		Limits:    apipb.NewLimitServiceClient(client, cfg.URL, opts...),
		Usage:     apipb.NewUsageServiceClient(client, cfg.URL, opts...),
		Users:     apipb.NewUserServiceClient(client, cfg.URL, opts...),
		Nodes:     apipb.NewNodeServiceClient(client, cfg.URL, opts...),
		Models:    apipb.NewModelServiceClient(client, cfg.URL, opts...),
		Placement: apipb.NewPlacementServiceClient(client, cfg.URL, opts...),
		Audit:     apipb.NewAuditServiceClient(client, cfg.URL, opts...),
	}, nil
}
