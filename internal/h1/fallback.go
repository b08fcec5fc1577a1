package h1

import (
	"net"
	"os"
	"sync"
)

// fallback is a listener of connections that were read from already.
type fallback struct {
	addr   net.Addr
	mu     sync.Mutex
	cond   *sync.Cond
	queue  []net.Conn
	closed bool
}

func newFallback(addr net.Addr) *fallback {
	f := &fallback{addr: addr}
	f.cond = sync.NewCond(&f.mu)
	return f
}

// put takes over the descriptor. It reports whether net/http gets the connection.
func (f *fallback) put(fd int32, prefix []byte) bool {
	file := os.NewFile(uintptr(fd), "api")
	c, err := net.FileConn(file)
	file.Close() // FileConn has its own
	if err != nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		c.Close()
		return false
	}
	f.queue = append(f.queue, &replayed{Conn: c, prefix: prefix})
	f.cond.Signal()
	return true
}

// Accept implements [net.Listener].
func (f *fallback) Accept() (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for len(f.queue) == 0 {
		if f.closed {
			return nil, net.ErrClosed
		}
		f.cond.Wait()
	}
	c := f.queue[0]
	f.queue[0] = nil
	f.queue = f.queue[1:]
	return c, nil
}

// Close implements [net.Listener]. Connections that nobody has accepted are closed.
func (f *fallback) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for _, c := range f.queue {
		c.Close()
	}
	f.queue = nil
	f.cond.Broadcast()
	return nil
}

// Addr implements [net.Listener].
func (f *fallback) Addr() net.Addr { return f.addr }

// replayed is a connection whose first bytes were read before.
type replayed struct {
	net.Conn
	prefix []byte
}

func (r *replayed) Read(p []byte) (int, error) {
	if len(r.prefix) > 0 {
		n := copy(p, r.prefix)
		if r.prefix = r.prefix[n:]; len(r.prefix) == 0 {
			r.prefix = nil
		}
		return n, nil
	}
	return r.Conn.Read(p)
}
