package daemon

import (
	"errors"
	"fmt"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/config"
)

// Check reads what a configuration names (keys, certificates) as Start would, without binding a port or opening the store. The error holds all that is
// wrong, not only the first; missing says what is not there yet and what a server can't start without.
func Check(c *config.Config) (missing []string, err error) {
	var errs []error
	keys, err := readTokenKeys(&c.Auth, nil)
	switch {
	case err != nil:
		errs = append(errs, err)
	case len(keys) == 0 && c.Auth.JWKS == "":
		missing = append(missing, errNoTokenKeys.Error())
	default:
		if _, err := auth.NewVerifier(auth.VerifierConfig{}, keys); err != nil {
			errs = append(errs, fmt.Errorf("auth.keys: %w", err))
		}
	}
	if err := new(keyring).load(&c.Auth, nil); err != nil {
		errs = append(errs, err)
	}
	if c.TLS.Cert != "" || !c.FE.Insecure {
		err := new(certificate).load(&c.TLS, nil)
		switch {
		case errors.Is(err, errNothingTLS):
			missing = append(missing, err.Error())
		case err != nil:
			errs = append(errs, err)
		}
	}
	return missing, errors.Join(errs...)
}
