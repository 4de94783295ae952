package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

type usersCmd struct {
	List    usersListCmd    `cmd:"" help:"List those who signed up on the pages, by address."`
	Approve usersApproveCmd `cmd:"" help:"Let somebody in who signed up, or in again, and say what they may use."`
	Suspend usersSuspendCmd `cmd:"" help:"Keep somebody out, with all their keys."`
	Admin   usersAdminCmd   `cmd:"" help:"Let somebody look at the console, or not any more. It lets them change nothing."`
	Reset   usersResetCmd   `cmd:"" help:"Make a link by which somebody sets a new password, once."`
}

type usersListCmd struct {
	keeperFlags
	State string `enum:",pending,approved,suspended" default:"" placeholder:"STATE" help:"Only those who are pending, approved or suspended."`
	JSON  bool   `name:"json" help:"Print one JSON object."`
}

// Run lists users.
func (c *usersListCmd) Run(ctx context.Context, streams Streams) error {
	return c.with(ctx, streams, "users list", useExisting, func(k *keeper) error {
		all := &apipb.ListUsersResponse{}
		for req := (&apipb.ListUsersRequest{State: userState(c.State)}); ; {
			page, err := k.users.ListUsers(ctx, req)
			if err != nil {
				return k.failed(err)
			}
			all.Users = append(all.Users, page.GetUsers()...)
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		return show(&ctlFlags{JSON: c.JSON}, streams.Out, all, func(w io.Writer, list *apipb.ListUsersResponse) error {
			if len(list.GetUsers()) == 0 {
				_, err := fmt.Fprintln(w, "There are no users.")
				return err
			}
			return writeUsers(w, list.GetUsers()...)
		})
	})
}

// userState is the state of that name; of none any.
func userState(name string) apipb.UserState {
	return apipb.UserState(apipb.UserState_value["USER_STATE_"+strings.ToUpper(name)])
}

// stateName is what commands call a state.
func stateName(s apipb.UserState) string {
	return strings.ToLower(strings.TrimPrefix(s.String(), "USER_STATE_"))
}

// writeUsers prints a table for people.
func writeUsers(w io.Writer, list ...*apipb.User) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ADDRESS\tSTATE\tADMIN\tKEYS\tMODELS\tBAND\tLIMITS\tBUDGET\tSIGNED UP\tSIGNED IN")
	for _, u := range list {
		a := u.GetAllowance()
		admin, keys, models := "-", "-", "-"
		if u.GetAdmin() {
			admin = "yes"
		}
		if u.GetApprovedAt() != nil { // else nobody has said what they may use
			keys = fmt.Sprintf("%d of %d", u.GetKeys(), a.GetKeys())
			models = modelsText(&apipb.Key{Models: a.GetModels()}, 3)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cell(u.GetAddress()), stateName(u.GetState()), admin, keys, cell(models),
			cell(a.GetBand()), limitsText(a.GetLimits()), cell(a.GetBudget()), whenText(u.GetCreatedAt()), whenText(u.GetSignedInAt()))
	}
	return t.Flush()
}

// whenText is a time, or that it never came.
func whenText(t *timestamppb.Timestamp) string {
	if t == nil {
		return "never"
	}
	return timeText(t)
}

type usersApproveCmd struct {
	keeperFlags
	Address            string   `arg:"" help:"What they signed up with, such as ada@example.org."`
	Models             []string `sep:"none" placeholder:"LIST" help:"Models that their keys may use at most, with commas between: names, and patterns such as b/*; all for every model, as without it."`
	AllowUnknownModels bool     `help:"Take names of models that there are not yet."`
	Band               *string  `placeholder:"BAND" help:"Priority class of their keys; default for the default band, as without it."`
	RPM                *int64   `name:"rpm" placeholder:"N" help:"Requests per minute of all their keys together; 0 for no limit, as without it."`
	TPM                *int64   `name:"tpm" placeholder:"N" help:"Tokens per minute of all their keys together; 0 for no limit, as without it."`
	Concurrency        *int64   `placeholder:"N" help:"Requests at once of all their keys together; 0 for no limit, as without it."`
	Budget             *string  `placeholder:"AMOUNT/PERIOD[@ZONE]" help:"What all their keys may spend together, as in keys create; none for no bound, as without it."`
	Keys               *uint32  `placeholder:"N" help:"How many keys they may have. Without it accounts.max_keys of the configuration, 10 by default."`
	JSON               bool     `name:"json" help:"Print one JSON object."`
}

// request is what the flags ask for; what is not said stays as it is.
func (c *usersApproveCmd) request() (*apipb.ApproveUserRequest, error) {
	change, err := (&keysUpdateCmd{
		Models: c.Models, AllowUnknownModels: c.AllowUnknownModels, Band: c.Band, RPM: c.RPM, TPM: c.TPM, Concurrency: c.Concurrency, Budget: c.Budget,
	}).change()
	if err != nil {
		return nil, err
	}
	return &apipb.ApproveUserRequest{
		Address: c.Address, Models: change.Models, AllowUnknownModels: c.AllowUnknownModels, Band: change.Band, Limits: change.Limits, Budget: change.Budget,
		Keys: c.Keys, Actor: actor(),
	}, nil
}

// Run lets a user in.
func (c *usersApproveCmd) Run(ctx context.Context, streams Streams) error {
	req, err := c.request()
	if err != nil {
		return fmt.Errorf("users approve: %w", err)
	}
	return c.with(ctx, streams, "users approve", useExisting, func(k *keeper) error {
		resp, err := k.users.ApproveUser(ctx, req)
		if err != nil {
			return k.failed(err)
		}
		for _, w := range resp.GetWarnings() {
			fmt.Fprintf(streams.Err, "llmgw: warning: %s\n", w)
		}
		return show(&ctlFlags{JSON: c.JSON}, streams.Out, resp, func(w io.Writer, r *apipb.ApproveUserResponse) error {
			return writeUsers(w, r.GetUser())
		})
	})
}

type usersSuspendCmd struct {
	keeperFlags
	Address string `arg:"" help:"What they signed up with."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
}

// Run keeps a user out.
func (c *usersSuspendCmd) Run(ctx context.Context, streams Streams) error {
	return c.with(ctx, streams, "users suspend", useExisting, func(k *keeper) error {
		resp, err := k.users.SuspendUser(ctx, &apipb.SuspendUserRequest{Address: c.Address, Actor: actor()})
		if err != nil {
			return k.failed(err)
		}
		if k.url == "" {
			fmt.Fprintln(streams.Err, "llmgw: they are signed out; a server that runs refuses their keys within its auth.cache_ttl, 30s by default")
		} else {
			fmt.Fprintln(streams.Err, "llmgw: they are signed out, and that server and the routers that follow it refuse their keys from now on; others notice within their auth.cache_ttl, 30s by default")
		}
		return show(&ctlFlags{JSON: c.JSON}, streams.Out, resp, func(w io.Writer, r *apipb.SuspendUserResponse) error {
			return writeUsers(w, r.GetUser())
		})
	})
}

type usersAdminCmd struct {
	keeperFlags
	Address string `arg:"" help:"What they signed up with."`
	May     string `arg:"" name:"on|off" enum:"on,off" help:"on: they may look at the console, at /admin/ of the pages; off: for them it is not there."`
	JSON    bool   `name:"json" help:"Print one JSON object."`
}

// Run lets a user look at the console or not.
func (c *usersAdminCmd) Run(ctx context.Context, streams Streams) error {
	return c.with(ctx, streams, "users admin", useExisting, func(k *keeper) error {
		resp, err := k.users.SetUserAdmin(ctx, &apipb.SetUserAdminRequest{Address: c.Address, Admin: c.May == "on", Actor: actor()})
		if err != nil {
			return k.failed(err)
		}
		return show(&ctlFlags{JSON: c.JSON}, streams.Out, resp, func(w io.Writer, r *apipb.SetUserAdminResponse) error {
			return writeUsers(w, r.GetUser())
		})
	})
}

type usersResetCmd struct {
	keeperFlags
	Address string `arg:"" help:"What they signed up with."`
	JSON    bool   `name:"json" help:"Print one JSON object, with id, link and expires_at."`
}

// Run makes a link by which a user sets a password.
func (c *usersResetCmd) Run(ctx context.Context, streams Streams) error {
	return c.with(ctx, streams, "users reset", useExisting, func(k *keeper) error {
		resp, err := k.users.ResetUser(ctx, &apipb.ResetUserRequest{Address: c.Address, Actor: actor()})
		if err != nil {
			return k.failed(err)
		}
		return madeLink{resp.GetLink(), resp.GetUrl(), resp.GetWarnings()}.write(streams, c.JSON, "who opens it first sets the password")
	})
}
