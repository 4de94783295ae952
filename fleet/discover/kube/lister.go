package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/llmgw/llmgw/fleet/discover"
)

// ErrTooMany means that a cluster holds more than a lister reads.
var ErrTooMany = errors.New("kube: too many objects")

// Config is where a cluster's API server is and how it is read. Start from
// [DefaultConfig].
type Config struct {
	// Server is the API server, e.g. https://10.96.0.1:443; required.
	Server string `yaml:"server"`
	// TokenFile holds the service account's token, which the cluster replaces from
	// time to time; it is read for each request. Default where pods have it.
	TokenFile string `yaml:"token_file"`
	// CAFile holds the certificates of the API server, as PEM. Default where pods have
	// it.
	CAFile string `yaml:"ca_file"`
	// Cluster is the cluster's name, as of [Options].
	Cluster string `yaml:"cluster"`
	// Advertise is as of [Options]: an address or a name, without a port.
	Advertise string `yaml:"advertise"`
	// PageObjects is how many objects one request asks for. Default 500; 1 to 5000.
	PageObjects int64 `yaml:"page_objects"`
	// MaxObjects bounds the objects of one kind; with more nothing is listed. Default
	// 50000; must be positive.
	MaxObjects int `yaml:"max_objects"`
	// PageTimeout is how long one page may take. Default 10s; must be positive.
	PageTimeout time.Duration `yaml:"page_timeout"`
}

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// DefaultConfig returns the defaults, which name no server; see [Config.InCluster].
func DefaultConfig() Config {
	return Config{
		TokenFile:   filepath.Join(serviceAccount, "token"),
		CAFile:      filepath.Join(serviceAccount, "ca.crt"),
		PageObjects: 500,
		MaxObjects:  50_000,
		PageTimeout: 10 * time.Second,
	}
}

// InCluster returns c with the API server that a pod's environment names.
func (c Config) InCluster(getenv func(string) string) (Config, error) {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return c, errors.New("kube: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; this runs in a pod of the cluster, with a service account")
	}
	c.Server = "https://" + net.JoinHostPort(host, port)
	return c, nil
}

// Validate returns every problem of c, joined, each beginning with its key.
func (c Config) Validate() error {
	var errs []error
	switch base, err := discover.BaseURL(c.Server); {
	case err != nil:
		errs = append(errs, fmt.Errorf("server: %w", err))
	case !strings.HasPrefix(base, "https://"):
		errs = append(errs, fmt.Errorf("server: %s would have the token sent in the clear; want https://", base))
	}
	if c.CAFile == "" {
		errs = append(errs, errors.New("ca_file: is empty; want the file with the API server's certificates"))
	}
	if c.TokenFile == "" {
		errs = append(errs, errors.New("token_file: is empty; want the file with the service account's token"))
	}
	if c.Advertise != "" {
		if _, err := discover.BaseURL("http://" + net.JoinHostPort(c.Advertise, "30000")); err != nil {
			errs = append(errs, fmt.Errorf("advertise: %.80q: %w; want an address or a name, without a port", c.Advertise, err))
		} else if ip, err := netip.ParseAddr(c.Advertise); err == nil {
			if err := (discover.Fence{}).CheckAddr(ip); err != nil {
				errs = append(errs, fmt.Errorf("advertise: %w", err))
			}
		}
	}
	if c.PageObjects < 1 || c.PageObjects > 5000 {
		errs = append(errs, fmt.Errorf("page_objects: %d; want 1 to 5000", c.PageObjects))
	}
	if c.MaxObjects <= 0 {
		errs = append(errs, fmt.Errorf("max_objects: %d; want 1 or more", c.MaxObjects))
	}
	if c.PageTimeout <= 0 {
		errs = append(errs, fmt.Errorf("page_timeout: %v; want more than 0s", c.PageTimeout))
	}
	return errors.Join(errs...)
}

// Lister is a [discover.Source] that reads a cluster. It lists and does nothing
// else, ever.
type Lister struct {
	cfg    Config
	client *rest.RESTClient
	codec  runtime.ParameterCodec
}

var _ discover.Source = (*Lister)(nil)

// New validates cfg and returns a Lister. It reads the files that cfg names and
// dials nothing.
func New(cfg Config) (*Lister, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	// Not the clientset, which knows, and links, every kind that there is.
	client, err := rest.RESTClientFor(&rest.Config{
		Host:            cfg.Server,
		APIPath:         "/api",
		WrapTransport:   func(next http.RoundTripper) http.RoundTripper { return &bearer{file: cfg.TokenFile, next: next} },
		UserAgent:       "llmgw-discover",
		TLSClientConfig: rest.TLSClientConfig{CAFile: cfg.CAFile},
		WarningHandler:  rest.NoWarnings{}, // they would go to a logger of the whole process
		QPS:             -1,                // one request at a time, and few
		ContentConfig: rest.ContentConfig{
			GroupVersion:         &corev1.SchemeGroupVersion,
			NegotiatedSerializer: serializer.NewCodecFactory(scheme).WithoutConversion(),
			ContentType:          runtime.ContentTypeJSON,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("kube: %w", err)
	}
	return &Lister{cfg: cfg, client: client, codec: runtime.NewParameterCodec(scheme)}, nil
}

// List reads the cluster and returns its candidates. It blocks until ctx is done
// at the most.
func (l *Lister) List(ctx context.Context) (discover.Listing, error) {
	lists, err := l.Lists(ctx)
	if err != nil {
		return discover.Listing{}, err
	}
	return Candidates(lists, Options{Cluster: l.cfg.Cluster, Advertise: l.cfg.Advertise}), nil
}

// Lists reads what the cluster holds, page by page. A list that has expired
// meanwhile is begun anew.
func (l *Lister) Lists(ctx context.Context) (Lists, error) {
	var out Lists
	var err error
	if out.Services, err = all(ctx, l, "services", func(ctx context.Context, o *metav1.ListOptions) ([]corev1.Service, string, error) {
		var page corev1.ServiceList
		err := l.page(ctx, "services", o, &page)
		return page.Items, page.Continue, err
	}); err != nil {
		return Lists{}, err
	}
	if out.Pods, err = all(ctx, l, "pods", func(ctx context.Context, o *metav1.ListOptions) ([]corev1.Pod, string, error) {
		var page corev1.PodList
		err := l.page(ctx, "pods", o, &page)
		return page.Items, page.Continue, err
	}); err != nil {
		return Lists{}, err
	}
	out.Nodes, err = all(ctx, l, "nodes", func(ctx context.Context, o *metav1.ListOptions) ([]corev1.Node, string, error) {
		var page corev1.NodeList
		err := l.page(ctx, "nodes", o, &page)
		return page.Items, page.Continue, err
	})
	if err != nil {
		return Lists{}, err
	}
	return out, nil
}

// restarts is how often a list may expire before it is given up until the next
// scan.
const restarts = 3

func all[T any](ctx context.Context, l *Lister, kind string, read func(context.Context, *metav1.ListOptions) ([]T, string, error)) ([]T, error) {
	var out []T
	o := metav1.ListOptions{Limit: l.cfg.PageObjects}
	for expired := 0; ; {
		items, next, err := read(ctx, &o)
		switch {
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			if expired++; expired > restarts {
				return nil, fmt.Errorf("kube: list %s: expired %d times: %w", kind, expired, err)
			}
			out, o.Continue = nil, ""
			continue
		case err != nil:
			return nil, fmt.Errorf("kube: list %s: %w", kind, err)
		}
		if out = append(out, items...); len(out) > l.cfg.MaxObjects {
			return nil, fmt.Errorf("%w: more than %d %s", ErrTooMany, l.cfg.MaxObjects, kind)
		}
		if next == "" {
			return out, nil
		}
		o.Continue = next
	}
}

// page reads one page. A token that is refused may have been replaced between its
// reading and its use, so that one is tried once more.
func (l *Lister) page(ctx context.Context, kind string, o *metav1.ListOptions, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, l.cfg.PageTimeout)
	defer cancel()
	get := func() error {
		return l.client.Get().Resource(kind).VersionedParams(o, l.codec).Do(ctx).Into(into)
	}
	err := get()
	if apierrors.IsUnauthorized(err) {
		err = get()
	}
	return err
}

// Close lets go of idle connections. The lister may be used on.
func (l *Lister) Close() { utilnet.CloseIdleConnectionsFor(l.client.Client.Transport) }

// bearer puts the token of a file to each request. client-go's own keeps one for
// a minute, also when it is refused, and tells the process's logger of a file that
// is missing.
type bearer struct {
	file string
	next http.RoundTripper
}

// WrappedRoundTripper lets package net of Kubernetes find the connections.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }

func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	text, err := os.ReadFile(b.file)
	token := strings.TrimSpace(string(text))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", b.file)
	}
	if err != nil {
		return nil, fmt.Errorf("token_file: %w", err)
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return b.next.RoundTrip(req)
}
