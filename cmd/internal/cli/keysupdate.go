package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/llmgw/llmgw/fleet/apipb"
)

type keysUpdateCmd struct {
	keeperFlags
	ID                 string   `arg:"" help:"ID of the key."`
	Revision           int64    `placeholder:"N" help:"Change it only if it has that revision, as keys show has it. Without it whichever it has."`
	Name               *string  `placeholder:"TEXT" help:"What its owner calls it."`
	Owner              *string  `placeholder:"TEXT" help:"Who pays: a person or a team."`
	Models             []string `sep:"none" placeholder:"LIST" help:"Models that it may use, with commas between, in place of those that it may; all for every model."`
	AllowUnknownModels bool     `help:"Take names of models that there are not yet."`
	Band               *string  `placeholder:"BAND" help:"Priority class; default for the default band."`
	RPM                *int64   `name:"rpm" placeholder:"N" help:"Requests per minute; 0 for no limit."`
	TPM                *int64   `name:"tpm" placeholder:"N" help:"Tokens per minute; 0 for no limit."`
	Concurrency        *int64   `placeholder:"N" help:"Requests at once; 0 for no limit."`
	Budget             *string  `placeholder:"AMOUNT/PERIOD[@ZONE]" help:"What it may spend, as in keys create; none for no bound. What was spent in the period stays spent."`
	MayExplain         *bool    `negatable:"" help:"Let its requests learn how an endpoint is chosen, or with --no-may-explain not."`
	Expires            *string  `placeholder:"WHEN" help:"When it ends, as in keys create; how long counts from now."`
	Tag                tagFlags `placeholder:"NAME=VALUE" help:"A tag to set; may be given several times."`
	RemoveTag          []string `sep:"none" placeholder:"NAME" help:"A tag to take away; may be given several times."`
	JSON               bool     `name:"json" help:"Print one JSON object."`
}

// request is what the flags ask for, which is something.
func (c *keysUpdateCmd) request() (*apipb.UpdateKeyRequest, error) {
	req, err := c.change()
	if err != nil {
		return nil, err
	}
	if req.Name == nil && req.Owner == nil && req.Models == nil && req.Band == nil && req.Limits == nil && req.Budget == nil && req.Expires == nil &&
		req.MayExplain == nil && len(req.SetTags) == 0 && len(req.RemoveTags) == 0 {
		return nil, errors.New("there is nothing to change; say what, such as --budget 5/day")
	}
	return req, nil
}

// change is what the flags ask for. What takes something away has a word of its
// own, since an empty value is a script's variable that is not set.
func (c *keysUpdateCmd) change() (*apipb.UpdateKeyRequest, error) {
	made, err := (&keysCreateCmd{Name: c.Name, Owner: c.Owner, Models: c.Models, Band: c.Band, Budget: c.Budget, Expires: c.Expires}).request()
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "leave it out to have none", "leave it out to keep what there is"))
	}
	req := &apipb.UpdateKeyRequest{
		Id: c.ID, Revision: c.Revision, Name: c.Name, Owner: c.Owner, AllowUnknownModels: c.AllowUnknownModels, Band: c.Band, Budget: c.Budget,
		Expires: c.Expires, MayExplain: c.MayExplain, SetTags: c.Tag, RemoveTags: c.RemoveTag, Actor: actor(),
	}
	for _, word := range []struct {
		text **string
		none string
	}{{&req.Band, "default"}, {&req.Budget, "none"}} {
		if *word.text != nil && **word.text == word.none {
			*word.text = new("")
		}
	}
	if c.RPM != nil || c.TPM != nil || c.Concurrency != nil {
		req.Limits = &apipb.KeyLimits{RequestsPerMinute: c.RPM, TokensPerMinute: c.TPM, Concurrency: c.Concurrency}
	}
	switch list := made.GetModels(); {
	case len(list) == 1 && list[0] == "all":
		req.Models = &apipb.KeyModels{}
	case len(list) > 0:
		req.Models = &apipb.KeyModels{Models: list}
	}
	return req, nil
}

// Run changes a key.
func (c *keysUpdateCmd) Run(ctx context.Context, streams Streams) error {
	req, err := c.request()
	if err != nil {
		return fmt.Errorf("keys update: %w", err)
	}
	return c.with(ctx, streams, "keys update", useExisting, func(k *keeper) error {
		resp, err := k.keys.UpdateKey(ctx, req)
		if err != nil {
			return k.failed(err)
		}
		for _, w := range resp.GetWarnings() {
			fmt.Fprintf(streams.Err, "llmgw: warning: %s\n", w)
		}
		if k.url == "" {
			fmt.Fprintln(streams.Err, "llmgw: a server that runs notices within its auth.cache_ttl, 30s by default")
		} else {
			fmt.Fprintln(streams.Err, "llmgw: that server goes by it from now on; others notice within their auth.cache_ttl, 30s by default")
		}
		return show(&ctlFlags{JSON: c.JSON}, streams.Out, resp, func(w io.Writer, r *apipb.UpdateKeyResponse) error {
			return shownKey{key: &apipb.GetKeyResponse{Key: r.GetKey()}}.write(w)
		})
	})
}
