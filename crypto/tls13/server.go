package tls13

import (
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// Engine selects what protects records after the handshake.
type Engine uint8

// The engines.
const (
	EngineLoop   Engine = iota // Record: keys exported from crypto/tls, the record layer of this package
	EngineStdlib               // Retained: the crypto/tls connection is kept
)

// maxTicket bounds a session ticket, so that its message is one record: Export counts tickets to know the sequence number.
const maxTicket = maxPlaintext - 64

// Server holds what the handshakes of one loop share. Handshakes must be made and driven on one goroutine.
type Server struct {
	cfg     *tls.Config
	engine  Engine
	getUser func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	certs   atomic.Pointer[[]tls.Certificate]
	scratch *sync.Pool // *[scratchLen]byte, for Retained
	notify  func(*Handshake)

	// current is the handshake whose coroutine runs, nil outside. Callbacks of crypto/tls (key log, tickets, certificates,
	// signatures) run inside a resume and find their handshake here. A HelloRetryRequest makes key-log lines come on a later
	// resume than the first, with those of other handshakes in between.
	current *Handshake

	stats stats
}

type stats struct {
	started, done, resumed, active atomic.Uint64
	failed                         [NumReasons]atomic.Uint64
}

// Stats counts handshakes. Started counts those for which a stack was made; a client that sends no whole first record never gets one
// and appears, when it fails, in Failed only.
type Stats struct {
	Started uint64
	Done    uint64
	Resumed uint64 // of Done: by ticket
	Active  uint64 // gauge: coroutines alive now
	Failed  [NumReasons]uint64
}

// NewServer prepares cfg, which it copies. It enforces TLS 1.3, and takes over certificates, key log and ticket wrapping of the copy;
// cfg.GetCertificate and cfg.WrapSession are still called. Refused are a KeyLogWriter (secrets leave the process), a
// GetConfigForClient (would bypass all of this) and a Config without certificates.
//
// Servers of several loops must share ticket keys by SetTicketKeys, or a client resumes only on the loop that made its ticket.
func NewServer(cfg *tls.Config, engine Engine) (*Server, error) {
	switch {
	case cfg == nil:
		return nil, errors.New("tls server: no configuration")
	case engine > EngineStdlib:
		return nil, fmt.Errorf("tls server: unknown engine %d", engine)
	case cfg.KeyLogWriter != nil:
		return nil, errors.New("tls server: a key log is not allowed: it would reveal every session")
	case cfg.GetConfigForClient != nil:
		return nil, errors.New("tls server: GetConfigForClient is not supported")
	case len(cfg.Certificates) == 0 && cfg.GetCertificate == nil:
		return nil, errors.New("tls server: no certificate")
	case cfg.MaxVersion != 0 && cfg.MaxVersion < tls.VersionTLS13:
		return nil, errors.New("tls server: MaxVersion excludes TLS 1.3")
	}
	s := &Server{
		cfg:     cfg.Clone(),
		engine:  engine,
		getUser: cfg.GetCertificate,
		scratch: &sync.Pool{New: func() any { return new([scratchLen]byte) }},
	}
	if len(cfg.Certificates) > 0 {
		if err := s.SetCertificates(cfg.Certificates); err != nil {
			return nil, err
		}
	}
	s.cfg.MinVersion, s.cfg.MaxVersion = tls.VersionTLS13, tls.VersionTLS13
	s.cfg.Certificates, s.cfg.GetCertificate = nil, s.getCertificate
	s.cfg.DynamicRecordSizingDisabled = true // Retained: one record for one AppendSeal
	if engine == EngineLoop {
		s.cfg.KeyLogWriter = keyLog{s}
		s.cfg.WrapSession = s.wrapSession(cfg.WrapSession)
	}
	return s, nil
}

// SetTicketKeys replaces the keys that protect session tickets: the first makes new ones, all open old ones. It copies
// keys and may be called from any goroutine, on every Server of the process: copies of a Config do not follow each other.
func (s *Server) SetTicketKeys(keys [][32]byte) error {
	if len(keys) == 0 {
		return errors.New("tls server: no ticket keys")
	}
	s.cfg.SetSessionTicketKeys(keys)
	return nil
}

// OnSigned sets what is called when a signature that a handshake waits for has arrived: on the goroutine of the signer, so
// notify must do no more than post to the loop, which then calls Resume. Set it before the first handshake. A notification
// may come for a handshake that has ended meanwhile.
func (s *Server) OnSigned(notify func(*Handshake)) { s.notify = notify }

// Stats may be called from any goroutine.
func (s *Server) Stats() Stats {
	out := Stats{
		Started: s.stats.started.Load(),
		Done:    s.stats.done.Load(),
		Resumed: s.stats.resumed.Load(),
		Active:  s.stats.active.Load(),
	}
	for i := range out.Failed {
		out.Failed[i] = s.stats.failed[i].Load()
	}
	return out
}

// wrapSession counts the tickets of a handshake around the user's or the standard wrapping: each is one record under the first
// application key, and so moves the sequence number that a Record starts with.
func (s *Server) wrapSession(user func(tls.ConnectionState, *tls.SessionState) ([]byte, error)) func(tls.ConnectionState, *tls.SessionState) ([]byte, error) {
	if user == nil {
		user = s.cfg.EncryptTicket
	}
	return func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
		ss.EarlyData = false
		ticket, err := user(cs, ss)
		if err != nil {
			return nil, err
		}
		if len(ticket) > maxTicket {
			return nil, fmt.Errorf("session ticket has %d bytes, limit %d", len(ticket), maxTicket)
		}
		s.current.tickets++
		return ticket, nil
	}
}
