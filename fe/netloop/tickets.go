package netloop

import (
	"crypto/rand"
	"sync"
	"time"
)

// ticketLife is how long a key of the server's own makes tickets; it opens them ticketKept times as long.
const (
	ticketLife = 24 * time.Hour
	ticketKept = 7
)

// ticketKeys are the keys of TLS session tickets, the same on every handshake loop: a client comes back to any of them.
type ticketKeys struct {
	mu    sync.Mutex
	own   [][32]byte
	given bool // by SetTicketKeys
}

func (t *ticketKeys) set(hs []*hsLoop, keys [][32]byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := spread(hs, keys); err != nil {
		return err // the old keys stay, and are renewed
	}
	t.given = true
	clear(t.own)
	t.own = nil
	return nil
}

// rotate puts a new key before the others, unless the keys come from outside.
func (t *ticketKeys) rotate(hs []*hsLoop) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.given || len(hs) == 0 {
		return nil
	}
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails (crypto/rand)
	keys := append([][32]byte{key}, t.own...)
	t.own = keys[:min(len(keys), ticketKept)]
	return spread(hs, t.own)
}

func spread(hs []*hsLoop, keys [][32]byte) error {
	for _, h := range hs {
		if err := h.tls.SetTicketKeys(keys); err != nil {
			return err
		}
	}
	return nil
}
