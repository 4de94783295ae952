package api

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// Models shows the catalog, and adds and removes models. Its methods answer as
// ModelService's of that name, with errors as those of [Keys].
type Models interface {
	ListModels(ctx context.Context, req *apipb.ListModelsRequest) (*apipb.ListModelsResponse, error)
	GetModel(ctx context.Context, req *apipb.GetModelRequest) (*apipb.GetModelResponse, error)
	AddModel(ctx context.Context, req *apipb.AddModelRequest) (*apipb.AddModelResponse, error)
	RemoveModel(ctx context.Context, req *apipb.RemoveModelRequest) (*apipb.RemoveModelResponse, error)
}

const (
	// MaxDefinitionBytes bounds what AddModel reads.
	MaxDefinitionBytes = 1 << 20
	// maxModelBytes bounds a model's name.
	maxModelBytes = 256
)

var errNoModels = errors.New("this server has no catalog")

// models is ModelService.
type models struct{ *service }

// ListModels implements apipb.ModelServiceHandler.
func (s models) ListModels(ctx context.Context, req *apipb.ListModelsRequest) (*apipb.ListModelsResponse, error) {
	return checked(ctx, s.service, "ListModels", missing(s.deps.Models != nil, errNoModels), req,
		func(ctx context.Context, req *apipb.ListModelsRequest) (*apipb.ListModelsResponse, error) {
			return s.deps.Models.ListModels(ctx, req)
		})
}

// GetModel implements apipb.ModelServiceHandler.
func (s models) GetModel(ctx context.Context, req *apipb.GetModelRequest) (*apipb.GetModelResponse, error) {
	return checked(ctx, s.service, "GetModel", missing(s.deps.Models != nil, errNoModels), req,
		func(ctx context.Context, req *apipb.GetModelRequest) (*apipb.GetModelResponse, error) {
			return s.deps.Models.GetModel(ctx, req)
		}, goodModel(req.GetName()))
}

// AddModel implements apipb.ModelServiceHandler.
func (s models) AddModel(ctx context.Context, req *apipb.AddModelRequest) (*apipb.AddModelResponse, error) {
	return checked(ctx, s.service, "AddModel", missing(s.deps.Models != nil, errNoModels), req,
		func(ctx context.Context, req *apipb.AddModelRequest) (*apipb.AddModelResponse, error) {
			return s.deps.Models.AddModel(ctx, req)
		}, goodDefinition(req.GetDefinition()), goodText("file", req.GetFile(), maxTextBytes), goodActor(req.GetActor()))
}

// RemoveModel implements apipb.ModelServiceHandler.
func (s models) RemoveModel(ctx context.Context, req *apipb.RemoveModelRequest) (*apipb.RemoveModelResponse, error) {
	return checked(ctx, s.service, "RemoveModel", missing(s.deps.Models != nil, errNoModels), req,
		func(ctx context.Context, req *apipb.RemoveModelRequest) (*apipb.RemoveModelResponse, error) {
			return s.deps.Models.RemoveModel(ctx, req)
		}, goodModel(req.GetName()), goodActor(req.GetActor()))
}

// goodModel leaves to the service whether there is such a model.
func goodModel(name string) error {
	if name == "" || len(name) > maxModelBytes || !utf8.ValidString(name) {
		return fmt.Errorf("name is no name of a model; want 1 to %d bytes", maxModelBytes)
	}
	return nil
}

func goodDefinition(text string) error {
	switch {
	case text == "":
		return errors.New("definition is empty; want a model's entry in YAML")
	case len(text) > MaxDefinitionBytes:
		return fmt.Errorf("definition has %d bytes; want at most %d", len(text), MaxDefinitionBytes)
	}
	return nil
}
