package gatewayapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/llmgw/llmgw/auth/account"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/storage"
)

// Pages is where people open links.
type Pages struct {
	// URL returns the address of the pages, without a slash at its end. known is false
	// where it is where the server listens, and people may know it by another one.
	URL func() (url string, known bool)
}

// errNoPages says why no link is made.
var errNoPages = errors.New("nobody could open the link: portal.enabled is false in the server's configuration")

// link is where a new link is opened, with its warnings.
func (p *Pages) link(path string, l *account.NewLink) (url string, warnings []string) {
	url, known := p.URL()
	warnings = append(warnings, l.Warnings...)
	if !known {
		warnings = append(warnings, "portal.public_url is not set, so that the link begins with where the server listens; whoever gets it may need another address in its place")
	}
	return url + path + l.Token, warnings
}

// CreateKeyLink implements api.Keys.
func (s *Keys) CreateKeyLink(ctx context.Context, req *apipb.CreateKeyLinkRequest) (*apipb.CreateKeyLinkResponse, error) {
	if s.deps.Accounts == nil || s.deps.Pages == nil {
		return nil, api.Precondition(errNoPages)
	}
	made, err := s.deps.Accounts.KeyLink(ctx, keySpec(req.GetKey()), req.GetLife().AsDuration(), by(req.GetKey().GetActor()))
	if err != nil {
		return nil, changeError(err)
	}
	url, warnings := s.deps.Pages.link("/link/", &made)
	return &apipb.CreateKeyLinkResponse{Link: &apipb.Link{Id: made.ID, ExpiresAt: stamp(made.ExpiresAt)}, Url: url, Warnings: warnings}, nil
}

// RevokeKeyLink implements api.Keys.
func (s *Keys) RevokeKeyLink(ctx context.Context, req *apipb.RevokeKeyLinkRequest) (*apipb.RevokeKeyLinkResponse, error) {
	if s.deps.Accounts == nil {
		return nil, api.Precondition(errNoPages)
	}
	l, err := s.deps.Accounts.RevokeLink(ctx, req.GetId(), by(req.GetActor()))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, api.NotFound(fmt.Errorf("there is no link %q; one that is long past its end is forgotten", req.GetId()))
	}
	if err != nil {
		return nil, changeError(err)
	}
	return &apipb.RevokeKeyLinkResponse{Link: &apipb.Link{Id: l.ID, ExpiresAt: stamp(l.ExpiresAt), UsedAt: stamp(l.UsedAt), KeyId: l.Key}}, nil
}
