package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/term"
	"google.golang.org/protobuf/proto"

	server "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/fleet/api"
)

type ctlCmd struct {
	ExplainRoute     explainRouteCmd     `cmd:"" help:"Say where a request would go now and why, without sending it. The request's body is read from standard input."`
	Status           ctlStatusCmd        `cmd:"" help:"Show what the fleet has, what of it is free, how its models stand, and what is wrong."`
	Models           ctlModelsCmd        `cmd:"" help:"Show the models that are placed: replicas wanted, ready, on their way, and why some are missing."`
	Replicas         ctlReplicasCmd      `cmd:"" help:"Show the replicas and their shards: where they are, how they are, and what is wrong with them."`
	ExplainPlacement explainPlacementCmd `cmd:"" help:"Say why a model's replicas are where they are and where one more would go: every node that would not do, and why."`
	WhatIf           whatIfCmd           `cmd:"" help:"Say what would move where, and what would have no place, if nodes were drained, gone or new, or models were wanted. Changes nothing."`
	Limits           ctlLimitsCmd        `cmd:"" help:"Say where the limits of a key stand: what the server checks its next request against."`
	Model            ctlModelCmd         `cmd:"" help:"Show the models of the catalog, and add and remove some while the server runs."`
	Cert             ctlCertCmd          `cmd:"" help:"Make the certificates of a fleet, and say what is wrong with one. Asks no server."`
	Nodes            ctlNodesCmd         `cmd:"" help:"Show the machines of the fleet, which cards are excluded and why, and what runs where."`
	Cordon           ctlCordonCmd        `cmd:"" help:"Keep new replicas off a node; what runs there stays."`
	Uncordon         ctlUncordonCmd      `cmd:"" help:"Let a node get replicas again."`
	Drain            ctlDrainCmd         `cmd:"" help:"Keep new replicas off a node, and move those that are there."`
	Forget           ctlForgetCmd        `cmd:"" help:"Remove a node that is gone for good."`
	EngineCheck      engineCheckCmd      `cmd:"" help:"Hold every flag that an adapter may give its engine against the help of the installed engine. Asks no server."`
}

// ctlFlags are those of every verb that asks a server.
type ctlFlags struct {
	Config string `short:"c" placeholder:"FILE" help:"Configuration of the server, which says where its admin listener is."`
	Admin  string `placeholder:"URL" help:"Admin listener of the server to ask. Default: admin_listen of the configuration, http://127.0.0.1:9090 without one."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// ctlTime bounds a question to a server.
const ctlTime = 30 * time.Second

// Validate makes the URL a matter of usage.
func (f *ctlFlags) Validate() error {
	if f.Admin == "" {
		return nil
	}
	if err := (api.ClientConfig{URL: f.Admin}).Validate(); err != nil {
		return fmt.Errorf("--admin: %w", err)
	}
	return nil
}

// client finds out where the server is and returns a client of it.
func (f *ctlFlags) client() (*api.Client, error) {
	if f.Admin == "" {
		cfg, err := server.Load(f.Config, environ())
		if err != nil {
			return nil, err
		}
		if f.Admin = adminURL(cfg); f.Admin == "" {
			return nil, fmt.Errorf("which port the admin listener has is not known from %s; name it with --admin", cmp.Or(f.Config, "the variables"))
		}
	}
	return api.NewClient(api.ClientConfig{URL: f.Admin})
}

// show prints an answer: as JSON, or by text.
func show[M proto.Message](f *ctlFlags, w io.Writer, m M, text func(io.Writer, M) error) error {
	if !f.JSON {
		return text(w, m)
	}
	data, err := api.MarshalJSON(m)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", data)
	return err
}

// failed says what to do about an error of a call.
func (f *ctlFlags) failed(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s: is llmgw server running on this machine? Its admin listener is admin_listen in the configuration; name one with -c, or it with --admin", f.Admin)
	}
	e, ok := errors.AsType[*connect.Error](err)
	if !ok {
		return err
	}
	switch e.Code() {
	case connect.CodeUnimplemented, connect.CodeUnauthenticated: // the client listener asks for a key
		return fmt.Errorf("what answers at %s has no such call: is that the admin listener of llmgw server, and of this version?", f.Admin)
	case connect.CodeUnavailable:
		if connect.IsWireError(err) { // the server's own word
			return errors.New(e.Message())
		}
		return fmt.Errorf("%s does not answer: %s", f.Admin, e.Message())
	case connect.CodeDeadlineExceeded:
		return fmt.Errorf("%s did not answer within %v: %s", f.Admin, ctlTime, e.Message())
	case connect.CodeInvalidArgument, connect.CodeNotFound:
		return errors.New(e.Message())
	case connect.CodeFailedPrecondition:
		return fmt.Errorf("%s: %s", f.Admin, e.Message())
	case connect.CodeCanceled, connect.CodeUnknown, connect.CodeAlreadyExists, connect.CodePermissionDenied,
		connect.CodeResourceExhausted, connect.CodeAborted, connect.CodeOutOfRange,
		connect.CodeInternal, connect.CodeDataLoss:
	}
	return fmt.Errorf("%s: %w", f.Admin, e)
}

// input reads a file or, where name is empty or "-", standard input, of which a
// person at a terminal is told. What is longer than limit is an error.
func input(streams Streams, name, what string, limit int64) ([]byte, error) {
	in := streams.In
	if name != "" && name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	} else if in == nil {
		return nil, fmt.Errorf("there is no standard input to read %s from; name a file", what)
	} else if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprintf(streams.Err, "llmgw: reading %s from this terminal; Ctrl-D ends it\n", what)
	}
	data, err := io.ReadAll(io.LimitReader(in, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is longer than %d bytes, which is more than the server reads", what, limit)
	}
	return data, nil
}

// withTime bounds a call.
func withTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, ctlTime)
}
