package config

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Validate checks what goes beyond single values: addresses, files that belong together, records of lists.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }

	if len(c.FE.Listen) == 0 {
		bad("fe.listen: no address")
	}
	for _, a := range c.FE.Listen {
		checkAddr(bad, "fe.listen", a)
	}
	checkAddr(bad, "api.listen", c.API.Listen)
	if c.Admin.Listen != "" {
		checkAddr(bad, "admin.listen", c.Admin.Listen)
	}
	for _, p := range c.FE.ProxyTrusted {
		if _, err := netip.ParsePrefix(p); err != nil {
			bad("fe.proxy_trusted: %q is not a network such as 10.0.0.0/8", p)
		}
	}
	for _, a := range c.FE.Advertise {
		checkEndpoint(bad, "fe.advertise", a)
	}
	if c.Drain.Target != "" {
		checkEndpoint(bad, "drain.target", c.Drain.Target)
	}
	for _, o := range c.FE.Origins {
		u, err := url.Parse(o)
		if o != "*" && (err != nil || u.Scheme == "" || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" || u.RawQuery != "") {
			bad("fe.origins: %q is not an origin such as https://app.example.com, nor *", o)
		}
	}
	for _, h := range c.API.Hosts {
		if _, err := netip.ParseAddr(h); err != nil && (h == "" || strings.ContainsAny(h, ":/ ")) {
			bad("api.hosts: %q is not a name or an address, without port", h)
		}
	}
	if !strings.HasPrefix(c.FE.Path, "/") {
		bad("fe.path: %q does not begin with /", c.FE.Path)
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		bad("tls.cert and tls.key belong together")
	}
	s := &c.Sessions
	if s.HeartbeatMin > s.Heartbeat || s.Heartbeat > s.HeartbeatMax {
		bad("sessions.heartbeat: want heartbeat_min <= heartbeat <= heartbeat_max, have %v, %v, %v", s.HeartbeatMin, s.Heartbeat, s.HeartbeatMax)
	}
	if s.FrameBurst < s.FrameRate {
		bad("sessions.frame_burst: %d is below frame_rate %d", s.FrameBurst, s.FrameRate)
	}
	if _, err := c.Runtime.CPUList(); err != nil {
		bad("runtime.cpus: %w", err)
	}
	c.validateAuth(bad)
	c.validateApps(bad)
	return errors.Join(errs...)
}

func checkEndpoint(bad func(string, ...any), key, text string) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || !slices.Contains([]string{"tcp", "tls", "ws", "wss"}, u.Scheme) {
		bad("%s: %q is not a URL such as tls://host:7443 or wss://host:7443/connect", key, text)
	}
}

func checkAddr(bad func(string, ...any), key, addr string) {
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		bad("%s: %q is not an address such as 127.0.0.1:7443 or :7443", key, addr)
	}
}

func (c *Config) validateAuth(bad func(string, ...any)) {
	kids, names := make(map[string]bool), make(map[string]bool)
	for i, k := range c.Auth.Keys {
		at := fmt.Sprintf("auth.keys[%d]", i)
		switch {
		case k.KID == "":
			bad("%s: no kid", at)
		case kids[k.KID]:
			bad("%s: the kid %q is there twice", at, k.KID)
		}
		kids[k.KID] = true
		switch k.Alg {
		case "HS256":
			if (k.Secret == "") == (k.SecretFile == "") {
				bad("%s: HS256 needs secret or secret_file", at)
			}
		case "RS256", "ES256", "EdDSA":
			if k.PublicKeyFile == "" {
				bad("%s: %s needs public_key_file", at, k.Alg)
			}
		default:
			bad("%s: alg %q is not one of HS256, RS256, ES256, EdDSA", at, k.Alg)
		}
	}
	scopes := []string{"push", "presence", "tags", "admin", "probe"}
	for i, k := range c.Auth.APIKeys {
		at := fmt.Sprintf("auth.api_keys[%d]", i)
		switch {
		case k.Name == "":
			bad("%s: no name", at)
		case names[k.Name]:
			bad("%s: the name %q is there twice", at, k.Name)
		}
		names[k.Name] = true
		if (k.Hash == "") == (k.KeyFile == "") {
			bad("%s: give hash or key_file", at)
		}
		if b, err := hex.DecodeString(k.Hash); k.Hash != "" && (err != nil || len(b) != sha256.Size) {
			bad("%s: hash is not a SHA-256 of %d hexadecimal digits", at, 2*sha256.Size)
		}
		for _, sc := range k.Scopes {
			if !slices.Contains(scopes, sc) {
				bad("%s: scope %q is not one of %s", at, sc, strings.Join(scopes, ", "))
			}
		}
		if k.App != "" && !slices.ContainsFunc(c.Apps, func(a App) bool { return a.Name == k.App }) {
			bad("%s: app %q is not in apps", at, k.App)
		}
	}
}

func (c *Config) validateApps(bad func(string, ...any)) {
	seen := make(map[string]bool)
	for i, a := range c.Apps {
		at := fmt.Sprintf("apps[%d]", i)
		switch {
		case a.Name == "":
			bad("%s: no name", at)
		case seen[a.Name]:
			bad("%s: %q is there twice", at, a.Name)
		}
		seen[a.Name] = true
		if !slices.Contains([]string{"", "all", "one_per_device", "one_per_user"}, a.Devices) {
			bad("%s: devices %q is not one of all, one_per_device, one_per_user", at, a.Devices)
		}
		if !slices.Contains([]string{"", "newest", "oldest"}, a.Winner) {
			bad("%s: winner %q is not one of newest, oldest", at, a.Winner)
		}
		if a.MaxDevices < 0 || a.MaxDevices > 1024 {
			bad("%s: max_devices %d is not between 0 and 1024", at, a.MaxDevices)
		}
	}
	if len(c.Apps) == 0 {
		bad("apps: no app")
	}
}
