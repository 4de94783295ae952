package models

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/storage"
)

var _ api.Models = (*Models)(nil)

// ListModels implements [api.Models].
func (m *Models) ListModels(context.Context, *apipb.ListModelsRequest) (*apipb.ListModelsResponse, error) {
	s := m.now.Load()
	out := &apipb.ListModelsResponse{StoredUnknown: s.unknown(m.deps.Store != nil)}
	for i := range s.configured {
		out.Models = append(out.Models, configured(&s.configured[i]))
	}
	for i := range s.rows {
		out.Models = append(out.Models, s.rows[i].view())
	}
	slices.SortStableFunc(out.Models, func(a, b *apipb.Model) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, nil
}

// unknown says what is not known of stored models; empty: nothing.
func (s *Snapshot) unknown(store bool) string {
	switch {
	case !store || s.read && s.trouble == "":
		return ""
	case s.trouble == "":
		return "the store was not read yet, so models that were added are not shown"
	case !s.read:
		return "the store cannot be read, so models that were added are not shown: " + s.trouble
	}
	return "the store cannot be read, so models that were added are as they were read last: " + s.trouble
}

// GetModel implements [api.Models].
func (m *Models) GetModel(_ context.Context, req *apipb.GetModelRequest) (*apipb.GetModelResponse, error) {
	s := m.now.Load()
	name := req.GetName()
	found, is := s.Catalog.Resolve(name)
	if is {
		name = found.Name
	}
	for i := range s.configured {
		if c := &s.configured[i]; c.Name == name {
			text, err := catalog.Format(*c)
			if err != nil {
				return nil, err
			}
			return &apipb.GetModelResponse{Model: configured(c), Definition: string(text)}, nil
		}
	}
	if i := s.row(name); i >= 0 {
		return &apipb.GetModelResponse{Model: s.rows[i].view(), Definition: s.rows[i].Definition}, nil
	}
	text := fmt.Sprintf("there is no model %q", name)
	if why := s.unknown(m.deps.Store != nil); why != "" {
		text += "; " + why
	}
	return nil, api.NotFound(errors.New(text))
}

// AddModel implements [api.Models].
func (m *Models) AddModel(ctx context.Context, req *apipb.AddModelRequest) (*apipb.AddModelResponse, error) {
	if err := m.addable(); err != nil {
		return nil, err
	}
	d, err := catalog.Parse(cmp.Or(req.GetFile(), "definition"), []byte(req.GetDefinition()))
	if err != nil {
		return nil, api.Invalid(err)
	}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.end()
	if err := m.load(ctx); err != nil { // what others have added counts
		return nil, err
	}
	a := addition{models: m, definition: d, now: m.now.Load(), replace: req.GetReplace(), actor: cmp.Or(req.GetActor(), "api")}
	next, changes, err := a.prepare()
	if err != nil {
		return nil, err
	}
	warnings, err := a.fits(ctx)
	if err != nil {
		return nil, err
	}
	if len(changes) > 0 {
		timed, cancel := context.WithTimeout(ctx, storeTime)
		defer cancel()
		if err := m.deps.Store.PutModels(timed, changes); err != nil {
			return nil, writeError(err)
		}
		if err := m.swap(next, m.deps.Apply); err != nil {
			return nil, err
		}
		for _, c := range changes {
			m.log.Info("a model was added, or changed", "model", c.Model.Name, "actor", c.Model.Actor, "revision", c.Model.Revision+1)
		}
	}
	out := &apipb.AddModelResponse{Warnings: warnings}
	for _, model := range d.Models {
		out.Models = append(out.Models, next.rows[next.row(model.Name)].view())
	}
	return out, nil
}

// addable is why nothing can be added or removed here; nil: it can.
func (m *Models) addable() error {
	if m.deps.Store != nil {
		return nil
	}
	return api.Precondition(errors.New("this server has no store to keep models in, so they are only those of its configuration; " +
		"it has one while auth.enabled is true, as a control plane, and where store.dsn names one"))
}

// addition is one AddModel.
type addition struct {
	models     *Models
	definition *catalog.Definition
	now        *Snapshot
	replace    bool
	actor      string
}

// prepare returns the catalog with what is added, and what there is to keep for that.
func (a *addition) prepare() (*Snapshot, []storage.ModelChange, error) {
	next := a.now.next(a.now.configured, a.now.rows)
	at := time.UnixMicro(a.models.deps.Now().UnixMicro()).UTC() // as stores keep it
	var changes []storage.ModelChange
	for i := range a.definition.Models {
		model := &a.definition.Models[i]
		if err := a.models.check(model); err != nil {
			return nil, nil, a.refused(i, err)
		}
		if model.Profile != nil && !a.models.deps.ControlPlane {
			return nil, nil, api.Precondition(fmt.Errorf("model %q has a profile, and this server is no control plane that could run it: "+
				"write agent_listen in its configuration and start it anew", model.Name))
		}
		text, err := catalog.Format(*model)
		if err != nil {
			return nil, nil, a.refused(i, fmt.Errorf("name: %w", err))
		}
		stored := storage.Model{Name: model.Name, Definition: string(text), Actor: a.actor, CreatedAt: at, ChangedAt: at}
		why := storage.Audit{ID: rand.Text(), At: at, Actor: a.actor, Action: "model.add", Target: model.Name, After: state(stored.Definition)}
		j := next.row(model.Name)
		if j >= 0 {
			old := next.rows[j].Model
			switch {
			case old.Definition == stored.Definition && next.rows[j].entry.Fault == nil:
				continue // it is there
			case !a.replace:
				return nil, nil, a.refused(i, fmt.Errorf("name: %q was added by %s already, with another definition; say replace (--replace) to change it", model.Name, cmp.Or(old.Actor, "somebody")))
			}
			stored.CreatedAt, stored.Revision = old.CreatedAt, old.Revision
			why.Action, why.Before = "model.change", state(old.Definition)
		}
		changes = append(changes, storage.ModelChange{Model: stored, Why: why})
		stored.Revision++
		next.put(a.models.row(stored))
	}
	next.merge()
	return next, changes, a.stands(next)
}

// stands reports what keeps the definition's models out of the catalog, or others
// that stood there before.
func (a *addition) stands(next *Snapshot) error {
	var errs []error
	for i, model := range a.definition.Models {
		if why := next.rows[next.row(model.Name)].aside; why != nil {
			errs = append(errs, a.refused(i, why))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return api.Invalid(err)
	}
	if lost := next.lost(a.now); len(lost) > 0 {
		return api.Invalid(fmt.Errorf("then other models could not stand in the catalog any more: %s", strings.Join(lost, "; ")))
	}
	return nil
}

// lost says of models that stood in the catalog before why they no longer do.
func (s *Snapshot) lost(before *Snapshot) (out []string) {
	for _, r := range s.rows {
		if i := before.row(r.Name); r.aside != nil && i >= 0 && before.rows[i].aside == nil {
			out = append(out, fmt.Sprintf("%q: %s", r.Name, strings.ReplaceAll(r.aside.Error(), "\n", "; ")))
		}
	}
	return out
}

// fits asks whether any node could run what is added.
func (a *addition) fits(ctx context.Context) (warnings []string, err error) {
	if a.models.deps.Fits == nil {
		return nil, nil
	}
	for i := range a.definition.Models {
		model := &a.definition.Models[i]
		if model.Profile == nil {
			continue
		}
		said, err := a.models.deps.Fits(ctx, model)
		if err != nil {
			return nil, a.refused(i, err)
		}
		warnings = append(warnings, said...)
	}
	return warnings, nil
}

// refused is what is wrong with a model of the definition, with its line.
func (a *addition) refused(i int, why error) error {
	var errs []error
	for line := range strings.SplitSeq(why.Error(), "\n") {
		errs = append(errs, fmt.Errorf("models[%d].%s", i, line))
	}
	return api.Invalid(a.definition.Locate(errors.Join(errs...)))
}

// RemoveModel implements [api.Models].
func (m *Models) RemoveModel(ctx context.Context, req *apipb.RemoveModelRequest) (*apipb.RemoveModelResponse, error) {
	if err := m.addable(); err != nil {
		return nil, err
	}
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.end()
	if err := m.load(ctx); err != nil {
		return nil, err
	}
	s, name := m.now.Load(), req.GetName()
	i := s.row(name)
	if i < 0 {
		return nil, s.notStored(name)
	}
	next := s.next(s.configured, slices.Delete(slices.Clone(s.rows), i, i+1))
	next.merge()
	if lost := next.lost(s); len(lost) > 0 {
		return nil, api.Precondition(fmt.Errorf("other models need %q; change or remove them first: %s", name, strings.Join(lost, "; ")))
	}
	timed, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	old := s.rows[i].Model
	err := m.deps.Store.RemoveModel(timed, name, old.Revision, storage.Audit{
		ID: rand.Text(), At: m.deps.Now(), Actor: cmp.Or(req.GetActor(), "api"), Action: "model.remove", Target: name, Before: state(old.Definition),
	})
	if err != nil {
		return nil, writeError(err)
	}
	m.log.Info("a model was removed", "model", name, "actor", cmp.Or(req.GetActor(), "api"))
	return &apipb.RemoveModelResponse{}, m.swap(next, m.deps.Apply)
}

// notStored says why a model that is not in the store cannot be removed.
func (s *Snapshot) notStored(name string) error {
	found, is := s.Catalog.Resolve(name)
	switch {
	case !is:
		return api.NotFound(fmt.Errorf("there is no model %q", name))
	case found.Name != name:
		return api.NotFound(fmt.Errorf("%q is an alias of the model %q; to remove that, name it", name, found.Name))
	}
	return api.Precondition(fmt.Errorf("model %q is of the server's configuration; remove it there and send SIGHUP", name))
}

// view is a stored model as callers see it.
func (r *row) view() *apipb.Model {
	model := r.entry.Model
	model.Name = r.Name // of one that cannot be read, too
	out := view(&model)
	out.Origin = apipb.ModelOrigin_MODEL_ORIGIN_STORE
	out.Actor, out.Revision = r.Actor, r.Revision
	out.CreatedAt, out.ChangedAt = timestamppb.New(r.CreatedAt), timestamppb.New(r.ChangedAt)
	if r.aside != nil {
		out.SetAside = strings.Split(r.aside.Error(), "\n")
	}
	return out
}

func configured(m *catalog.Model) *apipb.Model {
	out := view(m)
	out.Origin = apipb.ModelOrigin_MODEL_ORIGIN_CONFIGURATION
	return out
}

func view(m *catalog.Model) *apipb.Model {
	out := &apipb.Model{Name: m.Name, Aliases: m.Aliases, Fallbacks: m.Fallbacks, Source: m.Source}
	if m.Profile != nil {
		out.Engine = string(m.Profile.Engine)
	}
	if m.Scaling != nil {
		least, most := m.Replicas()
		out.MinReplicas, out.MaxReplicas = new(uint32(least)), new(uint32(most)) //nolint:gosec // at most MaxReplicas
	}
	return out
}

// What the catalog accepts the store keeps.
const _ = uint(storage.MaxDefinition - catalog.MaxDefinitionBytes)

// state is a model's definition as audit rows show it.
func state(definition string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // or the longest definition would not fit
	if err := e.Encode(map[string]string{"definition": definition}); err != nil {
		panic(err) // texts always marshal
	}
	return bytes.TrimSpace(b.Bytes())
}

// writeError is what could not be written, as callers of the API get it.
func writeError(err error) error {
	switch {
	case errors.Is(err, storage.ErrConflict), errors.Is(err, storage.ErrExists), errors.Is(err, storage.ErrNotFound):
		return api.Unavailable(errors.New("somebody else has changed the model at the same time; look, and try again"))
	case errors.Is(err, storage.ErrInvalid):
		return api.Invalid(err)
	}
	return api.Unavailable(fmt.Errorf("the store does not answer, and whether the change was made is not known; look, and ask again: %w", err))
}
