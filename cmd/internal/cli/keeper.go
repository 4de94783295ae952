package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"strings"
	"syscall"
	"time"
	"unicode"

	"connectrpc.com/connect"

	"github.com/llmgw/llmgw/auth"
	"github.com/llmgw/llmgw/auth/account"
	server "github.com/llmgw/llmgw/cmd/internal/config/server"
	"github.com/llmgw/llmgw/cmd/internal/storedsn"
	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
	"github.com/llmgw/llmgw/fleet/controlplane/models"
	"github.com/llmgw/llmgw/placement/catalog"
	"github.com/llmgw/llmgw/router/gateway/gatewayapi"
)

// storeFlags name a store.
type storeFlags struct {
	Config string       `short:"c" placeholder:"FILE" help:"Configuration of the server, which says where the store is."`
	Store  storedsn.DSN `placeholder:"DSN" help:"The store, such as sqlite:/var/lib/llmgw/llmgw.db or postgres://user:password@host/database; before what the configuration says."`
}

// keeperFlags name who keeps keys and usage.
type keeperFlags struct {
	storeFlags
	Admin string `placeholder:"URL" help:"Admin listener of the server to ask. Default: admin_listen of the configuration, http://127.0.0.1:9090 without one; if nothing listens there the store is used."`
}

// Validate makes a wrong DSN a matter of usage.
func (f *storeFlags) Validate() error {
	if f.Store == "" {
		return nil
	}
	if err := f.Store.Validate(); err != nil {
		return fmt.Errorf("--store: %w", err)
	}
	return nil
}

// Validate makes what is wrong with a URL or a DSN a matter of usage.
func (f *keeperFlags) Validate() error {
	if f.Admin != "" {
		if err := (api.ClientConfig{URL: f.Admin}).Validate(); err != nil {
			return fmt.Errorf("--admin: %w", err)
		}
	}
	return f.storeFlags.Validate()
}

// use says what a command wants of a store.
type use int

const (
	useExisting use = iota // one that is there, as it is
	useAny                 // one that is made if it is not there
)

// probeTime bounds the question whether a server answers.
const probeTime = 5 * time.Second

// keeper keeps keys and usage: a server that runs, or its store.
type keeper struct {
	keys   api.Keys
	users  api.Users
	usage  api.Usage
	audit  api.Audit
	limits api.Limits // nil without a server
	url    string     // the server's; empty for a store
	close  func() error
}

// open finds who keeps the keys, and says so on standard error.
func (f *keeperFlags) open(ctx context.Context, streams Streams, how use) (*keeper, error) {
	cfg, err := server.Load(f.Config, environ())
	if err != nil {
		return nil, err
	}
	url := cmp.Or(f.Admin, adminURL(cfg))
	why := "which port the admin listener has is not known"
	if url != "" {
		k, reason, err := f.ask(ctx, url)
		if err != nil {
			return nil, err
		}
		if k != nil {
			fmt.Fprintf(streams.Err, "llmgw: asking the server at %s\n", url)
			return k, nil
		}
		why = reason
	}
	dsn, err := f.dsn(cfg, why)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(streams.Err, "llmgw: %s; using the store %s\n", why, dsn.Where())
	if f.Config != "" && !cfg.Auth.Enabled {
		fmt.Fprintf(streams.Err, "llmgw: warning: auth.enabled is false in %s, so that its server asks nobody for a key\n", f.Config)
	}
	return f.local(ctx, cfg, dsn, how)
}

// adminURL is where a configuration puts the admin listener; empty if a port is
// to be free.
func adminURL(cfg *server.Loaded) string {
	if _, port, err := net.SplitHostPort(cfg.AdminListen); err != nil || port == "0" {
		return ""
	}
	return "http://" + dialable(cfg.AdminListen)
}

// ask returns the server that answers at a URL as keeper. Without one it returns
// why the store is to be used instead.
func (f *keeperFlags) ask(ctx context.Context, url string) (k *keeper, instead string, err error) {
	client, err := api.NewClient(api.ClientConfig{URL: url, HTTP: &http.Client{Timeout: ctlTime}})
	if err != nil {
		return nil, "", err
	}
	probe, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	store, err := client.Keys.DescribeStore(probe, &apipb.DescribeStoreRequest{})
	failed := func() error { return (&ctlFlags{Admin: url}).failed(err) }
	switch code := connect.CodeOf(err); {
	case err == nil && (f.Store == "" || sameStore(f.Store, store.GetDsn())):
		limits := client.Limits
		return &keeper{keys: client.Keys, users: client.Users, usage: client.Usage, audit: client.Audit, limits: limits, url: url, close: func() error { return nil }}, "", nil
	case err == nil && f.Admin != "":
		return nil, "", fmt.Errorf("the server at %s keeps its keys in another store than --store says, %s; leave one of --admin and --store out", url, store.GetDsn())
	case err == nil:
		return nil, fmt.Sprintf("the server at %s has another store, %s", url, store.GetDsn()), nil
	case f.Admin != "" && f.Store == "":
		return nil, "", failed()
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, "nothing listens at " + url, nil
	case code == connect.CodeFailedPrecondition && f.Store == "":
		return nil, "", fmt.Errorf("%w; to work on a store nevertheless, name it with --store", failed())
	case code == connect.CodeFailedPrecondition:
		return nil, fmt.Sprintf("the server at %s keeps no keys", url), nil
	case (code == connect.CodeUnimplemented || code == connect.CodeUnauthenticated) && (f.Store != "" || f.Config != ""):
		// Something else has the port, such as Prometheus, whose default it is too.
		return nil, fmt.Sprintf("what answers at %s is not the admin listener of llmgw server", url), nil
	}
	// A server that is there and does not answer is not passed over: a revocation
	// would not be known to it.
	return nil, "", failed()
}

// dsn is the store that is named, or an error that says how to name one.
func (f *storeFlags) dsn(cfg *server.Loaded, why string) (storedsn.DSN, error) {
	switch {
	case f.Store != "":
		return f.Store, nil
	case f.Config != "" || exists(cfg.Store.DSN):
		return cfg.Store.DSN, nil
	}
	return "", fmt.Errorf("%s, and there is no store at hand; name the server's configuration with -c, or the store with --store", why)
}

// local opens a store as keeper.
func (f *storeFlags) local(ctx context.Context, cfg *server.Loaded, dsn storedsn.DSN, how use) (*keeper, error) {
	st, err := openStore(ctx, dsn, how)
	if err != nil {
		return nil, err
	}
	k, err := localKeeper(ctx, cfg, f.Config != "", st, dsn)
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return k, nil
}

// localKeeper answers from a store what a server would. Without a configuration that
// somebody named it is not known what models and bands there are.
func localKeeper(ctx context.Context, cfg *server.Loaded, named bool, st storedsn.Store, dsn storedsn.DSN) (*keeper, error) {
	makes := auth.IssuerDeps{Keys: st}
	if named {
		names, err := modelsOf(ctx, cfg, st)
		if err != nil {
			return nil, err
		}
		makes.Models = func() auth.Models { return names }
		for _, b := range cfg.Gateway.Admission.Core.Bands {
			makes.Bands = append(makes.Bands, b.Name)
		}
	}
	issuer, err := auth.NewIssuer(makes)
	if err != nil {
		return nil, err
	}
	accounts, err := account.New(cfg.Accounts, account.Deps{Store: st, Issuer: issuer})
	if err != nil {
		return nil, err
	}
	var pages *gatewayapi.Pages
	if cfg.HasPages() {
		pages = &gatewayapi.Pages{URL: func() (string, bool) { return cfg.Pages(cfg.Listen) }}
	}
	keys, err := gatewayapi.NewKeys(gatewayapi.KeysDeps{Store: st, Issuer: issuer, Accounts: accounts, Pages: pages, Where: dsn.Where()})
	if err != nil {
		return nil, err
	}
	users, err := gatewayapi.NewUsers(gatewayapi.UsersDeps{Accounts: accounts, Store: st, Pages: pages})
	if err != nil {
		return nil, err
	}
	return &keeper{keys: keys, users: users, usage: gatewayapi.Usage{Store: st}, audit: gatewayapi.Audit{Store: st}, close: st.Close}, nil
}

// openStore opens a store whose schema is this program's.
func openStore(ctx context.Context, dsn storedsn.DSN, how use) (storedsn.Store, error) {
	st, err := storedsn.Open(dsn, nil, nil)
	if err != nil {
		return nil, err
	}
	have, newest, err := st.Schema(ctx)
	switch {
	case err != nil:
	case have == 0 && how == useExisting:
		err = fmt.Errorf("there is no store at %s; llmgw server makes one, and so does llmgw keys create", dsn.Where())
	case have > 0 && have < newest:
		// A program that is older may still be at work on it.
		err = fmt.Errorf("the store %s has version %d of the schema and this program needs %d: run llmgw store migrate, after llmgw store backup with the older program", dsn.Where(), have, newest)
	default:
		err = st.Open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

// modelsOf are the models that a configuration names, and those that were added
// while a server ran.
func modelsOf(ctx context.Context, cfg *server.Loaded, st storedsn.Store) (auth.Models, error) {
	added, err := models.New(cfg.Gateway.Models, models.Deps{Store: st})
	if err != nil {
		return auth.Models{}, err
	}
	if err := added.Load(ctx); err != nil {
		return auth.Models{}, err
	}
	var served []string
	for _, e := range cfg.Gateway.Endpoints {
		for _, m := range e.Models {
			served = append(served, m.Name)
		}
	}
	c, err := catalog.New(catalog.WithServed(added.Current().Catalog.Models(), served))
	if err != nil {
		return auth.Models{}, err
	}
	return auth.Models{
		Version: 1,
		Resolve: func(name string) (string, bool) {
			m, ok := c.Resolve(name)
			if !ok {
				return "", false
			}
			return m.Name, true
		},
		Names: func() (names []string) {
			for _, m := range c.Models() {
				names = append(append(names, m.Name), m.Aliases...)
			}
			return names
		},
		Priced: c.Priced,
	}, nil
}

func exists(dsn storedsn.DSN) bool {
	path := dsn.File()
	if path == "" {
		return true
	}
	_, err := os.Stat(path)
	return err == nil
}

// sameStore reports whether a DSN means the store that a server told of.
func sameStore(dsn storedsn.DSN, told string) bool {
	mine, theirs := dsn.File(), storedsn.DSN(told).File()
	if mine != "" && theirs != "" {
		x, errX := os.Stat(mine)
		y, errY := os.Stat(theirs)
		return errX == nil && errY == nil && os.SameFile(x, y)
	}
	return dsn.Where() == told
}

// actor is who runs the command, for audit rows.
func actor() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, "cli:"+name+"@"+host)
	return strings.ToValidUTF8(text[:min(len(text), 200)], "")
}

// failed says what to do about an error of a call.
func (k *keeper) failed(err error) error {
	if k.url == "" {
		return err
	}
	return (&ctlFlags{Admin: k.url}).failed(err)
}
