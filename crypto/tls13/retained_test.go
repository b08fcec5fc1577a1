package tls13

import (
	"bytes"
	"testing"
)

func TestRetainedEcho(t *testing.T) {
	s := newTestServer(t, serverConfig(), EngineStdlib)
	r, client := connectRetained(t, s, clientConfig(), nil)
	check := &conn{t: t, client: client}
	for _, n := range []int{1, 100, maxPlaintext, 3*maxPlaintext + 1} {
		want := bytes.Repeat([]byte{'a'}, n)
		// The answer is sealed inside yield, as a loop's handler does.
		var wire []byte
		closed, err := r.Feed(check.write(want), func(p []byte) {
			var err error
			if wire, err = r.AppendSeal(wire, p); err != nil {
				t.Fatal(err)
			}
		})
		if closed || err != nil {
			t.Fatal(closed, err)
		}
		if got := check.toClient(wire); !bytes.Equal(got, want) {
			t.Fatalf("%d bytes, want %d", len(got), n)
		}
	}
	if st := s.Stats(); st.Active != 0 || st.Done != 1 {
		t.Errorf("stats %+v", st)
	}
	if r.shim.in != nil || r.shim.out != nil {
		t.Error("an idle connection keeps buffers")
	}
}

func TestRetainedOneRecordForOneSeal(t *testing.T) {
	r, _ := connectRetained(t, newTestServer(t, serverConfig(), EngineStdlib), clientConfig(), nil)
	for range 3 {
		wire, err := r.AppendSeal(nil, make([]byte, 10_000))
		if n, ok, _ := RecordLen(wire); err != nil || !ok || n != len(wire) {
			t.Fatalf("first record has %d of %d bytes, %v", n, len(wire), err)
		}
	}
}

func TestRetainedRefusesBadRecord(t *testing.T) {
	r, client := connectRetained(t, newTestServer(t, serverConfig(), EngineStdlib), clientConfig(), nil)
	check := &conn{t: t, client: client}
	wire := check.write([]byte("x"))
	wire[len(wire)-1] ^= 1
	closed, err := r.Feed(wire, func([]byte) { t.Error("plaintext of a bad record") })
	wantError(t, err, ReasonConn, NoAlert)
	if closed || !r.Pending() {
		t.Fatal("no alert is pending")
	}
	client.shim.in = r.AppendPending(nil)
	if _, err := client.conn.Read(make([]byte, 1)); err == nil || !bytes.Contains([]byte(err.Error()), []byte("bad record MAC")) {
		t.Errorf("client reads %v", err)
	}
	_, err = r.Feed(nil, func([]byte) {})
	wantError(t, err, ReasonConn, NoAlert)
}

// A record of ours that is too large for one key: the engine can't replace it, so it says so in time.
func TestRetainedKeyLimit(t *testing.T) {
	r, _ := connectRetained(t, newTestServer(t, serverConfig(), EngineStdlib), clientConfig(), nil)
	r.limited = true // whatever suite this processor prefers
	r.sealed = keyLimit - 3
	if _, err := r.AppendSeal(nil, make([]byte, 2*maxPlaintext)); err != nil {
		t.Fatal(err)
	}
	_, err := r.AppendSeal(nil, []byte("x"))
	wantError(t, err, ReasonKeyLimit, NoAlert)
	if wire, err := r.AppendCloseNotify(nil); err != nil || len(wire) == 0 {
		t.Errorf("no close_notify: %v", err)
	}
}

func TestRetainedOwesOutput(t *testing.T) {
	h, client := newTestServer(t, serverConfig(), EngineStdlib).NewHandshake(), newMemClient(clientConfig())
	if _, err := h.Feed(client.feed(nil)); err != nil {
		t.Fatal(err)
	}
	if st, err := h.Feed(client.feed(h.Output())); st != Done || err != nil {
		t.Fatal(st, err)
	}
	h.conn.out = append(h.conn.out, "owed"...)
	r, err := h.Conn()
	if err != nil || r.Pending() || string(h.Output()) != "owed" || len(h.Output()) != 0 {
		t.Errorf("output of the handshake went to the connection: %v", err)
	}
	wantMisuse(t, ErrMisuse, func() error { _, err := h.Conn(); return err })
	var rec Record
	wantMisuse(t, ErrMisuse, func() error { _, err := h.Export(&rec); return err })
	if _, err := r.AppendSeal(nil, []byte("works")); err != nil {
		t.Error(err)
	}
}
