package floor

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"

	"github.com/klinkio/klink/proto/frame"
)

const (
	goroutineQueue  = 64 // frames that wait for a writer
	goroutineBuffer = 4 << 10
)

// Goroutines is a server with two goroutines for each connection: one reads through a buffer, one writes what comes through a channel. Its
// methods are safe for concurrent use.
type Goroutines struct {
	lis    net.Listener
	answer []byte

	mu      sync.Mutex
	members map[*peer]struct{}
}

// peer is one connection.
type peer struct {
	conn net.Conn
	out  chan []byte
	gone chan struct{} // closed when reading has ended
}

// ListenGoroutines binds a port of 127.0.0.1. answer is the body of the frame that answers a Connect.
func ListenGoroutines(ctx context.Context, answer []byte) (*Goroutines, error) {
	var lc net.ListenConfig
	lis, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	return &Goroutines{lis: lis, answer: frame.AppendStream(nil, answer), members: make(map[*peer]struct{})}, nil
}

// Addr is where the server listens.
func (g *Goroutines) Addr() net.Addr { return g.lis.Addr() }

// Run accepts until the listener is closed.
func (g *Goroutines) Run() error {
	for {
		c, err := g.lis.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		p := &peer{conn: c, out: make(chan []byte, goroutineQueue), gone: make(chan struct{})}
		go g.read(p)
		go p.write()
	}
}

// Close stops accepting and ends all connections that have logged in.
func (g *Goroutines) Close() error {
	err := g.lis.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range g.members {
		_ = p.conn.Close() // its reader sees it
	}
	return err
}

func (g *Goroutines) read(p *peer) {
	defer g.leave(p)
	in := bufio.NewReaderSize(p.conn, goroutineBuffer)
	var s Stream
	for {
		if _, err := in.Peek(1); err != nil {
			return // the client has left
		}
		b, _ := in.Peek(in.Buffered())
		n := len(b)
		for len(b) > 0 {
			var kind uint8
			var done bool
			if kind, done, b = s.Next(b); done {
				g.frame(p, kind)
			}
		}
		if _, err := in.Discard(n); err != nil {
			return
		}
	}
}

func (g *Goroutines) frame(p *peer, kind uint8) {
	switch kind {
	case KindBeat:
		p.give(pong)
	case KindConnect:
		g.mu.Lock()
		g.members[p] = struct{}{}
		g.mu.Unlock()
		p.give(g.answer)
	}
}

func (g *Goroutines) leave(p *peer) {
	g.mu.Lock()
	delete(g.members, p)
	g.mu.Unlock()
	close(p.gone)
	_ = p.conn.Close() // nothing is left to be said on it
}

// write sends what waits, as much as there is at once.
func (p *peer) write() {
	out := bufio.NewWriterSize(p.conn, goroutineBuffer)
	for {
		select {
		case b := <-p.out:
			_, err := out.Write(b)
			if err == nil && len(p.out) == 0 {
				err = out.Flush()
			}
			if err != nil {
				_ = p.conn.Close() // the reader sees it, and nobody waits for this queue any more
				p.discard()
				return
			}
		case <-p.gone:
			return
		}
	}
}

// give hands a frame to the writer, unless the connection has ended.
func (p *peer) give(b []byte) {
	select {
	case p.out <- b:
	case <-p.gone:
	}
}

// discard takes what is still given to a connection that can't be written to any more, until its reader has ended, too.
func (p *peer) discard() {
	for {
		select {
		case <-p.out:
		case <-p.gone:
			return
		}
	}
}

// Members counts the connections that have logged in.
func (g *Goroutines) Members() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.members)
}

// Push gives the frame, which is kept, n times to everyone who has logged in and returns how many there are. It waits for slow readers.
func (g *Goroutines) Push(frame []byte, n int) (reached int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for range n {
		for p := range g.members {
			p.give(frame)
		}
	}
	return len(g.members)
}
