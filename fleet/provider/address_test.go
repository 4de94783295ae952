package provider_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/llmgw/llmgw/fleet/provider"
)

func TestParseBaseURL(t *testing.T) {
	for text, want := range map[string]string{
		"HTTP://Gpu07:8000/": "http://gpu07:8000/v1", "http://gpu07:8000": "http://gpu07:8000/v1", "http://gpu07:8000/v1/": "http://gpu07:8000/v1",
		"http://gpu07.:80/v1": "http://gpu07/v1", "https://api.x.ai:443/v1": "https://api.x.ai/v1", "http://10.0.0.7:08000": "http://10.0.0.7:8000/v1",
		"http://[FD00:0::7]:8000/a/../b//c/": "http://[fd00::7]:8000/b/c", "http://[::ffff:10.0.0.7]": "http://10.0.0.7/v1", "http://[fd00::7]": "http://[fd00::7]/v1",
		"https://openrouter.ai/api/v1": "https://openrouter.ai/api/v1", "http://a_b-c.svc.cluster.local:8000": "http://a_b-c.svc.cluster.local:8000/v1",
	} {
		if got, err := provider.ParseBaseURL(text); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "gpu07:8000", "ftp://gpu07", "file:///etc/passwd", "gopher://a", "http://", "http://:8000", "http://user:" + canary + "@gpu07", "http://u@gpu07", "http://gpu07?key=" + canary,
		"http://gpu07#x", "http://gpu07/#", "http://gpu07/?", "http://gpu07:0", "http://gpu07:70000", "http://gpu07:", "http://[fe80::1%25eth0]:8000", "http://127.1", "http://2130706433",
		"http://0x7f.0x1", "http://017700000001", "http://0x7f000001", "http://a b", "http://gpu07/%2e%2e/x", "http://gpu07/a%20b", "http://ä.de", "http://a..b", "http://.a", "http://a\x00b", "http://a/\r\nX: y",
		"http://" + strings.Repeat("a", 254), "http://gpu07/" + strings.Repeat("a", 500), "javascript:alert(1)", "http://10.0.0.256",
	} {
		got, err := provider.ParseBaseURL(text)
		if !errors.Is(err, provider.ErrAddress) {
			t.Errorf("%q became %q, %v", text, got, err)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%q: the error repeats a secret: %v", text, err)
		}
	}
}

// What is one spelling stays as it is.
func FuzzParseBaseURL(f *testing.F) {
	for _, s := range []string{"http://gpu07:8000/v1", "https://[fd00::7]/a/b", "HTTP://A:80/..//x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := provider.ParseBaseURL(text)
		if err != nil {
			if !errors.Is(err, provider.ErrAddress) {
				t.Fatal(err)
			}
			return
		}
		again, err := provider.ParseBaseURL(got)
		if err != nil || again != got || strings.ContainsAny(got, "@?# \r\n\x00") {
			t.Fatalf("%q became %q, then %q, %v", text, got, again, err)
		}
		_ = provider.NewGuard(nil).CheckURL(got, true)
	})
}

func TestGuard(t *testing.T) {
	prefixes := func(texts ...string) (out []netip.Prefix) {
		for _, s := range texts {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	byDefault, wide, none := provider.DefaultConfig().AllowCIDRs, prefixes("0.0.0.0/0", "::/0"), prefixes()
	for _, tt := range []struct {
		ip              string
		allow           []netip.Prefix
		private, public bool
	}{
		{"10.0.0.7", byDefault, true, true},
		{"172.18.0.2", byDefault, true, true},
		{"192.168.1.1", byDefault, true, true},
		{"fd00::7", byDefault, true, true},
		{"::ffff:10.0.0.7", byDefault, true, true},
		{"10.0.0.7", none, false, false},
		{"1.1.1.1", byDefault, false, true},
		{"2606:4700::1111", byDefault, false, true},
		{"172.17.0.2", byDefault, false, false},
		{"172.17.0.2", prefixes("172.17.0.0/16"), true, true},
		{"127.0.0.1", byDefault, false, false},
		{"127.0.0.1", wide, false, false},
		{"::ffff:127.0.0.1", wide, false, false},
		{"127.0.0.1", prefixes("127.0.0.0/8"), true, true},
		{"127.0.0.2", prefixes("127.0.0.1/32"), false, false},
		{"::1", wide, false, false},
		{"169.254.1.1", wide, false, false},
		{"169.254.1.1", prefixes("169.254.0.0/16"), true, true},
		{"169.254.169.254", prefixes("169.254.169.254/32"), false, false},
		{"fd00:ec2::254", byDefault, false, false},
		{"100.100.100.200", prefixes("100.64.0.0/10"), false, false},
		{"100.64.0.1", byDefault, false, false},
		{"fe80::1", wide, false, false},
		{"0.0.0.0", wide, false, false},
		{"::", wide, false, false},
		{"224.0.0.1", wide, false, false},
		{"ff02::1", wide, false, false},
		{"255.255.255.255", wide, false, false},
		{"0.1.2.3", byDefault, false, false},
		{"64:ff9b::7f00:1", byDefault, false, false},
		{"2002:7f00:1::", byDefault, false, false},
		{"203.0.113.7", prefixes("203.0.113.0/24"), true, true},
	} {
		g := provider.NewGuard(tt.allow)
		for public, want := range map[bool]bool{false: tt.private, true: tt.public} {
			if err := g.Check(netip.MustParseAddr(tt.ip), public); (err == nil) != want || err != nil && !errors.Is(err, provider.ErrAddress) {
				t.Errorf("%s with %v, public %v: %v", tt.ip, tt.allow, public, err)
			}
		}
	}
	g := provider.NewGuard(byDefault)
	for _, bad := range []string{"http://metadata.google.internal/v1", "http://169.254.169.254/v1", "http://127.0.0.1:8000/v1", "http://[::1]/v1", "http://8.8.8.8/v1"} {
		if err := g.CheckURL(bad, false); !errors.Is(err, provider.ErrAddress) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := g.CheckURL("http://localhost:8000/v1", false); err != nil {
		t.Errorf("a name is checked when it is dialled: %v", err)
	}
}

func TestConfig(t *testing.T) {
	if err := provider.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := provider.Config{AllowCIDRs: make([]netip.Prefix, 1)}.Validate()
	for _, key := range []string{"ttl", "sweep_interval", "probe_timeout", "probes", "answer_bytes", "remove_after", "forget_models_after", "max_providers", "allow_cidrs"} {
		if err == nil || !strings.Contains(err.Error(), key+":") {
			t.Errorf("%s is not among %v", key, err)
		}
	}
}

// The catalogue has the form that its readers rely on.
func TestCatalogue(t *testing.T) {
	list := provider.Catalogue()
	for i, v := range list {
		if i > 0 && list[i-1].Name >= v.Name {
			t.Errorf("%s is not by name", v.Name)
		}
		if base, err := provider.ParseBaseURL(v.BaseURL); err != nil || base != v.BaseURL || !strings.HasPrefix(base, "https://") {
			t.Errorf("%s: %s is not as %s, %v", v.Name, v.BaseURL, base, err)
		}
		if got, ok := provider.VendorNamed(v.Name); !ok || got.Title != v.Title || v.Title == "" || strings.Trim(v.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Errorf("%s: %v, %v", v.Name, got, ok)
		}
		if v.Auth < provider.AuthBearer || v.Auth > provider.AuthXAPIKey || !strings.HasPrefix(v.ModelsPath, "/") || !strings.HasPrefix(v.Source, "https://") {
			t.Errorf("%s: %+v", v.Name, v)
		}
	}
	for _, name := range []string{"openrouter", "openai", "anthropic", "mistral", "together", "groq", "deepseek", "fireworks", "google"} {
		if _, ok := provider.VendorNamed(name); !ok {
			t.Errorf("%s is not in it", name)
		}
	}
	if _, ok := provider.VendorNamed("zzz"); ok {
		t.Error("zzz is in it")
	}
}
