package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/llmgw/llmgw/fleet/apipb"
)

// linkLife is how long a link can be opened.
type linkLife struct {
	Expires *string `placeholder:"TIME" help:"How long the link can be opened, such as 24h or 7d. Without it accounts.link_life of the configuration, 72h by default."`
}

// life is what was said, or nil.
func (l linkLife) life() (*durationpb.Duration, error) {
	if l.Expires == nil {
		return nil, nil //nolint:nilnil // that nothing was said is no error
	}
	if *l.Expires == "" {
		return nil, errors.New("--link-expires is empty; leave it out to have what the configuration says")
	}
	d, err := parseTime(*l.Expires)
	if err != nil {
		return nil, fmt.Errorf("--link-expires: %w", err)
	}
	return durationpb.New(d), nil
}

// madeLink is a new link, with where it is opened.
type madeLink struct {
	link     *apipb.Link
	url      string
	warnings []string
}

// write prints the link, and nothing else that looks like it: programs find it by
// "link: " at the beginning of a line, or in JSON. what says what opening it does.
func (m madeLink) write(streams Streams, asJSON bool, what string) error {
	for _, w := range m.warnings {
		fmt.Fprintf(streams.Err, "llmgw: warning: %s\n", w)
	}
	if asJSON {
		return json.NewEncoder(streams.Out).Encode(struct {
			ID        string    `json:"id"`
			Link      string    `json:"link"`
			ExpiresAt time.Time `json:"expires_at"`
			Warnings  []string  `json:"warnings"`
		}{m.link.GetId(), m.url, m.link.GetExpiresAt().AsTime(), append([]string{}, m.warnings...)})
	}
	_, err := fmt.Fprintf(streams.Out, "id: %s\nlink: %s\nexpires: %s\n", m.link.GetId(), m.url, timeText(m.link.GetExpiresAt()))
	if err == nil {
		fmt.Fprintf(streams.Err, "llmgw: the link is shown this once, and %s; llmgw keys revoke %s takes it back\n", what, m.link.GetId())
	}
	return err
}
