package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/llmgw/llmgw/fleet/pki"
)

type ctlCertCmd struct {
	Init   certInitCmd   `cmd:"" help:"Make the authority of a cluster."`
	Server certServerCmd `cmd:"" help:"Issue a certificate to a control plane or a mirror, with every name under which it is dialled."`
	Node   certNodeCmd   `cmd:"" help:"Issue a certificate to a node, whose agent must call itself the same."`
	Router certRouterCmd `cmd:"" help:"Issue a certificate to a router that is a process of its own."`
	Renew  certRenewCmd  `cmd:"" help:"Issue a certificate again, with the same names and a new key, into the same files."`
	Show   certShowCmd   `cmd:"" help:"Say what a certificate says, and what is wrong with it. Exit code 2 if something is."`
}

// lifetime is a duration that may be written in days.
type lifetime time.Duration

// UnmarshalText reads such as 90d or 12h.
func (l *lifetime) UnmarshalText(text []byte) error {
	if count, ok := strings.CutSuffix(string(text), "d"); ok {
		days, err := strconv.ParseUint(count, 10, 16)
		if err != nil {
			return fmt.Errorf("%q is no number of days; want such as 90d or 12h", text)
		}
		*l = lifetime(time.Duration(days) * 24 * time.Hour)
		return nil
	}
	d, err := time.ParseDuration(string(text))
	if err != nil || d < 0 {
		return fmt.Errorf("%q is no duration; want such as 90d or 12h", text)
	}
	*l = lifetime(d)
	return nil
}

// authorityFlags say which authority issues.
type authorityFlags struct {
	CA string `name:"ca" default:"ca" placeholder:"DIR" help:"Directory of the authority, by default ca."`
}

type certInitCmd struct {
	authorityFlags
	Cluster  string   `arg:"" help:"Name of the cluster, such as prod: lower-case letters, digits, - and dots."`
	Lifetime lifetime `default:"3650d" help:"How long it is valid, such as 3650d, which is the default."`
	JSON     bool     `name:"json" help:"Print one JSON object."`
}

// Run makes an authority where none is.
func (c *certInitCmd) Run(streams Streams) error {
	a, err := pki.NewAuthority(c.Cluster, time.Now(), time.Duration(c.Lifetime))
	if err == nil {
		err = pki.WriteAuthority(c.CA, a)
	}
	if err != nil {
		if errors.Is(err, pki.ErrExists) {
			err = fmt.Errorf("%w; an authority is never overwritten, since all that it issued would be worth nothing: name another directory with --ca", err)
		}
		return fmt.Errorf("ctl cert init: %w", err)
	}
	made := madeCert{
		CertFile: filepath.Join(c.CA, pki.AuthorityCertFile), KeyFile: filepath.Join(c.CA, pki.AuthorityKeyFile),
		Info: pki.Describe(a.Certificate()), State: certMade,
	}
	return writeMade(streams.Out, c.JSON, made)
}

// issueFlags are those of every verb that issues.
type issueFlags struct {
	authorityFlags
	Out      string   `short:"o" default:"." placeholder:"DIR" help:"Directory for ID.crt and ID.key, by default this one; it is made if it is not there."`
	Lifetime lifetime `default:"365d" help:"How long it is valid, such as 90d; 365d by default."`
	Force    bool     `help:"Replace files that are there."`
	JSON     bool     `name:"json" help:"Print one JSON object."`
}

// issue writes a certificate and says where.
func (f *issueFlags) issue(streams Streams, req pki.Request) error {
	made, err := f.write(req)
	if err != nil {
		return fmt.Errorf("ctl cert %s: %w", req.Role, err)
	}
	return writeMade(streams.Out, f.JSON, made)
}

func (f *issueFlags) write(req pki.Request) (madeCert, error) {
	a, err := pki.ReadAuthority(f.CA)
	if err != nil {
		return madeCert{}, err
	}
	req.Lifetime = time.Duration(f.Lifetime)
	pair, err := a.Issue(time.Now(), req)
	if err != nil {
		return madeCert{}, err
	}
	if err := os.MkdirAll(f.Out, 0o700); err != nil {
		return madeCert{}, err
	}
	made := madeCert{
		CertFile: filepath.Join(f.Out, req.ID+".crt"), KeyFile: filepath.Join(f.Out, req.ID+".key"),
		CAFile: filepath.Join(f.CA, pki.AuthorityCertFile), Info: pki.Describe(pair.Leaf), State: certMade,
	}
	err = pki.WritePair(made.CertFile, made.KeyFile, pair, f.Force)
	if errors.Is(err, pki.ErrExists) {
		err = fmt.Errorf("%w; --force replaces it, and llmgw ctl cert renew issues it again with the same names", err)
	}
	return made, err
}

type certServerCmd struct {
	ID string `arg:"" help:"Id of the server, such as cp-1; its files are called after it."`
	issueFlags
	Host    []string `sep:"," placeholder:"NAME" help:"DNS name or bare IP address under which it is dialled; several with commas or by giving the flag again. Every one must be there."`
	Service []string `sep:"," placeholder:"NAMESPACE/NAME" help:"Kubernetes Service under which it is reached: stands for NAME, NAME.NAMESPACE, NAME.NAMESPACE.svc and the full name."`
	Domain  string   `name:"cluster-domain" default:"cluster.local" placeholder:"DOMAIN" help:"Domain of the Kubernetes cluster, cluster.local by default."`
}

// Run issues a server's certificate.
func (c *certServerCmd) Run(streams Streams) error {
	hosts := c.Host
	for _, s := range c.Service {
		namespace, name, ok := strings.Cut(s, "/")
		if !ok {
			return fmt.Errorf("ctl cert server: --service %q has no namespace; want NAMESPACE/NAME", s)
		}
		names, err := pki.ServiceHosts(namespace, name, c.Domain)
		if err != nil {
			return fmt.Errorf("ctl cert server: --service %s: %w", s, err)
		}
		hosts = append(hosts, names...)
	}
	if len(hosts) == 0 {
		return fmt.Errorf("ctl cert server: %w; give them with --host", pki.ErrNoHosts)
	}
	return c.issue(streams, pki.Request{Role: pki.RoleServer, ID: c.ID, Hosts: hosts})
}

type certNodeCmd struct {
	ID string `arg:"" help:"Id of the node, by which its agent registers: its host name."`
	issueFlags
}

// Run issues a node's certificate.
func (c *certNodeCmd) Run(streams Streams) error {
	return c.issue(streams, pki.Request{Role: pki.RoleNode, ID: c.ID})
}

type certRouterCmd struct {
	ID string `arg:"" help:"Id of the router, such as its host name."`
	issueFlags
}

// Run issues a router's certificate.
func (c *certRouterCmd) Run(streams Streams) error {
	return c.issue(streams, pki.Request{Role: pki.RoleRouter, ID: c.ID})
}

type certRenewCmd struct {
	authorityFlags
	Files    []string `arg:"" name:"file" help:"Certificates, such as gpu-17.crt; the key stands beside each, as gpu-17.key."`
	Within   lifetime `placeholder:"DURATION" help:"Leave alone what is valid for longer than this, such as 30d; without it all are renewed."`
	Lifetime lifetime `placeholder:"DURATION" help:"How long they are valid, such as 90d; without it as long as the one before."`
	JSON     bool     `name:"json" help:"Print one JSON object a certificate."`
}

// Run renews each certificate; one that cannot be is no reason to leave the rest.
func (c *certRenewCmd) Run(streams Streams) error {
	a, err := pki.ReadAuthority(c.CA)
	if err != nil {
		return fmt.Errorf("ctl cert renew: %w", err)
	}
	failed := 0
	for _, file := range c.Files {
		made, err := c.renew(a, file)
		if err != nil {
			fmt.Fprintf(streams.Err, "llmgw: ctl cert renew: %s: %v\n", file, err)
			failed++
			continue
		}
		if err := writeMade(streams.Out, c.JSON, made); err != nil {
			return err
		}
	}
	if failed > 0 {
		return errReported
	}
	return nil
}

func (c *certRenewCmd) renew(a *pki.Authority, file string) (madeCert, error) {
	data, err := pki.ReadFile(file)
	if err != nil {
		return madeCert{}, err
	}
	chain, err := pki.ParseChain(data)
	if err != nil {
		return madeCert{}, err
	}
	old, now := chain[0], time.Now()
	made := madeCert{CertFile: file, KeyFile: keyBeside(file), CAFile: filepath.Join(c.CA, pki.AuthorityCertFile), Info: pki.Describe(old), State: certKept}
	if c.Within > 0 && old.NotAfter.Sub(now) > time.Duration(c.Within) {
		return made, a.Issued(old)
	}
	if made.KeyFile == file {
		return madeCert{}, errors.New("a certificate whose file ends in .key has no place for its key beside it")
	}
	pair, err := a.Renew(now, old, time.Duration(c.Lifetime))
	if err != nil {
		return madeCert{}, err
	}
	made.Info, made.State = pki.Describe(pair.Leaf), certRenewed
	return made, pki.WritePair(made.CertFile, made.KeyFile, pair, true)
}

// keyBeside is where the key of a certificate is by custom: gpu-17.key beside
// gpu-17.crt.
func keyBeside(certFile string) string {
	return strings.TrimSuffix(certFile, filepath.Ext(certFile)) + ".key"
}

// What became of a certificate.
const (
	certMade    = "made"
	certRenewed = "renewed"
	certKept    = "kept"
)

// madeCert is a certificate on disk.
type madeCert struct {
	State    string `json:"state"` // made, renewed, kept
	CertFile string `json:"cert_file"`
	KeyFile  string `json:"key_file"`
	CAFile   string `json:"ca_file,omitempty"` // of its authority; empty for an authority
	pki.Info
}

// writeMade prints it as text or as one JSON object.
func writeMade(w io.Writer, asJSON bool, m madeCert) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(m)
	}
	fmt.Fprintf(w, "%s: %s\n", m.State, describeOwner(m.Info))
	rows := [][2]string{
		{"certificate", m.CertFile},
		{"key", m.KeyFile},
		{"authority", m.CAFile},
		{"hosts", strings.Join(m.Hosts, ", ")},
		{"valid until", m.NotAfter.Format(time.RFC3339)},
	}
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(w, "  %-11s  %s\n", r[0], r[1])
		}
	}
	return nil
}

// describeOwner says whose a certificate is.
func describeOwner(i pki.Info) string {
	name := cmp.Or(i.Name, "no name")
	switch i.Role {
	case pki.RoleNone.String():
		return name + ", not of a fleet"
	case "authority":
		return "authority of cluster " + i.Cluster
	}
	return fmt.Sprintf("%s %s of cluster %s", i.Role, name, i.Cluster)
}
