package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/daemon"
)

// claimFlags are the flags that say what a token is for.
type claimFlags struct {
	user, device, app, audience   string
	tags, join, publish, services []string
	ttl                           time.Duration
}

func (f *claimFlags) claims(now time.Time) (auth.Claims, error) {
	if err := klink.CheckID("--user", f.user, klink.MaxUserLen); err != nil {
		return auth.Claims{}, &usageError{err.Error()}
	}
	if f.ttl <= 0 {
		return auth.Claims{}, usagef("--ttl %v is not above zero", f.ttl)
	}
	c := auth.Claims{
		App: f.app, User: f.user, Device: f.device, Issued: now, Expires: now.Add(f.ttl),
		Subscribe: f.tags, Join: f.join, Publish: f.publish, Services: f.services,
	}
	if f.audience != "" {
		c.Audience = []string{f.audience}
	}
	return c, nil
}

// signer is the key of the configuration, or the one of `klink dev` where there is none.
func signer(file, kid string) (auth.SigningKey, *config.Loaded, error) {
	l, err := config.Load(file, os.Environ(), nil)
	if err != nil {
		return auth.SigningKey{}, nil, err
	}
	if len(l.Config.Auth.Keys) == 0 && kid == "" && file == "" {
		folder, err := openDev()
		if err != nil {
			return auth.SigningKey{}, nil, err
		}
		return folder.SigningKey(), l, nil
	}
	key, err := daemon.SigningKey(&l.Config.Auth, kid)
	return key, l, err
}

func tokenCommand() *cobra.Command {
	var f claimFlags
	var out output
	var file, kid string
	c := &cobra.Command{
		Use: "token --user USER", Short: "Make a device token", GroupID: "device", Args: cobra.NoArgs,
		Long: "Makes a token with a key of the configuration; without --config with the one of `klink dev` on this machine.\n" +
			"Patterns are exact or end in *; {user} stands for the token's user.",
		Example: "  klink token --user alice --tags 'room:*' --publish 'room:*'\n  klink token --config klink.yaml --user alice --tags 'user:{user}' --ttl 10m",
		RunE: func(cmd *cobra.Command, _ []string) error {
			claims, err := f.claims(time.Now())
			if err != nil {
				return err
			}
			key, l, err := signer(file, kid)
			if err != nil {
				return err
			}
			if len(claims.Audience) == 0 && l.Config.Auth.Audience != "" {
				claims.Audience = []string{l.Config.Auth.Audience}
			}
			token, err := auth.Mint(key, claims)
			if err != nil {
				return fmt.Errorf("make the token: %w", err)
			}
			if out.json() {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{
					"token": token, "user": claims.User, "key_id": key.KID, "expires": claims.Expires.UTC().Format(time.RFC3339),
				})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.user, "user", "", "user id")
	fs.StringVar(&f.device, "device", "", "bind the token to one device id")
	fs.StringVar(&f.app, "app", "", "app (default \""+klink.DefaultApp+"\")")
	fs.StringVar(&f.audience, "audience", "", "aud (default: auth.audience of the configuration)")
	fs.StringSliceVar(&f.tags, "tags", nil, "patterns of tags that may be subscribed to")
	fs.StringSliceVar(&f.join, "join", nil, "tags that are joined at login")
	fs.StringSliceVar(&f.publish, "publish", nil, "patterns of tags that may be published to")
	fs.StringSliceVar(&f.services, "services", nil, "patterns of services that may be called")
	fs.DurationVar(&f.ttl, "ttl", time.Hour, "how long the token lasts")
	fs.StringVar(&file, "config", os.Getenv("KLINK_CONFIG"), "configuration file (KLINK_CONFIG)")
	fs.StringVar(&kid, "key-id", "", "kid of the key (default: the first that can sign)")
	_ = c.MarkFlagRequired("user") // the flag was made above
	out.flag(c)
	return c
}
