package daemon

import (
	"crypto/tls"
	"fmt"
	"sync/atomic"

	"github.com/klinkio/klink/config"
)

// certificate is the one that new handshakes use.
type certificate struct {
	now atomic.Pointer[tls.Certificate]
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.now.Load(), nil }

// load reads the files; the certificate in force stays when they can't be read.
func (c *certificate) load(conf *config.TLS, dev *DevFolder) error {
	var cert tls.Certificate
	switch {
	case conf.Cert != "":
		var err error
		if cert, err = tls.LoadX509KeyPair(conf.Cert, conf.Key); err != nil {
			return fmt.Errorf("tls.cert, tls.key: %w", err)
		}
	case dev != nil:
		cert = dev.cert
	default:
		return errNothingTLS
	}
	c.now.Store(&cert)
	return nil
}
