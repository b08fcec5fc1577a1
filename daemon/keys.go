package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/svc/api"
)

// maxKeyFile bounds what is read from a file with a key.
const maxKeyFile = 64 << 10

var errNoTokenKeys = errors.New("auth.keys and auth.jwks are empty: no device could log in")

// tokenKeys is the keys that check device tokens.
type tokenKeys struct {
	verifier *auth.Verifier
	set      bool // there is a JWK set, too
}

// newTokenKeys reads the keys. A JWK set that is away is no reason not to start where there are other keys: it is asked again.
func newTokenKeys(ctx context.Context, c *config.Auth, dev *DevFolder, log *slog.Logger) (*tokenKeys, error) {
	keys, err := readTokenKeys(c, dev)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 && c.JWKS == "" {
		return nil, errNoTokenKeys
	}
	v, err := auth.NewVerifier(auth.VerifierConfig{Audience: c.Audience, Leeway: c.Leeway.Std(), MaxTTL: c.MaxTTL.Std()}, keys)
	if err != nil {
		return nil, fmt.Errorf("auth.keys: %w", err)
	}
	if c.JWKS != "" {
		if err := v.UseJWKS(ctx, c.JWKS); err != nil {
			away := v.JWKS().Failed > 0 // else the address itself is wrong
			if !away || len(c.Keys) == 0 || ctx.Err() != nil {
				return nil, fmt.Errorf("auth.jwks: %w", err)
			}
			log.Warn("started without the JWK set, which is asked again; tokens of auth.keys only are accepted until then", "err", err)
		}
	}
	return &tokenKeys{verifier: v, set: c.JWKS != ""}, nil
}

func (k *tokenKeys) reload(c *config.Auth, dev *DevFolder) error {
	keys, err := readTokenKeys(c, dev)
	if err != nil {
		return err
	}
	if len(keys) == 0 && !k.set { // a set that was configured since comes with a restart
		return errors.New("auth.keys is empty and no auth.jwks is in force: no device could log in")
	}
	if err := k.verifier.SetKeys(keys); err != nil {
		return fmt.Errorf("auth.keys: %w", err)
	}
	return nil
}

func readTokenKeys(c *config.Auth, dev *DevFolder) ([]*auth.Key, error) {
	var keys []*auth.Key
	if dev != nil {
		k, err := auth.NewSecretKey(devKID, dev.secret)
		if err != nil {
			return nil, fmt.Errorf("the development secret: %w", err)
		}
		keys = append(keys, k)
	}
	for _, kc := range c.Keys {
		k, err := readTokenKey(&kc)
		if err != nil {
			return nil, fmt.Errorf("auth.keys: kid %q: %w", kc.KID, err)
		}
		if string(k.Alg) != kc.Alg {
			return nil, fmt.Errorf("auth.keys: kid %q: alg is %s, but the key is one for %s", kc.KID, kc.Alg, k.Alg)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func readTokenKey(c *config.TokenKey) (*auth.Key, error) {
	if c.Alg == string(auth.HS256) {
		secret, err := readSecret(c)
		if err != nil {
			return nil, err
		}
		return auth.NewSecretKey(c.KID, secret)
	}
	text, err := readBounded(c.PublicKeyFile)
	if err != nil {
		return nil, err
	}
	return auth.ParsePublicPEM(c.KID, text)
}

func readSecret(c *config.TokenKey) ([]byte, error) {
	if c.SecretFile == "" {
		return []byte(c.Secret), nil
	}
	b, err := readBounded(c.SecretFile)
	if err != nil {
		return nil, err
	}
	return bytes.TrimRight(b, "\r\n"), nil
}

func readBounded(file string) ([]byte, error) {
	st, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxKeyFile {
		return nil, fmt.Errorf("%s holds more than %d bytes", file, maxKeyFile)
	}
	return os.ReadFile(file)
}

// SigningKey is the key with which tokens are made on this machine: the configured one of that kid (empty: the first that can sign).
func SigningKey(c *config.Auth, kid string) (auth.SigningKey, error) {
	for i := range c.Keys {
		k := &c.Keys[i]
		if kid != "" && k.KID != kid || k.Alg != string(auth.HS256) && k.SigningFile == "" {
			continue
		}
		if k.Alg == string(auth.HS256) {
			secret, err := readSecret(k)
			if err != nil {
				return auth.SigningKey{}, fmt.Errorf("auth.keys: kid %q: %w", k.KID, err)
			}
			return auth.SigningKey{KID: k.KID, Secret: secret}, nil
		}
		text, err := readBounded(k.SigningFile)
		if err != nil {
			return auth.SigningKey{}, fmt.Errorf("auth.keys: kid %q: %w", k.KID, err)
		}
		signer, err := auth.ParsePrivatePEM(text)
		if err != nil {
			return auth.SigningKey{}, fmt.Errorf("auth.keys: kid %q: %w", k.KID, err)
		}
		return auth.SigningKey{KID: k.KID, Signer: signer}, nil
	}
	if kid == "" {
		return auth.SigningKey{}, errors.New("auth.keys has no key that can sign: HS256 with its secret, or one with private_key_file")
	}
	return auth.SigningKey{}, fmt.Errorf("auth.keys has no key %q that can sign: HS256 with its secret, or one with private_key_file", kid)
}

// keyring is the API keys in force.
type keyring struct {
	now          atomic.Pointer[auth.APIKeys]
	missing, bad atomic.Uint64 // refusals by earlier sets
}

// refused counts the requests without a key, and those with an unknown one.
func (k *keyring) refused() (missing, bad uint64) {
	missing, bad = k.now.Load().Refused()
	return missing + k.missing.Load(), bad + k.bad.Load()
}

// Check implements api.Keys.
func (k *keyring) Check(header string) (api.Key, error) {
	key, err := k.now.Load().Check(header)
	if err != nil {
		return nil, err
	}
	return key, nil
}

func (k *keyring) load(c *config.Auth, dev *DevFolder) error {
	var list []auth.APIKeyConfig
	if dev != nil {
		scopes := []string{auth.ScopePush, auth.ScopePresence, auth.ScopeTags, auth.ScopeAdmin, auth.ScopeProbe}
		list = append(list, auth.APIKeyConfig{Name: "dev", Hash: auth.HashKey(DevAPIKey), Scopes: scopes})
	}
	for _, a := range c.APIKeys {
		hash := a.Hash
		if a.KeyFile != "" {
			b, err := readBounded(a.KeyFile)
			if err != nil {
				return fmt.Errorf("auth.api_keys: %s: %w", a.Name, err)
			}
			hash = auth.HashKey(string(bytes.TrimSpace(b)))
		}
		list = append(list, auth.APIKeyConfig{Name: a.Name, App: a.App, Hash: hash, Scopes: a.Scopes, Rate: a.Rate, Burst: a.Burst})
	}
	keys, err := auth.NewAPIKeys(list)
	if err != nil {
		return fmt.Errorf("auth.api_keys: %w", err)
	}
	if last := k.now.Swap(keys); last != nil {
		missing, bad := last.Refused()
		k.missing.Add(missing)
		k.bad.Add(bad)
	}
	return nil
}
