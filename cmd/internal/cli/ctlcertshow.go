package cli

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/llmgw/llmgw/fleet/pki"
)

// exitFaulty is the code of ctl cert show where all was read and something is
// wrong.
const exitFaulty = 2

type certShowCmd struct {
	Files  []string `arg:"" name:"file" help:"Certificates, such as gpu-17.crt, or a bundle of authorities."`
	CA     string   `name:"ca" placeholder:"PATH" help:"Authority that must have issued them: a bundle, or the directory of an authority."`
	Key    string   `placeholder:"FILE" help:"Private key of the one certificate; without it gpu-17.key beside gpu-17.crt, if there is one."`
	Host   []string `sep:"," placeholder:"NAME" help:"Name or address under which it must be accepted; several with commas or by giving the flag again."`
	Role   string   `enum:"node,router,server," default:"" placeholder:"ROLE" help:"What it must be of: node, router or server."`
	Within lifetime `placeholder:"DURATION" help:"Say it is wrong if it is valid for less than this, such as 30d."`
	JSON   bool     `name:"json" help:"Print one JSON object."`
}

// Validate makes flags that contradict each other a matter of usage.
func (c *certShowCmd) Validate() error {
	if c.Key != "" && len(c.Files) > 1 {
		return errors.New("--key is for one certificate, and there are several")
	}
	return nil
}

// Run shows each certificate.
func (c *certShowCmd) Run(streams Streams) error {
	shown, err := c.examineAll(time.Now())
	if err != nil {
		return fmt.Errorf("ctl cert show: %w", err)
	}
	if err := shown.write(streams.Out, c.JSON); err != nil {
		return err
	}
	return shown.verdict()
}

// examineAll holds every file against what the flags ask for.
func (c *certShowCmd) examineAll(now time.Time) (shownCerts, error) {
	want := pki.Expect{Hosts: c.Host, Left: time.Duration(c.Within)}
	want.Role, _ = pki.ParseRole(c.Role) // kong has checked it; empty asks for none
	if c.CA != "" {
		roots, err := readRoots(c.CA)
		if err != nil {
			return shownCerts{}, err
		}
		want.Roots = roots
	}
	var shown shownCerts
	for _, file := range c.Files {
		certs, err := c.examine(now, file, want)
		if err != nil {
			return shownCerts{}, err
		}
		shown.Certificates = append(shown.Certificates, certs...)
	}
	return shown, nil
}

// readRoots reads a bundle, or that in an authority's directory.
func readRoots(path string) ([]*x509.Certificate, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, pki.AuthorityCertFile)
	}
	data, err := pki.ReadFile(path)
	if err != nil {
		return nil, err
	}
	roots, err := pki.ParseBundle(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return roots, nil
}

// examine reads a file: a certificate with its chain, or authorities, each of
// which is looked at by itself.
func (c *certShowCmd) examine(now time.Time, file string, want pki.Expect) ([]shownCert, error) {
	data, err := pki.ReadFile(file)
	if err != nil {
		return nil, err
	}
	chain, err := pki.ParseChain(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	heads := chain[:1]
	if chain[0].IsCA {
		heads = chain
	}
	var out []shownCert
	for i, cert := range heads {
		shown := shownCert{File: file, Info: pki.Describe(cert), LeftSeconds: int64(cert.NotAfter.Sub(now) / time.Second)}
		shown.Faults = append([]pki.Fault{}, pki.Examine(now, chain[i:], want)...)
		if i == 0 {
			key, faults, err := c.examineKey(cert, file, data)
			if err != nil {
				return nil, err
			}
			shown.Key, shown.Faults = key, append(shown.Faults, faults...)
		}
		out = append(out, shown)
	}
	return out, nil
}

// What is known of a key.
const (
	keyMatches    = "matches"
	keyMismatch   = "mismatch"
	keyAbsent     = "absent"
	keyUnreadable = "unreadable"
)

// examineKey looks for the key: the one that was named, the one beside the
// certificate, or one in the same file.
func (c *certShowCmd) examineKey(cert *x509.Certificate, certFile string, certData []byte) (certKey, []pki.Fault, error) {
	file := c.Key
	if file == "" {
		file = keyBeside(certFile)
	}
	data, err := pki.ReadFile(file)
	switch {
	case err != nil && c.Key != "":
		return certKey{}, nil, err
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(string(certData), "PRIVATE KEY-----"):
		file, data = certFile, certData
	case errors.Is(err, fs.ErrNotExist):
		return certKey{State: keyAbsent}, nil, nil
	case err != nil:
		return certKey{File: file, State: keyUnreadable}, nil, nil //nolint:nilerr // told by its state
	}
	faults, err := pki.ExamineKey(cert, data)
	if err != nil {
		return certKey{}, nil, fmt.Errorf("%s: %w", file, err)
	}
	key := certKey{File: file, State: keyMatches}
	if len(faults) > 0 {
		key.State = keyMismatch
	}
	return key, append(faults, examineMode(cert, file)...), nil
}

// examineMode holds a key's mode against who may read it: of an authority its
// owner, of others also a group, as where Kubernetes mounts it.
func examineMode(cert *x509.Certificate, file string) []pki.Fault {
	forbidden := fs.FileMode(0o007)
	if cert.IsCA {
		forbidden = 0o077
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm()&forbidden == 0 || os.PathSeparator != '/' {
		return nil
	}
	return []pki.Fault{{Code: pki.FaultKeyOpen, Text: fmt.Sprintf("others can read or write the private key %s (mode %04o); chmod 600 it, and issue it again if somebody did", file, info.Mode().Perm())}}
}

// shownCerts is what the command prints.
type shownCerts struct {
	Certificates []shownCert `json:"certificates"`
}

// shownCert is one certificate and what is wrong with it.
type shownCert struct {
	File string `json:"file"`
	pki.Info
	LeftSeconds int64       `json:"left_seconds"` // negative once it has expired
	Key         certKey     `json:"key"`
	Faults      []pki.Fault `json:"faults"`
}

// certKey is where a key is and whether it is the certificate's.
type certKey struct {
	File  string `json:"file,omitempty"`
	State string `json:"state,omitempty"` // matches, mismatch, absent, unreadable; empty for an authority that is not the first of a bundle
}

func (s shownCerts) write(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(s)
	}
	for i, c := range s.Certificates {
		if i > 0 {
			fmt.Fprintln(w)
		}
		c.write(printable{w})
	}
	return nil
}

func (c shownCert) write(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\n", c.File, oneLine(describeOwner(c.Info)))
	left := shortDuration(time.Duration(c.LeftSeconds)*time.Second) + " left"
	if c.LeftSeconds < 0 {
		left = "expired"
	}
	key := c.Key.State
	switch key {
	case keyMatches:
		key = c.Key.File + ", belongs to it"
	case keyMismatch:
		key = c.Key.File + ", does not belong to it"
	case keyAbsent:
		key = "not here"
	case keyUnreadable:
		key = c.Key.File + ", cannot be read"
	}
	rows := [][2]string{
		{"hosts", strings.Join(c.Hosts, ", ")},
		{"proves itself as", strings.Join(c.Usages, ", ")},
		{"valid", fmt.Sprintf("%s to %s, %s", c.NotBefore.Format(time.RFC3339), c.NotAfter.Format(time.RFC3339), left)},
		{"issued by", c.Issuer},
		{"serial", c.Serial},
		{"fingerprint", c.Fingerprint},
		{"key", key},
	}
	for _, f := range c.Faults {
		rows = append(rows, [2]string{"WRONG", f.Text})
	}
	for _, r := range rows {
		if r[1] != "" {
			fmt.Fprintf(w, "  %-16s  %s\n", r[0], oneLine(r[1]))
		}
	}
}

// oneLine keeps what stands in a certificate from looking like a line of ours.
func oneLine(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

// shortDuration writes days, or what is left of the last ones.
func shortDuration(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.String()
}

// verdict is the command's end.
func (s shownCerts) verdict() error {
	faulty := 0
	for _, c := range s.Certificates {
		if len(c.Faults) > 0 {
			faulty++
		}
	}
	if faulty == 0 {
		return nil
	}
	return coded(fmt.Errorf("ctl cert show: something is wrong with %d of %s", faulty, count(len(s.Certificates), "certificate")), exitFaulty)
}
