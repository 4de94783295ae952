package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/llmgw/llmgw/fleet/api"
	"github.com/llmgw/llmgw/fleet/apipb"
)

type keysCmd struct {
	Create keysCreateCmd `cmd:"" help:"Make a key and print it, once."`
	List   keysListCmd   `cmd:"" help:"List all keys, the newest first."`
	Show   keysShowCmd   `cmd:"" help:"Show a key, and where its limits and its budget stand."`
	Update keysUpdateCmd `cmd:"" help:"Change a key."`
	Revoke keysRevokeCmd `cmd:"" help:"End a key."`
	Rotate keysRotateCmd `cmd:"" help:"Make a key like another one, and give that one an end."`
}

type keysCreateCmd struct {
	keeperFlags
	Name               *string  `placeholder:"TEXT" help:"What its owner calls it."`
	Owner              *string  `placeholder:"TEXT" help:"Who pays: a person or a team."`
	Models             []string `sep:"none" placeholder:"LIST" help:"Models that it may use, with commas between: names, and patterns such as b/*. Without it every model."`
	AllowUnknownModels bool     `help:"Take names of models that there are not yet."`
	Band               *string  `placeholder:"BAND" help:"Priority class. Without it the default band."`
	RPM                *int64   `name:"rpm" placeholder:"N" help:"Requests per minute."`
	TPM                *int64   `name:"tpm" placeholder:"N" help:"Tokens per minute."`
	Concurrency        *int64   `placeholder:"N" help:"Requests at once."`
	Budget             *string  `placeholder:"AMOUNT/PERIOD[@ZONE]" help:"What it may spend in a day, week, month or in total, such as 1.50/day or 100/month@Europe/Berlin. Days begin in UTC without a zone."`
	MayExplain         bool     `help:"Let its requests learn which endpoints there are and how one is chosen, by the header x-llmgw-explain."`
	Expires            *string  `placeholder:"WHEN" help:"When it ends: a time such as 2027-01-31T00:00:00Z, how long it lives, such as 90d or 12h, or never. Without it never."`
	Tag                tagFlags `placeholder:"NAME=VALUE" help:"A tag of yours; may be given several times."`
	Link               bool     `help:"Make no key but a link that makes it when it is opened, once: the key is seen by who opens it and by nobody else."`
	LinkLife           linkLife `embed:"" prefix:"link-"`
	JSON               bool     `name:"json" help:"Print one JSON object, with id and key."`
}

// Validate makes a flag that counts for nothing a matter of usage.
func (c *keysCreateCmd) Validate() error {
	if c.LinkLife.Expires != nil && !c.Link {
		return errors.New("--link-expires: says how long a link can be opened; want --link with it")
	}
	return c.keeperFlags.Validate()
}

// request is what the flags ask for. An empty value is refused, since it means
// less than was meant: a script's variable that is not set.
func (c *keysCreateCmd) request() (*apipb.CreateKeyRequest, error) {
	req := &apipb.CreateKeyRequest{
		AllowUnknownModels: c.AllowUnknownModels, MayExplain: c.MayExplain, Tags: c.Tag, Actor: actor(),
		Limits: &apipb.KeyLimits{RequestsPerMinute: c.RPM, TokensPerMinute: c.TPM, Concurrency: c.Concurrency},
	}
	for _, list := range c.Models {
		for m := range strings.SplitSeq(list, ",") {
			if m == "" {
				return nil, errors.New("--models has an empty name; want such as a,b/*, or leave it out for every model")
			}
			req.Models = append(req.Models, m)
		}
	}
	for _, t := range []struct {
		flag string
		from *string
		to   *string
	}{{"name", c.Name, &req.Name}, {"owner", c.Owner, &req.Owner}, {"band", c.Band, &req.Band}, {"budget", c.Budget, &req.Budget}, {"expires", c.Expires, &req.Expires}} {
		switch {
		case t.from == nil:
		case *t.from == "":
			return nil, fmt.Errorf("--%s is empty; leave it out to have none", t.flag)
		default:
			*t.to = *t.from
		}
	}
	return req, nil
}

// Run makes a key.
func (c *keysCreateCmd) Run(ctx context.Context, streams Streams) error {
	req, err := c.request()
	if err != nil {
		return fmt.Errorf("keys create: %w", err)
	}
	if c.Link {
		return c.makeLink(ctx, streams, req)
	}
	return c.with(ctx, streams, "keys create", useAny, func(k *keeper) error {
		resp, err := k.keys.CreateKey(ctx, req)
		if err != nil {
			return k.failed(err)
		}
		return madeKey{Key: resp.GetKey(), Secret: resp.GetSecret(), Warnings: resp.GetWarnings()}.write(streams, c.JSON)
	})
}

// makeLink makes a link in place of the key.
func (c *keysCreateCmd) makeLink(ctx context.Context, streams Streams, key *apipb.CreateKeyRequest) error {
	life, err := c.LinkLife.life()
	if err != nil {
		return fmt.Errorf("keys create: %w", err)
	}
	return c.with(ctx, streams, "keys create", useAny, func(k *keeper) error {
		resp, err := k.keys.CreateKeyLink(ctx, &apipb.CreateKeyLinkRequest{Key: key, Life: life})
		if err != nil {
			return k.failed(err)
		}
		return madeLink{resp.GetLink(), resp.GetUrl(), resp.GetWarnings()}.write(streams, c.JSON, "who opens it first has the key")
	})
}

// with opens who keeps the keys for f.
func (f *keeperFlags) with(ctx context.Context, streams Streams, command string, how use, do func(k *keeper) error) error {
	k, err := f.open(ctx, streams, how)
	if err == nil {
		err = errors.Join(do(k), k.close())
	}
	if err != nil && !errors.Is(err, errReported) {
		return fmt.Errorf("%s: %w", command, err)
	}
	return err
}

// madeKey is a new key with its text.
type madeKey struct {
	Key      *apipb.Key
	Secret   string
	Warnings []string
	Old      *apipb.Key // of a rotation; else nil
	// NotEnded is why Old was given no end; nil if it was.
	NotEnded *string
}

// write prints the key's text, and nothing else that looks like it: programs find
// it by "key: " at the beginning of a line, or in JSON.
func (m madeKey) write(streams Streams, asJSON bool) error {
	for _, w := range m.Warnings {
		fmt.Fprintf(streams.Err, "llmgw: warning: %s\n", w)
	}
	if asJSON {
		record, err := api.MarshalJSON(m.Key)
		if err != nil {
			return err
		}
		doc := struct {
			ID       string          `json:"id"`
			Key      string          `json:"key"`
			Record   json.RawMessage `json:"record"`
			Warnings []string        `json:"warnings"`
			Old      json.RawMessage `json:"old,omitempty"`
			NotEnded *string         `json:"old_not_ended,omitempty"`
		}{ID: m.Key.GetId(), Key: m.Secret, Record: record, Warnings: append([]string{}, m.Warnings...), NotEnded: m.NotEnded}
		if m.Old != nil {
			if doc.Old, err = api.MarshalJSON(m.Old); err != nil {
				return err
			}
		}
		return json.NewEncoder(streams.Out).Encode(doc)
	}
	_, err := fmt.Fprintf(streams.Out, "id: %s\nkey: %s\n", m.Key.GetId(), m.Secret)
	if err == nil {
		fmt.Fprintln(streams.Err, "llmgw: the key is shown this once; only its hash is kept")
	}
	return err
}

type keysListCmd struct {
	keeperFlags
	Owner  string `placeholder:"TEXT" help:"Only the keys of that owner."`
	Usable bool   `help:"Leave out what was revoked or has expired."`
	JSON   bool   `name:"json" help:"Print one JSON object."`
}

// Run lists keys.
func (c *keysListCmd) Run(ctx context.Context, streams Streams) error {
	return c.with(ctx, streams, "keys list", useExisting, func(k *keeper) error {
		all := &apipb.ListKeysResponse{}
		for req := (&apipb.ListKeysRequest{Owner: c.Owner, UsableOnly: c.Usable}); ; {
			page, err := k.keys.ListKeys(ctx, req)
			if err != nil {
				return k.failed(err)
			}
			all.Keys = append(all.Keys, page.GetKeys()...)
			if req.PageToken = page.GetNextPageToken(); req.PageToken == "" {
				break
			}
		}
		return show(&ctlFlags{JSON: c.JSON}, streams.Out, all, writeKeys)
	})
}

// writeKeys prints a table for people.
func writeKeys(w io.Writer, list *apipb.ListKeysResponse) error {
	if len(list.GetKeys()) == 0 {
		_, err := fmt.Fprintln(w, "There are no keys.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tHINT\tNAME\tOWNER\tMODELS\tBAND\tLIMITS\tBUDGET\tSTATE")
	for _, k := range list.GetKeys() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.GetId(), cell(k.GetHint()), cell(k.GetName()), cell(k.GetOwner()),
			cell(modelsText(k, 3)), cell(k.GetBand()), limitsText(k.GetLimits()), cell(k.GetBudget()), stateText(k))
	}
	return t.Flush()
}

// cell is a text in a table: what is not there is a dash, and what would break
// the table is replaced.
func cell(s string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, s), "-")
}

// modelsText is a key's list of models, at most most of them.
func modelsText(k *apipb.Key, most int) string {
	list := k.GetModels()
	switch {
	case len(list) == 0:
		return "every"
	case len(list) > most:
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

func limitsText(l *apipb.KeyLimits) string {
	var parts []string
	for _, one := range []struct {
		n    *int64
		unit string
	}{{l.RequestsPerMinute, "rpm"}, {l.TokensPerMinute, "tpm"}, {l.Concurrency, "at once"}} {
		if one.n != nil {
			parts = append(parts, fmt.Sprintf("%d %s", *one.n, one.unit))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "-")
}

// stateText says what a key is good for.
func stateText(k *apipb.Key) string {
	switch k.GetState() {
	case apipb.KeyState_KEY_STATE_USABLE:
		if k.GetExpiresAt() != nil {
			return "usable until " + timeText(k.GetExpiresAt())
		}
		return "usable"
	case apipb.KeyState_KEY_STATE_EXPIRED:
		return "expired " + timeText(k.GetExpiresAt())
	case apipb.KeyState_KEY_STATE_REVOKED:
		return "revoked " + timeText(k.GetRevokedAt())
	case apipb.KeyState_KEY_STATE_SUSPENDED:
		return "suspended"
	case apipb.KeyState_KEY_STATE_UNSPECIFIED:
	}
	return k.GetState().String()
}

func timeText(t *timestamppb.Timestamp) string { return t.AsTime().Format(time.RFC3339) }

type keysShowCmd struct {
	keeperFlags
	ID   string `arg:"" help:"ID of the key, such as key_abcdefghijklmnopqrst."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

// shownKey is a key with where it stands.
type shownKey struct {
	key    *apipb.GetKeyResponse
	limits *apipb.GetLimitsResponse // nil: no server was asked, or none that enforces limits
}

// Run shows a key.
func (c *keysShowCmd) Run(ctx context.Context, streams Streams) error {
	return c.with(ctx, streams, "keys show", useExisting, func(k *keeper) error {
		var s shownKey
		var err error
		if s.key, err = k.keys.GetKey(ctx, &apipb.GetKeyRequest{Id: c.ID}); err != nil {
			return k.failed(err)
		}
		if k.limits != nil {
			s.limits, err = k.limits.GetLimits(ctx, &apipb.GetLimitsRequest{KeyId: c.ID})
			if err != nil {
				fmt.Fprintf(streams.Err, "llmgw: where the limits stand is not known: %v\n", k.failed(err))
			}
		}
		if c.JSON {
			return s.writeJSON(streams.Out)
		}
		return s.write(streams.Out)
	})
}

func (s shownKey) writeJSON(w io.Writer) error {
	whole, err := api.MarshalJSON(s.key)
	if err != nil {
		return err
	}
	var doc struct {
		Key    json.RawMessage `json:"key"`
		Budget json.RawMessage `json:"budget,omitempty"`
		Limits json.RawMessage `json:"limits,omitempty"`
	}
	if err := json.Unmarshal(whole, &doc); err != nil {
		return err
	}
	if s.limits != nil {
		if doc.Limits, err = api.MarshalJSON(s.limits); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(doc)
}

// write prints everything about the key for people.
func (s shownKey) write(w io.Writer) error {
	k := s.key.GetKey()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(t, "%s\t%s\n", name, cell(value)) }
	line("id", k.GetId())
	line("hint", k.GetHint())
	line("name", k.GetName())
	line("owner", k.GetOwner())
	if k.GetAccount() != "" {
		line("user", k.GetAccount())
	}
	line("state", stateText(k))
	line("models", modelsText(k, len(k.GetModels())))
	line("band", cmp.Or(k.GetBand(), "the default"))
	line("limits", limitsText(k.GetLimits()))
	line("budget", k.GetBudget())
	if b := s.key.GetBudget(); b != nil {
		line("spent", budgetText(b))
	}
	if k.GetMayExplain() {
		line("explain", "its requests may learn how endpoints are chosen")
	}
	for _, name := range slices.Sorted(maps.Keys(k.GetTags())) {
		line("tag", name+"="+k.GetTags()[name])
	}
	line("created", timeText(k.GetCreatedAt()))
	if k.Replaces != nil {
		line("replaces", k.GetReplaces())
	}
	if k.GetLineage() != k.GetId() {
		line("lineage", k.GetLineage()+", by which limits and the budget are counted")
	}
	line("revision", fmt.Sprint(k.GetRevision()))
	if s.limits == nil {
		return t.Flush()
	}
	fmt.Fprintln(t)
	writeStanding(t, s.limits)
	return t.Flush()
}

// budgetText is where a budget stands by the store's word.
func budgetText(b *apipb.KeyBudget) string {
	text := amount(b.GetSpentNanos()) + " of " + amount(b.GetLimitNanos())
	if set := b.GetGrantedNanos(); set > 0 {
		text += ", " + amount(set) + " set aside by servers, spent or not"
	}
	return text + periodText(b.GetStart(), b.GetEnd())
}

// periodText is when a budget's period is; nothing for one that has no end.
func periodText(start, end *timestamppb.Timestamp) string {
	if end == nil {
		return ""
	}
	return fmt.Sprintf(" (from %s to %s)", timeText(start), timeText(end))
}

type keysRevokeCmd struct {
	keeperFlags
	ID   string `arg:"" help:"ID of the key, or of a link that nobody has opened yet."`
	JSON bool   `name:"json" help:"Print one JSON object."`
}

// Run ends a key, or takes a link back.
func (c *keysRevokeCmd) Run(ctx context.Context, streams Streams) error {
	if strings.HasPrefix(c.ID, "link_") {
		return c.takeBack(ctx, streams)
	}
	return c.with(ctx, streams, "keys revoke", useExisting, func(k *keeper) error {
		resp, err := k.keys.RevokeKey(ctx, &apipb.RevokeKeyRequest{Id: c.ID, Actor: actor()})
		if err != nil {
			return k.failed(err)
		}
		if k.url == "" {
			fmt.Fprintln(streams.Err, "llmgw: a server that runs notices within its auth.cache_ttl, 30s by default")
		} else {
			fmt.Fprintln(streams.Err, "llmgw: that server refuses it from now on; others notice within their auth.cache_ttl, 30s by default")
		}
		return show(&ctlFlags{JSON: c.JSON}, streams.Out, resp, func(w io.Writer, r *apipb.RevokeKeyResponse) error {
			_, err := fmt.Fprintf(w, "%s %s\n", r.GetKey().GetId(), stateText(r.GetKey()))
			return err
		})
	})
}

// takeBack ends a link.
func (c *keysRevokeCmd) takeBack(ctx context.Context, streams Streams) error {
	return c.with(ctx, streams, "keys revoke", useExisting, func(k *keeper) error {
		resp, err := k.keys.RevokeKeyLink(ctx, &apipb.RevokeKeyLinkRequest{Id: c.ID, Actor: actor()})
		if err != nil {
			return k.failed(err)
		}
		if key := resp.GetLink().GetKeyId(); key != "" {
			fmt.Fprintf(streams.Err, "llmgw: it was opened before, and made a key that goes on: llmgw keys revoke %s\n", key)
		}
		return show(&ctlFlags{JSON: c.JSON}, streams.Out, resp, func(w io.Writer, r *apipb.RevokeKeyLinkResponse) error {
			word := "taken back"
			if r.GetLink().GetKeyId() != "" {
				word = "opened"
			}
			_, err := fmt.Fprintf(w, "%s %s %s\n", r.GetLink().GetId(), word, timeText(r.GetLink().GetUsedAt()))
			return err
		})
	})
}

type keysRotateCmd struct {
	keeperFlags
	ID      string  `arg:"" help:"ID of the key to replace."`
	Overlap string  `default:"24h" placeholder:"TIME" help:"How long the old key goes on, such as 24h or 7d; 0 ends it at once. Default ${default}."`
	Expires *string `placeholder:"WHEN" help:"When the new key ends, as in keys create. Without it, it lives as long as the old one was meant to."`
	JSON    bool    `name:"json" help:"Print one JSON object, with id and key."`
}

// Run replaces a key.
func (c *keysRotateCmd) Run(ctx context.Context, streams Streams) error {
	overlap, err := parseTime(c.Overlap)
	if err != nil {
		return fmt.Errorf("keys rotate: --overlap: %w", err)
	}
	req := &apipb.RotateKeyRequest{Id: c.ID, Overlap: durationpb.New(overlap), Actor: actor()}
	if c.Expires != nil {
		if req.Expires = *c.Expires; req.Expires == "" {
			return errors.New("keys rotate: --expires is empty; leave it out to have none")
		}
	}
	return c.with(ctx, streams, "keys rotate", useExisting, func(k *keeper) error {
		resp, err := k.keys.RotateKey(ctx, req)
		if err != nil {
			return k.failed(err)
		}
		made := madeKey{Key: resp.GetKey(), Secret: resp.GetSecret(), Warnings: resp.GetWarnings(), Old: resp.GetOld(), NotEnded: resp.OldNotEnded}
		if err := made.write(streams, c.JSON); err != nil {
			return err
		}
		if made.NotEnded != nil {
			return fmt.Errorf("%s; the new key is good, and the old one goes on: llmgw keys revoke %s, when the new one is in use", *made.NotEnded, c.ID)
		}
		fmt.Fprintf(streams.Err, "llmgw: the new key %s: %s\n", made.Key.GetId(), stateText(made.Key))
		if made.Old != nil {
			fmt.Fprintf(streams.Err, "llmgw: the old key %s: %s\n", made.Old.GetId(), stateText(made.Old))
		}
		return nil
	})
}
