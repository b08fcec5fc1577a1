package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/daemon"
	"github.com/klinkio/klink/web"
)

// The addresses of `klink dev`, which the other commands dial by default.
const (
	devHost    = "127.0.0.1"
	devPort    = 7443
	devAPIPort = 7080
)

// devFlags are the flags of `klink dev` besides the configuration's.
type devFlags struct {
	port, apiPort int
	host          string
	insecure      bool
	given         func(flag string) bool // nil: none
}

func devCommand() *cobra.Command {
	var s settings
	var f devFlags
	c := &cobra.Command{
		Use: "dev", Short: "Run everything in one process, for trying out", GroupID: "server", Args: cobra.NoArgs,
		Long: "Runs front end, push, presence, store, HTTP API and demo page in one process, with a certificate made for this machine, the API key `dev`,\n" +
			"and a token key that the other commands know. Nothing has to be configured. All flags of `klink serve` work here, too.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.given = cmd.Flags().Changed
			return runDev(cmd, &s, &f)
		},
	}
	c.Flags().IntVar(&f.port, "port", devPort, "port for devices, 0: a free one")
	c.Flags().IntVar(&f.apiPort, "api-port", devAPIPort, "port of the HTTP API and the demo page, 0: a free one")
	c.Flags().StringVar(&f.host, "listen-host", devHost, "host for devices; on another than loopback only TLS and WSS are accepted")
	c.Flags().BoolVar(&f.insecure, "insecure", false, "also accept plain TCP and WS when --listen-host is not loopback")
	s.add(c, true)
	return c
}

func runDev(cmd *cobra.Command, s *settings, f *devFlags) error {
	load := func() (*config.Loaded, error) {
		l, err := s.load()
		if err == nil {
			f.apply(l)
		}
		return l, err
	}
	l, err := load()
	if err != nil {
		return err
	}
	folder, err := openDev(f.certHosts()...)
	if err != nil {
		return err
	}
	signals := daemon.CatchSignals()
	defer signals.Stop()
	log, level := daemon.NewLog(&l.Config.Log, os.Stderr)
	p, err := daemon.Start(cmd.Context(), daemon.Options{
		Config: l, Log: log, Level: level, Version: versionText(), Page: web.Files(), Dev: folder,
	})
	if err != nil {
		return portHint(err)
	}
	if err := greet(cmd.OutOrStdout(), p, folder, f); err != nil {
		p.Close()
		return err
	}
	return signals.Run(cmd.Context(), p, load)
}

// apply sets what development does differently, where nothing else was configured.
func (f *devFlags) apply(l *config.Loaded) {
	unset := func(path string) bool { return l.Sources[path] == config.FromDefault }
	c := &l.Config
	if unset("fe.listen") || f.gave("port") || f.gave("listen-host") {
		c.FE.Listen = []string{net.JoinHostPort(f.host, strconv.Itoa(f.port))}
	}
	if unset("fe.insecure") || f.gave("insecure") {
		c.FE.Insecure = f.insecure || f.loopback()
	}
	if unset("api.listen") || f.gave("api-port") {
		c.API.Listen = net.JoinHostPort(devHost, strconv.Itoa(f.apiPort))
	}
	if unset("admin.listen") {
		c.Admin.Listen = ""
	}
	if unset("log.level") {
		c.Log.Level = "warn"
	}
	if unset("drain.spread") {
		c.Drain.Spread = config.Duration(time.Second)
	}
	if unset("drain.timeout") {
		c.Drain.Timeout = config.Duration(5 * time.Second)
	}
}

// gave reports whether the flag stands on the command line: then it wins over a file.
func (f *devFlags) gave(flag string) bool { return f.given != nil && f.given(flag) }

func (f *devFlags) loopback() bool {
	ip := net.ParseIP(f.host)
	return f.host == "localhost" || ip != nil && ip.IsLoopback()
}

// certHosts are names that the certificate needs besides those of loopback.
func (f *devFlags) certHosts() []string {
	if ip := net.ParseIP(f.host); f.host == "" || f.loopback() || ip != nil && ip.IsUnspecified() {
		return nil
	}
	return []string{f.host}
}

func openDev(hosts ...string) (*daemon.DevFolder, error) {
	path, err := daemon.DefaultDevPath()
	if err != nil {
		return nil, err
	}
	return daemon.OpenDev(path, time.Now(), hosts...)
}

// portHint says which flag chooses another port.
func portHint(err error) error {
	var taken *daemon.PortTakenError
	if !errors.As(err, &taken) {
		return err
	}
	_, port, _ := net.SplitHostPort(taken.Addr) // it was an address, or nobody could have taken it
	flag := "--port"
	if taken.Key == "api.listen" {
		flag = "--api-port"
	}
	return fmt.Errorf("port %s is taken: another process listens on %s. Stop it, or choose another port with %s (0: a free one)", port, taken.Addr, flag)
}

// greet prints what is there and what to try.
func greet(w io.Writer, p *daemon.Process, folder *daemon.DevFolder, f *devFlags) error {
	a := p.Addresses()
	now := time.Now()
	token, err := auth.Mint(folder.SigningKey(), auth.Claims{
		User: "alice", Issued: now, Expires: now.Add(24 * time.Hour), Subscribe: []string{"*"}, Publish: []string{"*"},
	})
	if err != nil {
		return err
	}
	api := "http://" + a.API.String()
	where := ""
	if f.apiPort != devAPIPort {
		where = " --api " + api
	}
	at := ""
	if f.port != devPort || f.host != devHost {
		at = " --addr " + dialable(a.Devices[0].String())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "klink %s is ready, for development only.\n\n", versionText())
	for _, e := range a.Endpoints {
		fmt.Fprintf(&b, "  %-6s %s\n", e.Transport, e.URL)
	}
	if len(a.Endpoints) == 0 {
		fmt.Fprintf(&b, "  device %s\n", a.Devices[0])
	}
	fmt.Fprintf(&b, "  api    %s  (key: %s)\n  demo   %s/\n", api, daemon.DevAPIKey, api)
	if a.Admin != nil {
		fmt.Fprintf(&b, "  admin  http://%s\n", a.Admin)
	}
	fmt.Fprintf(&b, "\nToken of alice, for a day:\n  %s\n\nTry, in other terminals:\n", token)
	self := self(os.Args[0])
	fmt.Fprintf(&b, "  %s connect --user bob --tag room:1%s\n", self, at)
	fmt.Fprintf(&b, "  %s push --tag room:1 '{\"hi\":1}'%s\n", self, where)
	fmt.Fprintf(&b, "  %s presence bob%s\n", self, where)
	fmt.Fprintf(&b, "  curl -s %s/v1/push -H 'Authorization: Bearer %s' -d '{\"to\":{\"users\":[\"bob\"]},\"data\":{\"hi\":2}}'\n", api, daemon.DevAPIKey)
	if f.insecure || f.loopback() { // the page is served without TLS and connects by WS
		fmt.Fprintf(&b, "  Open %s/ in two browser tabs and chat.\n", api)
	}
	fmt.Fprint(&b, "\nCtrl-C drains and ends.\n")
	_, err = io.WriteString(w, b.String())
	return err
}

// self is how this program was started, so that the lines to try can be pasted: by name, by path, or with `go run`.
func self(arg0 string) string {
	if !ranByGo(arg0) {
		return arg0
	}
	if _, err := os.Stat(filepath.FromSlash("cmd/klink/dev.go")); err != nil { // not in the module's own folder
		return "go run github.com/klinkio/klink/cmd/klink"
	}
	return "go run ./cmd/klink"
}

// ranByGo reports whether a program lies where `go run` puts what it builds: in a temporary folder, or in the build cache, where
// executables are in folders named by a hash.
func ranByGo(path string) bool {
	if strings.Contains(path, string(filepath.Separator)+"go-build") {
		return true
	}
	hash, ok := strings.CutSuffix(filepath.Base(filepath.Dir(path)), "-d")
	_, err := hex.DecodeString(hash)
	return ok && err == nil && len(hash) == 2*sha256.Size
}

// dialable puts loopback in the place of "all addresses".
func dialable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsUnspecified() {
		return net.JoinHostPort(devHost, port)
	}
	return addr
}
