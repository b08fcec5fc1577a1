package tls13

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
)

// AsyncSigner is a private key that answers later. Put it in tls.Certificate.PrivateKey; it need not be a crypto.Signer.
type AsyncSigner interface {
	Public() crypto.PublicKey

	// StartSign begins to sign message, which is not hashed yet, and must not block. done has to be called
	// once, from any goroutine, also before StartSign returns; later calls and calls after the handshake's
	// end do nothing. message is valid and constant for as long as the signer keeps it.
	StartSign(message []byte, opts crypto.SignerOpts, done func(signature []byte, err error))
}

// SetCertificates replaces the certificates for new handshakes; those that run keep theirs. The first that the client supports
// is taken, the first of all if there is none: put ECDSA before RSA. It copies certs and may be called from any goroutine.
func (s *Server) SetCertificates(certs []tls.Certificate) error {
	if len(certs) == 0 {
		return errors.New("tls server: no certificate")
	}
	certs = slices.Clone(certs)
	for i := range certs {
		if err := s.bind(&certs[i]); err != nil {
			return fmt.Errorf("tls server: certificate %d: %w", i, err)
		}
	}
	s.certs.Store(&certs)
	return nil
}

// bind checks a certificate and makes its key usable for crypto/tls.
func (s *Server) bind(cert *tls.Certificate) error {
	if len(cert.Certificate) == 0 {
		return errors.New("empty chain")
	}
	if cert.Leaf == nil {
		leaf, err := x509.ParseCertificate(cert.Certificate[0])
		if err != nil {
			return err
		}
		cert.Leaf = leaf
	}
	switch key := cert.PrivateKey.(type) {
	case AsyncSigner:
		cert.PrivateKey = &boundSigner{s, key}
	case crypto.Signer:
	default:
		return fmt.Errorf("private key of type %T can't sign", key)
	}
	return nil
}

// getCertificate has the rules of crypto/tls: the user's function for a client that names a host, then the list.
func (s *Server) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	certs := s.certs.Load()
	if s.getUser != nil && (certs == nil || hello.ServerName != "") {
		cert, err := s.getUser(hello)
		if err != nil {
			return nil, err
		}
		if cert != nil {
			return s.bound(cert)
		}
	}
	if certs == nil {
		return nil, errors.New("no certificate")
	}
	for i := range *certs {
		if len(*certs) == 1 || hello.SupportsCertificate(&(*certs)[i]) == nil {
			return &(*certs)[i], nil
		}
	}
	return &(*certs)[0], nil
}

// bound is cert with a key that crypto/tls can use: itself, or a copy when its key answers later.
func (s *Server) bound(cert *tls.Certificate) (*tls.Certificate, error) {
	if _, async := cert.PrivateKey.(AsyncSigner); !async {
		return cert, nil
	}
	c := *cert
	if err := s.bind(&c); err != nil {
		return nil, err
	}
	return &c, nil
}

// boundSigner is an AsyncSigner as crypto/tls wants it. It runs inside a handshake's coroutine and parks it.
type boundSigner struct {
	s   *Server
	key AsyncSigner
}

func (b *boundSigner) Public() crypto.PublicKey { return b.key.Public() }

// Sign is there for the interface; crypto/tls calls SignMessage.
func (b *boundSigner) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) {
	return nil, errors.New("signer takes messages, not digests")
}

// SignMessage implements crypto.MessageSigner.
func (b *boundSigner) SignMessage(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	h := b.s.current
	if h == nil {
		return nil, errors.New("signer used outside of a handshake")
	}
	job := &signJob{}
	h.job = job
	notify := b.s.notify
	b.key.StartSign(message, opts, func(signature []byte, err error) {
		if job.finish(signature, err) && notify != nil {
			notify(h)
		}
	})
	for !job.ready() {
		if !h.conn.park(Waiting) {
			job.state.Store(jobDropped)
			return nil, errAborted
		}
	}
	h.job, h.unsigned = nil, job.err != nil
	return job.signature, job.err
}

// signJob is one signature on its way.
type signJob struct {
	state     atomic.Uint32
	signature []byte // set before state becomes jobDone
	err       error
}

const (
	jobOpen uint32 = iota
	jobFilling
	jobDone
	jobDropped
)

// finish stores the first answer and reports whether somebody may wait for it.
func (j *signJob) finish(signature []byte, err error) bool {
	if !j.state.CompareAndSwap(jobOpen, jobFilling) {
		return false
	}
	j.signature, j.err = signature, err
	return j.state.CompareAndSwap(jobFilling, jobDone)
}

func (j *signJob) ready() bool { return j.state.Load() == jobDone }
