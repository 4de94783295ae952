package gatewayapi

import (
	"context"
	"errors"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

var errNoLinks = errors.New("nobody could open a link: there are no pages")

// CreateKeyLink implements api.Keys.
func (s *Keys) CreateKeyLink(context.Context, *apipb.CreateKeyLinkRequest) (*apipb.CreateKeyLinkResponse, error) {
	return nil, api.Precondition(errNoLinks)
}

// RevokeKeyLink implements api.Keys.
func (s *Keys) RevokeKeyLink(context.Context, *apipb.RevokeKeyLinkRequest) (*apipb.RevokeKeyLinkResponse, error) {
	return nil, api.Precondition(errNoLinks)
}
