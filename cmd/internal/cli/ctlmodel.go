package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/apipb/telling"
)

type ctlModelCmd struct {
	List   modelListCmd   `cmd:"" help:"List the models of the catalog, where each is from, and what is set aside."`
	Show   modelShowCmd   `cmd:"" help:"Print a model's entry, as it can be added."`
	Add    modelAddCmd    `cmd:"" help:"Add models while the server runs: entries as they stand under models in its configuration."`
	Remove modelRemoveCmd `cmd:"" help:"Remove a model that was added."`
}

type modelListCmd struct{ ctlFlags }

// Run lists the models.
func (c *modelListCmd) Run(ctx context.Context, streams Streams) error {
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl model list: %w", err)
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	resp, err := client.Models.ListModels(ctx, &apipb.ListModelsRequest{})
	if err != nil {
		return fmt.Errorf("ctl model list: %w", c.failed(err))
	}
	return show(&c.ctlFlags, streams.Out, resp, writeModels)
}

// writeModels prints a line a model, and below them why some are set aside.
func writeModels(w io.Writer, l *apipb.ListModelsResponse) error {
	w = printable{w}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(l.GetModels()) > 0 {
		fmt.Fprintln(t, "MODEL\tFROM\tBY\tCHANGED\tENGINE\tREPLICAS\tALIASES")
	}
	for _, m := range l.GetModels() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.GetName(), modelOrigin(m), telling.OrDash(m.GetActor()), changedAt(m), telling.OrDash(m.GetEngine()),
			replicas(m), telling.OrDash(strings.Join(m.GetAliases(), ", ")))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range l.GetModels() {
		for _, why := range m.GetSetAside() {
			fmt.Fprintf(w, "\n%s is set aside: %s", m.GetName(), why)
		}
	}
	if l.GetStoredUnknown() != "" {
		fmt.Fprintf(w, "\n%s", l.GetStoredUnknown())
	}
	if len(l.GetModels()) == 0 {
		fmt.Fprint(w, "the catalog names no model; those that an endpoint lists can be asked for all the same")
	}
	_, err := fmt.Fprint(w, "\n")
	return err
}

func modelOrigin(m *apipb.Model) string {
	origin := strings.ToLower(strings.TrimPrefix(m.GetOrigin().String(), "MODEL_ORIGIN_"))
	if len(m.GetSetAside()) > 0 {
		origin += ", set aside"
	}
	return origin
}

func changedAt(m *apipb.Model) string {
	if m.GetChangedAt() == nil {
		return "-"
	}
	return m.GetChangedAt().AsTime().UTC().Format(time.RFC3339)
}

// replicas says how many run at least and at most.
func replicas(m *apipb.Model) string {
	switch {
	case m.MaxReplicas == nil:
		return "-"
	case m.GetMinReplicas() == m.GetMaxReplicas():
		return fmt.Sprint(m.GetMaxReplicas())
	}
	return fmt.Sprintf("%d to %d", m.GetMinReplicas(), m.GetMaxReplicas())
}

type modelShowCmd struct {
	ctlFlags
	Name string `arg:"" help:"Name or alias of the model."`
}

// Run prints a model's entry.
func (c *modelShowCmd) Run(ctx context.Context, streams Streams) error {
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl model show: %w", err)
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	resp, err := client.Models.GetModel(ctx, &apipb.GetModelRequest{Name: c.Name})
	if err != nil {
		return fmt.Errorf("ctl model show: %w", c.failed(err))
	}
	return show(&c.ctlFlags, streams.Out, resp, writeModel)
}

// writeModel prints an entry that can be added, with what else is known of it as
// comments.
func writeModel(w io.Writer, r *apipb.GetModelResponse) error {
	w = printable{w}
	m := r.GetModel()
	fmt.Fprintf(w, "# from the %s\n", modelOrigin(m))
	if m.GetActor() != "" {
		fmt.Fprintf(w, "# by %s, revision %d, changed %s, added %s\n", m.GetActor(), m.GetRevision(), changedAt(m), m.GetCreatedAt().AsTime().UTC().Format(time.RFC3339))
	}
	for _, why := range m.GetSetAside() {
		fmt.Fprintf(w, "# set aside: %s\n", why)
	}
	_, err := io.WriteString(w, r.GetDefinition())
	return err
}

type modelAddCmd struct {
	ctlFlags
	File    string `short:"f" required:"" placeholder:"FILE" help:"YAML of one model, or of a list models; - is standard input."`
	Replace bool   `help:"Take the place of models of these names that were added before."`
}

// Run adds models.
func (c *modelAddCmd) Run(ctx context.Context, streams Streams) error {
	text, err := input(streams, c.File, "the model's definition", api.MaxDefinitionBytes)
	if err != nil {
		return fmt.Errorf("ctl model add: %w", err)
	}
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl model add: %w", err)
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	name := c.File
	if name == "-" {
		name = "standard input"
	}
	resp, err := client.Models.AddModel(ctx, &apipb.AddModelRequest{Definition: string(text), File: name, Replace: c.Replace, Actor: actor()})
	if err != nil {
		return fmt.Errorf("ctl model add: %w", eachOnItsLine(c.failed(err)))
	}
	for _, w := range resp.GetWarnings() {
		fmt.Fprintf(printable{streams.Err}, "llmgw: warning: %s\n", w)
	}
	return show(&c.ctlFlags, streams.Out, resp, func(w io.Writer, r *apipb.AddModelResponse) error {
		for _, m := range r.GetModels() {
			if _, err := fmt.Fprintf(printable{w}, "%s is in the catalog, revision %d\n", m.GetName(), m.GetRevision()); err != nil {
				return err
			}
		}
		return nil
	})
}

// eachOnItsLine is an error of several lines below what stands before it.
func eachOnItsLine(err error) error {
	if strings.Contains(err.Error(), "\n") {
		return fmt.Errorf("the definition has faults\n%w", err)
	}
	return err
}

type modelRemoveCmd struct {
	ctlFlags
	Name string `arg:"" help:"Name of the model; an alias is none."`
}

// Run removes a model.
func (c *modelRemoveCmd) Run(ctx context.Context, streams Streams) error {
	client, err := c.client()
	if err != nil {
		return fmt.Errorf("ctl model remove: %w", err)
	}
	ctx, cancel := withTime(ctx)
	defer cancel()
	resp, err := client.Models.RemoveModel(ctx, &apipb.RemoveModelRequest{Name: c.Name, Actor: actor()})
	if err != nil {
		return fmt.Errorf("ctl model remove: %w", c.failed(err))
	}
	return show(&c.ctlFlags, streams.Out, resp, func(w io.Writer, _ *apipb.RemoveModelResponse) error {
		_, err := fmt.Fprintf(printable{w}, "%s is removed\n", c.Name)
		return err
	})
}
