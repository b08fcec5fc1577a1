package netloop

import (
	"errors"
	"math"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/fe/link"
)

// TestStopAccepting closes listeners with connections in their queues: those are served.
func TestStopAccepting(t *testing.T) {
	ts := serve(t, func(c *Config) { c.Loops = 1 })
	held, release := make(chan struct{}), make(chan struct{})
	go ts.echoes[0].do(func() { close(held); <-release })
	<-held
	const clients = 3 * maxAccepts
	conns := make([]*net.TCPConn, clients)
	for i := range conns {
		conns[i] = ts.tcp(t, 0) // the kernel completes it; nobody has accepted it
	}
	stopped := make(chan struct{})
	go func() { ts.StopAccepting(); close(stopped) }()
	eventually(t, "the order is posted", func() bool {
		m := &ts.loops[0].mail
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.tasks) > 0
	})
	close(release)
	<-stopped
	if c, err := net.Dial("tcp", ts.addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after StopAccepting a dial answers %v", err)
		if err == nil {
			c.Close()
		}
	}
	for _, c := range conns {
		p, err := ts.upon(c, "tcp")
		if err != nil {
			t.Fatal(err)
		}
		roundTrip(t, p, "late but in time")
	}
	if n := ts.Stats().Accepted; n != clients {
		t.Errorf("%d were accepted", n)
	}
	ts.StopAccepting()
}

// TestListenTaken names the address that is taken, also by another server that shares its ports.
func TestListenTaken(t *testing.T) {
	ts := serve(t, nil)
	_, err := Listen(Config{
		Listeners: []Listener{{Addr: ts.addr, Insecure: true}}, Loops: 1,
		NewHandler: func(l link.Loop) link.Handler { return newEcho(l) },
	})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), ts.addr) {
		t.Errorf("%v", err)
	}
}

// TestListenConfig refuses what can't work, and leaves no descriptor behind.
func TestListenConfig(t *testing.T) {
	before := openDescriptors(t)
	handler := func(l link.Loop) link.Handler { return newEcho(l) }
	plain := []Listener{{Addr: "127.0.0.1:0", Insecure: true}}
	for want, cfg := range map[string]Config{
		"no handler":             {Listeners: plain},
		"listeners":              {NewHandler: handler},
		"neither TLS":            {NewHandler: handler, Listeners: []Listener{{Addr: "127.0.0.1:0"}}},
		"TLS without":            {NewHandler: handler, Listeners: []Listener{{Addr: "127.0.0.1:0", TLS: true}}},
		"loops":                  {NewHandler: handler, Listeners: plain, Loops: 256},
		"max frame":              {NewHandler: handler, Listeners: plain, MaxFrame: -1},
		"timeout":                {NewHandler: handler, Listeners: plain, CloseGrace: -1},
		"send buffer":            {NewHandler: handler, Listeners: plain, SendBuffer: -1},
		"max input bytes":        {NewHandler: handler, Listeners: plain, MaxInputBytes: -1},
		"accept rate":            {NewHandler: handler, Listeners: plain, AcceptRate: math.NaN()},
		"path":                   {NewHandler: handler, Listeners: plain, Path: "connect"},
		"not one of":             {NewHandler: handler, Listeners: plain, CPUs: []int{-1}},
		"listen on 127.0.0.1:no": {NewHandler: handler, Listeners: []Listener{{Addr: "127.0.0.1:no", Insecure: true}}},
	} {
		s, err := Listen(cfg)
		if err == nil {
			s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	s, err := Listen(Config{Listeners: plain, NewHandler: handler, Loops: 3})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if n := openDescriptors(t); n > before {
		t.Errorf("%d descriptors, %d before", n, before)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("a closed server ran")
	}
}

// TestPinned runs the loops on cores of their own.
func TestPinned(t *testing.T) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !set.IsSet(cpu) {
		cpu++
	}
	ts := serve(t, func(c *Config) { c.CPUs = []int{cpu} })
	for _, tr := range transports {
		roundTrip(t, ts.dial(t, tr), tr)
	}
	ts.echoes[0].do(func() {
		var got unix.CPUSet
		if err := unix.SchedGetaffinity(0, &got); err != nil || got.Count() != 1 || !got.IsSet(cpu) {
			t.Errorf("the loop may run on %d cores, %v", got.Count(), err)
		}
	})
}

// TestLoopFails takes the epoll descriptor from a loop: the server ends and says why, and its connections hear of it.
func TestLoopFails(t *testing.T) {
	ts := listenTest(t, nil)
	done := make(chan error, 1)
	go func() { done <- ts.Run(t.Context()) }()
	for range 8 { // over both loops
		roundTrip(t, ts.dial(t, "tcp"), "begin")
		roundTrip(t, ts.dial(t, "tls"), "begin")
	}
	ts.echoes[0].do(func() {
		if err := unix.Dup3(ts.loops[0].waker.event, ts.loops[0].waker.ep, unix.O_CLOEXEC); err != nil {
			t.Error(err)
		}
	})
	ts.echoes[0].loop.Wake()
	if err := <-done; err == nil || !strings.Contains(err.Error(), "loop 0: epoll_wait") {
		t.Errorf("Run: %v", err)
	}
	if st := ts.Stats(); st.Conns != 0 || st.Closed[link.CloseError]+st.Closed[link.CloseShutdown] != 16 {
		t.Errorf("%d connections are left, ends: %v", st.Conns, st.Closed)
	}
}

// TestManyLoops has several listeners, each with a socket on every loop, and connections on all.
func TestManyLoops(t *testing.T) {
	ts := serve(t, func(c *Config) {
		c.Loops, c.HandshakeLoops = 4, 2
		c.Listeners = append(c.Listeners, Listener{Addr: "[::1]:0", Insecure: true}, Listener{Addr: "127.0.0.1:0", TLS: true})
	})
	if len(ts.Addrs()) != 3 {
		t.Fatalf("addresses %v", ts.Addrs())
	}
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			c, err := dialTCP(ts.Addrs()[i%3].String(), 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			tr := "tcp"
			if i%3 == 2 {
				tr = "tls"
			}
			p, err := ts.upon(c, tr)
			if err != nil {
				t.Error(err)
				return
			}
			if err := p.send([]byte("x")); err != nil {
				t.Error(err)
			}
			if b, err := p.recv(); err != nil || string(b) != "x" {
				t.Errorf("%q %v", b, err)
			}
		})
	}
	wg.Wait()
	for i, e := range ts.echoes {
		if e.loop.Index() != i {
			t.Errorf("loop %d is called %d", i, e.loop.Index())
		}
	}
	c, err := dialTCP(ts.Addrs()[1].String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(clientHello(t)); err != nil {
		t.Fatal(err)
	}
	ts.refusal(t, RefusedTLS, 1)
	c, err = dialTCP(ts.Addrs()[2].String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	ts.refusal(t, RefusedPlain, 1)
}
