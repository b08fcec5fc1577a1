package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/sdk/go"
)

// connectTTL is how long the tokens last that `klink connect` makes for itself; the next one is made in time.
const connectTTL = time.Hour

// publishTimeout is how long one line of standard input waits for its answer.
const publishTimeout = 15 * time.Second

// maxLine bounds a line of standard input.
const maxLine = 64 << 10

// connectFlags are the flags of `klink connect`.
type connectFlags struct {
	output
	claimFlags
	subscribe           []string
	transport, addr, ca string
	token, session      string
	config, keyID       string
	publishTo           string
	count               int
}

func connectCommand() *cobra.Command {
	var f connectFlags
	c := &cobra.Command{
		Use: "connect [--user USER] [--tag TAG]", Short: "Be a device: print pushes as they come", GroupID: "device", Args: cobra.NoArgs,
		Long: "Logs in as a device, prints pushes as they come, and comes back by itself when the connection is lost. Ends with Ctrl-C.\n" +
			"Without --token it makes its own, with the key of the configuration or the one of `klink dev` on this machine.",
		Example: "  klink connect --user bob --tag room:1\n  klink connect --user bob --tag room:1 --transport ws --output json\n  date | klink connect --user bob --publish-to room:1",
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := c.Flags()
	fs.StringVar(&f.user, "user", "", "user id of the token that is made")
	fs.StringVar(&f.claimFlags.app, "app", "", "app of the token that is made (default \""+klink.DefaultApp+"\")")
	fs.StringArrayVar(&f.subscribe, "tag", nil, "tag to subscribe to; may be given again")
	fs.StringVar(&f.device, "device", "", "device id (default: a new one)")
	fs.StringVar(&f.session, "session-file", "", "keep device id and attempts in this file")
	fs.StringVar(&f.transport, "transport", "tls", "tls, wss, tcp or ws")
	def := os.Getenv("KLINK_ADDR")
	if def == "" {
		def = fmt.Sprintf("%s:%d", devHost, devPort)
	}
	fs.StringVar(&f.addr, "addr", def, "host:port of the server, or a URL such as wss://host:7443/connect (KLINK_ADDR)")
	fs.StringVar(&f.ca, "ca", "", "trust the certificates in this file, PEM")
	fs.StringVar(&f.token, "token", "", "token to log in with (KLINK_TOKEN)")
	fs.StringVar(&f.config, "config", os.Getenv("KLINK_CONFIG"), "configuration file with the key of tokens (KLINK_CONFIG)")
	fs.StringVar(&f.keyID, "key-id", "", "kid of that key")
	fs.StringVar(&f.publishTo, "publish-to", "", "publish each line of standard input to this tag, and end with it")
	fs.IntVar(&f.count, "count", 0, "end after this many pushes; 0: never")
	c.MarkFlagsMutuallyExclusive("device", "session-file")
	f.flag(c)
	return c
}

// endpoint is what to dial.
func (f *connectFlags) endpoint() (string, error) {
	if strings.Contains(f.addr, "://") {
		return f.addr, nil
	}
	switch t := f.transport; t {
	case "tls", "tcp":
		return t + "://" + f.addr, nil
	case "wss", "ws":
		return t + "://" + f.addr + "/connect", nil
	default:
		return "", usagef("--transport %q is not one of tls, wss, tcp, ws", t)
	}
}

// errNoSuccessor is the answer to the wish for a successor of the token that was given: the session goes on until that one ends.
var errNoSuccessor = errors.New("the token that was given ends soon, and there is no other")

// fixed gives the same token each time: when the server refuses it, the client sees that there is no other and ends with what the server said.
func fixed(token string) func(context.Context, sdk.TokenReason) (string, error) {
	return func(_ context.Context, why sdk.TokenReason) (string, error) {
		switch why {
		case sdk.TokenExpiring:
			return "", errNoSuccessor
		case sdk.TokenExpired:
			return "", fmt.Errorf("the token that was given has expired: %w", sdk.ErrSignedOut)
		}
		return token, nil
	}
}

// source gives tokens: the one that was given, or new ones.
func (f *connectFlags) source() (func(context.Context, sdk.TokenReason) (string, error), error) {
	token := f.token
	if token == "" {
		token = os.Getenv("KLINK_TOKEN")
	}
	if token != "" {
		return fixed(token), nil
	}
	if f.user == "" {
		return nil, usagef("give --user, or --token")
	}
	key, l, err := signer(f.config, f.keyID)
	if err != nil {
		return nil, err
	}
	f.tags, f.ttl, f.audience, f.services = []string{"*"}, connectTTL, l.Config.Auth.Audience, []string{"*"}
	f.publish = []string{"*"}
	if _, err := f.claims(time.Now()); err != nil {
		return nil, err
	}
	return func(context.Context, sdk.TokenReason) (string, error) {
		c, err := f.claims(time.Now())
		if err != nil {
			return "", err
		}
		return auth.Mint(key, c)
	}, nil
}

func (f *connectFlags) run(cmd *cobra.Command) error {
	url, err := f.endpoint()
	if err != nil {
		return err
	}
	token, err := f.source()
	if err != nil {
		return err
	}
	roots, err := f.trust(url)
	if err != nil {
		return err
	}
	var store sdk.Store = sdk.NewMemoryStore(f.device)
	if f.session != "" {
		store = sdk.NewFileStore(f.session)
	}
	ctx, cancel := interruptible(cmd)
	defer cancel()
	p := &printer{out: cmd.OutOrStdout(), status: cmd.ErrOrStderr(), json: f.json(), left: f.count, enough: cancel}
	client, err := sdk.New(sdk.Config{
		Endpoints: []string{url}, Ordered: true, Pinned: cmd.Flags().Changed("transport") || strings.Contains(f.addr, "://"), Token: token, Handler: p, Store: store, Tags: f.subscribe,
		TLS: &tls.Config{RootCAs: roots}, Platform: "cli", AppVersion: versionText(),
	})
	if err != nil {
		return usagef("%v", err)
	}
	lines := make(chan error, 1) // what became of standard input, also when nobody asks any more
	if f.publishTo != "" {
		go func() {
			lines <- publishLines(ctx, client, f.publishTo, cmd.InOrStdin())
			cancel()
		}()
	}
	err = client.Run(ctx)
	select {
	case published := <-lines:
		err = errors.Join(err, published)
	default: // it ended for another reason; a read of standard input can't be interrupted and ends with the process
	}
	return errors.Join(err, p.err)
}

// publishLines publishes standard input line by line.
func publishLines(ctx context.Context, c *sdk.Client, tag string, in io.Reader) error {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		one, cancel := context.WithTimeout(ctx, publishTimeout)
		_, err := c.Publish(one, sdk.Publication{Tag: tag, Payload: linePayload(s.Text())})
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("publish to %s: %w", tag, err)
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	return nil
}
