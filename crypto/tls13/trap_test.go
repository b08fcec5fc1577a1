package tls13

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"unsafe"
)

// The tests of this file play the traps of TLS on an event loop, one each. The numbers are those of the design's list; what is missing
// from it belongs to the loop.

// connectRetained is a connection of EngineStdlib. early is what the client sends together with its Finished.
func connectRetained(t *testing.T, s *Server, cfg *tls.Config, early []byte) (*Retained, *memClient) {
	t.Helper()
	h, client := s.NewHandshake(), newMemClient(cfg)
	if _, err := h.Feed(client.feed(nil)); err != nil {
		t.Fatal(err)
	}
	flight := client.feed(h.Output())
	if client.err != nil || !client.ended {
		t.Fatalf("client: %v, ended %t", client.err, client.ended)
	}
	if len(early) > 0 {
		if _, err := client.conn.Write(early); err != nil {
			t.Fatal(err)
		}
		flight = append(flight, client.take()...)
	}
	if st, err := h.Feed(flight); st != Done || err != nil {
		t.Fatal(st, err)
	}
	r, err := h.Conn()
	if err != nil {
		t.Fatal(err)
	}
	return r, client
}

// feed collects the plaintext of a Retained.
func feed(t *testing.T, r *Retained, wire []byte) (plain []byte, closed bool) {
	t.Helper()
	closed, err := r.Feed(wire, func(p []byte) { plain = append(plain, p...) })
	if err != nil {
		t.Fatal(err)
	}
	return plain, closed
}

// Trap 1: crypto/tls keeps every error that is not Temporary, Timeout or not.
func TestTrap01_ShimErrorIsTemporary(t *testing.T) {
	var err error = again{}
	if ne, ok := err.(net.Error); !ok || !err.(interface{ Temporary() bool }).Temporary() || !ne.Timeout() {
		t.Fatal("not a temporary net.Error")
	}
	r, client := connectRetained(t, newTestServer(t, serverConfig(), EngineStdlib), clientConfig(), nil)
	want := bytes.Repeat([]byte("0123456789"), 300)
	if _, err := client.conn.Write(want[:10]); err != nil {
		t.Fatal(err)
	}
	if _, err := client.conn.Write(want[10:]); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for piece := range slicesOf(client.take(), 1) { // one temporary error a byte
		plain, closed := feed(t, r, piece)
		if closed {
			t.Fatal("closed")
		}
		got = append(got, plain...)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("got %d bytes, want %d", len(got), len(want))
	}
}

// Trap 2: the shim takes every byte, and what was sealed can be sent in any pieces without sealing again.
func TestTrap02_WritesAreTakenWhole(t *testing.T) {
	want := bytes.Repeat([]byte("klink"), 200_000)
	r, client := connectRetained(t, newTestServer(t, serverConfig(), EngineStdlib), clientConfig(), nil)
	wire, err := r.AppendSeal([]byte(nil), want)
	if err != nil || r.Pending() {
		t.Fatal(err)
	}
	check := &conn{t: t, client: client}
	if got := check.toClient(wire); !bytes.Equal(got, want) {
		t.Errorf("retained: %d bytes, want %d", len(got), len(want))
	}
	c := connect(t, newTestServer(t, serverConfig(), EngineLoop), clientConfig())
	if wire, err = c.r.AppendSeal(c.cache, connKey, nil, want); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for piece := range slicesOf(wire, 1448) {
		got = append(got, c.toClient(piece)...)
	}
	if records := (len(want) + maxPlaintext - 1) / maxPlaintext; !bytes.Equal(got, want) || c.r.write.seq != uint64(records)+c.h.tickets {
		t.Errorf("record: %d bytes, want %d; sequence %d", len(got), len(want), c.r.write.seq)
	}
}

// Trap 3: application data that comes with the client's Finished must not vanish in crypto/tls.
func TestTrap03_DataBehindFinished(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineLoop)
	h, client := s.NewHandshake(), newMemClient(clientConfig())
	if _, err := h.Feed(client.feed(nil)); err != nil {
		t.Fatal(err)
	}
	flight := client.feed(h.Output())
	for _, text := range []string{"first", "second", "third"} {
		if _, err := client.conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		flight = append(flight, client.take()...)
	}
	st, err := h.Feed(flight[:len(flight)-9]) // the end of the third comes later
	if st != Done || err != nil {
		t.Fatal(st, err)
	}
	var r Record
	left, err := h.Export(&r)
	if err != nil {
		t.Fatal(err)
	}
	left = append(left, flight[len(flight)-9:]...)
	if got := data(t, openAll(&r, NewCache(1), left)); string(got) != "firstsecondthird" {
		t.Errorf("got %q", got)
	}

	ret, _ := connectRetained(t, newTestServer(t, serverConfig(), EngineStdlib), clientConfig(), []byte("with the Finished"))
	if got, _ := feed(t, ret, nil); string(got) != "with the Finished" {
		t.Errorf("retained got %q", got)
	}
}

// Trap 4: the first write sequence number is the number of tickets that were sent.
func TestTrap04_SequenceStartsBehindTickets(t *testing.T) {
	cached := clientConfig()
	cached.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	off := serverConfig()
	off.SessionTicketsDisabled = true
	for _, tc := range []struct {
		name    string
		server  *tls.Config
		client  *tls.Config
		tickets uint64
	}{
		{"client that resumes", serverConfig(), cached, 1},
		{"client that does not", serverConfig(), clientConfig(), 0},
		{"tickets disabled", off, cached, 0},
	} {
		c := connect(t, newTestServer(t, tc.server, EngineLoop), tc.client)
		if c.h.tickets != tc.tickets || c.r.write.seq != tc.tickets {
			t.Errorf("%s: %d tickets, sequence %d, want %d", tc.name, c.h.tickets, c.r.write.seq, tc.tickets)
		}
		c.echo("ping", "pong")
	}
}

// Trap 5: after a HelloRetryRequest the secrets are logged on a later resume, with other handshakes in between.
func TestTrap05_SecretsOfInterleavedHandshakes(t *testing.T) {
	cfg := serverConfig()
	cfg.CurvePreferences = []tls.CurveID{tls.CurveP384}
	s := newTestServer(t, cfg, EngineLoop)
	type half struct {
		h *Handshake
		c *memClient
	}
	var all []half
	for range 5 {
		all = append(all, half{s.NewHandshake(), newMemClient(clientConfig())})
	}
	var flights [][]byte
	for _, x := range all {
		if st, err := x.h.Feed(x.c.feed(nil)); st != NeedMore || err != nil {
			t.Fatal(st, err)
		}
		flights = append(flights, x.c.feed(x.h.Output())) // second ClientHello
		if x.h.secrets.clientLen != 0 {
			t.Fatal("secrets before the second hello: no HelloRetryRequest?")
		}
	}
	for i := len(all) - 1; i >= 0; i-- { // in another order
		if st, err := all[i].h.Feed(flights[i]); st != NeedMore || err != nil {
			t.Fatal(st, err)
		}
	}
	for _, i := range []int{2, 0, 4, 1, 3} {
		x := all[i]
		if st, err := x.h.Feed(x.c.feed(x.h.Output())); st != Done || err != nil || !x.h.Result().Retried {
			t.Fatal(st, err, x.h.Result())
		}
		var r Record
		if _, err := x.h.Export(&r); err != nil {
			t.Fatal(err)
		}
		if _, err := x.c.conn.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		if got := data(t, openAll(&r, NewCache(1), x.c.take())); len(got) != 1 || got[0] != byte(i) {
			t.Errorf("connection %d got %x", i, got)
		}
	}
}

// Trap 7, the part of the keys: slab memory is used again, so nothing of them may stay.
func TestTrap07_SecretsAreWiped(t *testing.T) {
	forSuites(t, func(t *testing.T, su suite) {
		c := pair(t, su)
		if _, err := c.r.AppendSeal(c.cache, connKey, nil, []byte("x")); err != nil {
			t.Fatal(err)
		}
		secret, key := c.r.write.secret, c.r.write.key
		mem := bytesOf(&c.r)
		if !bytes.Contains(mem, secret[:su.secretLen()]) || !bytes.Contains(mem, key[:su.keyLen()]) {
			t.Fatal("the scan does not see the secrets that are there")
		}
		c.r.Wipe(c.cache, connKey)
		for i, b := range mem {
			if b != 0 {
				t.Fatalf("byte %d is %#x after Wipe", i, b)
			}
		}
		if st := c.cache.Stats(); st.Entries != 0 {
			t.Errorf("%d AEADs after Wipe", st.Entries)
		}
	})
	s := newTestServer(t, serverConfig(), EngineLoop)
	h := s.NewHandshake()
	if err := shake(h, newMemClient(clientConfig())); err != nil {
		t.Fatal(err)
	}
	if h.secrets == (secrets{}) {
		t.Fatal("no secrets before the export")
	}
	var r Record
	if _, err := h.Export(&r); err != nil {
		t.Fatal(err)
	}
	if h.secrets != (secrets{}) {
		t.Error("secrets in the Handshake after the export")
	}
	line := []byte("CLIENT_RANDOM 00 00\n")
	s.current = h
	if n, err := (keyLog{s}).Write(line); err != nil || n != len(line) {
		t.Fatal(n, err)
	}
	s.current = nil
	if !bytes.Equal(line, make([]byte, len(line))) {
		t.Errorf("key log line %q was not wiped", line)
	}
}

// Trap 8: a slow client costs no stack before its first record is whole, and none after it was given up.
func TestTrap08_HalfOpenHandshakesLeakNothing(t *testing.T) {
	const n = 1000
	s := newTestServer(t, serverConfig(), EngineLoop)
	cfg := clientConfig()
	cfg.CurvePreferences = []tls.CurveID{tls.X25519}
	first := hello(cfg)
	before := runtime.NumGoroutine()
	all := make([]*Handshake, n)
	for i := range all {
		all[i] = s.NewHandshake()
		if st, err := all[i].Feed(first[:len(first)-1]); st != NeedMore || err != nil {
			t.Fatal(st, err)
		}
	}
	if got := runtime.NumGoroutine(); got > before || s.Stats().Active != 0 {
		t.Fatalf("%d goroutines more, %d coroutines before a hello was whole", got-before, s.Stats().Active)
	}
	for _, h := range all {
		if st, err := h.Feed(first[len(first)-1:]); st != NeedMore || err != nil {
			t.Fatal(st, err)
		}
	}
	if got := runtime.NumGoroutine(); got < before+n/2 || s.Stats().Active != n { // others may end meanwhile
		t.Fatalf("%d goroutines more, %d active: the count can't see coroutines", got-before, s.Stats().Active)
	}
	for _, h := range all {
		h.Abort()
	}
	if got := runtime.NumGoroutine(); got > before || s.Stats().Active != 0 {
		t.Fatalf("%d goroutines more, %d active after Abort", got-before, s.Stats().Active)
	}
}

// Trap 11: Open decrypts in place.
func TestTrap11_PlaintextAliasesTheRecord(t *testing.T) {
	c := pair(t, suiteAES128)
	wire := c.send(typeApplication, []byte("aliased")...)
	_, plain, err := c.r.Open(c.cache, connKey, wire)
	if err != nil || unsafe.SliceData(plain) != &wire[headerLen] {
		t.Fatalf("plaintext is elsewhere (%v): the documentation is wrong", err)
	}
	// Only as far as the record: appending to plaintext must not reach what follows in the read buffer.
	next := append(c.send(typeApplication, 'x'), "neighbour"...)
	total, _, _ := RecordLen(next)
	_, plain, err = c.r.Open(c.cache, connKey, next[:total:total])
	if err != nil {
		t.Fatal(err)
	}
	_ = append(plain, bytes.Repeat([]byte{'!'}, 64)...)
	if !bytes.HasSuffix(next, []byte("neighbour")) {
		t.Error("the neighbour was overwritten")
	}
}

// Trap 12, the part of TLS: close_notify is read and sent, so that nobody sees a truncation.
func TestTrap12_CloseNotifyBothWays(t *testing.T) {
	eof := func(client *memClient, wire []byte) {
		t.Helper()
		client.shim.in = append(client.shim.in, wire...)
		if n, err := client.conn.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("client reads %d, %v", n, err)
		}
		if err := client.conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
	}
	c := connect(t, newTestServer(t, serverConfig(), EngineLoop), clientConfig())
	wire, err := c.r.AppendCloseNotify(c.cache, connKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	eof(c.client, wire)
	if ev := c.open(c.client.take()); len(ev) != 1 || ev[0].ev != EventCloseNotify {
		t.Errorf("server opens %+v", ev)
	}

	r, client := connectRetained(t, newTestServer(t, serverConfig(), EngineStdlib), clientConfig(), nil)
	if wire, err = r.AppendCloseNotify(nil); err != nil {
		t.Fatal(err)
	}
	if again, err := r.AppendCloseNotify(nil); err != nil || len(again) != 0 {
		t.Errorf("second close_notify: %d bytes, %v", len(again), err)
	}
	eof(client, wire)
	if _, closed := feed(t, r, client.take()); !closed {
		t.Error("retained does not see the close_notify")
	}
}

// Trap 13: a ClientHello with ML-KEM is larger than a segment, and may be cut anywhere, also into several records.
func TestTrap13_HelloInPieces(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineLoop)
	for _, cut := range []int{1, 4, 5, 6, 100, 1200, 1400} {
		h, client := s.NewHandshake(), newMemClient(clientConfig())
		first := client.feed(nil)
		if len(first) < 1400 {
			t.Fatalf("the hello has %d bytes: no ML-KEM?", len(first))
		}
		if st, err := h.Feed(first[:cut]); st != NeedMore || err != nil || len(h.Output()) != 0 {
			t.Fatalf("cut %d: %d, %v", cut, st, err)
		}
		if _, err := h.Feed(first[cut:]); err != nil {
			t.Fatal(err)
		}
		if st, err := h.Feed(client.feed(h.Output())); st != Done || err != nil {
			t.Fatalf("cut %d: %d, %v", cut, st, err)
		}
	}
	for _, step := range []int{1, 500, 1000} { // records of that size
		h, client := s.NewHandshake(), newMemClient(clientConfig())
		var records []byte
		for piece := range slicesOf(client.feed(nil)[headerLen:], step) {
			records = append(records, typeHandshake, 3, 1, byte(len(piece)>>8), byte(len(piece)))
			records = append(records, piece...)
		}
		for piece := range slicesOf(records, 700) {
			if _, err := h.Feed(piece); err != nil {
				t.Fatal(err)
			}
		}
		if st, err := h.Feed(client.feed(h.Output())); st != Done || err != nil {
			t.Fatalf("records of %d bytes: %d, %v", step, st, err)
		}
	}
}

// Trap 15: ticket keys reach the Config of every loop, and old tickets work as long as their key is listed.
func TestTrap15_TicketKeysOnEveryLoop(t *testing.T) {
	base := serverConfig()
	loops := []*Server{newTestServer(t, base, EngineLoop), newTestServer(t, base, EngineLoop), newTestServer(t, base, EngineStdlib)}
	rotate := func(keys ...[32]byte) {
		for _, s := range loops {
			if err := s.SetTicketKeys(keys); err != nil {
				t.Fatal(err)
			}
		}
	}
	ticket := func() *tls.Config {
		cfg := clientConfig()
		cfg.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		c := connect(t, loops[0], cfg)
		if c.h.Result().Resumed {
			t.Fatal("resumed without a ticket")
		}
		c.echo("ping", "pong")
		return cfg
	}
	resumed := func(cfg *tls.Config, s *Server) bool {
		h, c := s.NewHandshake(), newMemClient(cfg)
		if err := shake(h, c); err != nil {
			t.Fatal(err)
		}
		return h.Result().Resumed
	}
	k1, k2, k3 := [32]byte{1}, [32]byte{2}, [32]byte{3}
	rotate(k1)
	old := ticket()
	rotate(k2, k1)
	fresh := ticket()
	for i, s := range loops {
		if !resumed(fresh, s) {
			t.Errorf("loop %d: a ticket made after the rotation does not open", i)
		}
	}
	if !resumed(old, loops[1]) {
		t.Error("a ticket of the old key does not open during the overlap")
	}
	expired := ticket()
	rotate(k3)
	if resumed(expired, loops[1]) {
		t.Error("a ticket of a removed key opens")
	}
	if loops[0].SetTicketKeys(nil) == nil {
		t.Error("no keys: accepted")
	}
}
