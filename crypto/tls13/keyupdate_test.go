package tls13

import (
	"bytes"
	"testing"
)

// TestFragmentedKeyUpdate sends a KeyUpdate cut at every point (RFC 8446 section 5.1 allows it).
func TestFragmentedKeyUpdate(t *testing.T) {
	msg := []byte{24, 0, 0, 1, 1}
	for cut := 1; cut < len(msg); cut++ {
		c := pair(t, suiteAES256)
		if ev := c.open(c.send(typeHandshake, msg[:cut]...)); ev[0].ev != EventIgnored || ev[0].err != nil {
			t.Fatalf("cut %d, first part: %+v", cut, ev)
		}
		if ev := c.open(c.send(typeHandshake, msg[cut:]...)); ev[0].ev != EventKeyUpdate || ev[0].err != nil {
			t.Fatalf("cut %d, second part: %+v", cut, ev)
		}
		if err := c.raw.write.rotate(); err != nil {
			t.Fatal(err)
		}
		if got := data(t, c.open(c.send(typeApplication, 'x'))); string(got) != "x" || !c.r.Pending() {
			t.Fatalf("cut %d: got %q under the new key, pending %t", cut, got, c.r.Pending())
		}
	}
	c := pair(t, suiteAES256)
	for i, b := range msg {
		want := EventIgnored
		if i == len(msg)-1 {
			want = EventKeyUpdate
		}
		if ev := c.open(c.send(typeHandshake, b)); ev[0].ev != want || ev[0].err != nil {
			t.Fatalf("byte %d: %+v", i, ev)
		}
	}
}

// TestKeyUpdateByUs replaces our write key, at will and because it is due, and the peer follows.
func TestKeyUpdateByUs(t *testing.T) {
	forSuites(t, func(t *testing.T, su suite) {
		c := pair(t, su)
		before := c.r.write.secret
		w, err := c.r.AppendKeyUpdate(c.cache, connKey, nil)
		if err != nil || c.r.write.secret == before || c.r.write.seq != 0 {
			t.Fatalf("no new key: %v", err)
		}
		if w, err = c.r.AppendSeal(c.cache, connKey, w, []byte("new key")); err != nil {
			t.Fatal(err)
		}
		got := openAll(&c.raw, c.rawC, w)
		if len(got) != 2 || got[0].ev != EventKeyUpdate || string(got[1].plain) != "new key" {
			t.Fatalf("peer got %+v", got)
		}
		if !c.raw.Pending() || !c.raw.NeedsUpdate() {
			t.Fatal("the peer was not asked for an update")
		}
		if w, err = c.raw.AppendSeal(c.rawC, connKey, nil, []byte("answer")); err != nil {
			t.Fatal(err)
		}
		got = c.open(w)
		if len(got) != 2 || got[0].ev != EventKeyUpdate || string(got[1].plain) != "answer" || c.r.Pending() {
			t.Fatalf("answer: %+v, pending %t", got, c.r.Pending())
		}
	})
}

func TestAppendPending(t *testing.T) {
	c := pair(t, suiteAES128)
	if w, err := c.r.AppendPending(c.cache, connKey, nil); err != nil || len(w) != 0 {
		t.Fatalf("nothing is due, got %d bytes, %v", len(w), err)
	}
	c.open(c.send(typeHandshake, 24, 0, 0, 1, 1))
	w, err := c.r.AppendPending(c.cache, connKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := openAll(&c.raw, c.rawC, w); len(got) != 1 || got[0].ev != EventKeyUpdate || c.raw.Pending() || c.r.Pending() {
		t.Fatalf("peer got %+v", got)
	}
}

// Trap 6: a KeyUpdate is answered once under the old key and the AEAD replaced; our own key is replaced in time.
func TestTrap06_KeyUpdateAnswerUsesTheOldKey(t *testing.T) {
	c := connect(t, newTestServer(t, serverConfig(), EngineLoop), clientConfig())
	if _, err := c.r.AppendSeal(c.cache, connKey, nil, []byte("fills the cache")); err != nil {
		t.Fatal(err)
	}
	c.raw.read.seq++
	for range 5 { // many requests, one answer
		if ev := c.open(c.send(typeHandshake, 24, 0, 0, 1, 1)); ev[0].ev != EventKeyUpdate {
			t.Fatalf("%+v", ev)
		}
		if err := c.raw.write.rotate(); err != nil {
			t.Fatal(err)
		}
	}
	old := c.r.write.secret
	wire, err := c.r.AppendSeal(c.cache, connKey, nil, []byte("after"))
	if err != nil {
		t.Fatal(err)
	}
	got := openAll(&c.raw, c.rawC, wire) // the first opens under the old key only
	if len(got) != 2 || got[0].ev != EventKeyUpdate || string(got[1].plain) != "after" || c.raw.Pending() {
		t.Fatalf("client got %+v", got)
	}
	if c.r.write.secret == old || c.r.Pending() {
		t.Error("the write key was not replaced")
	}
	if got := data(t, c.open(c.send(typeApplication, 'x'))); string(got) != "x" {
		t.Errorf("under the fifth key got %q", got)
	}
}

func TestTrap06_KeyLimit(t *testing.T) {
	forSuites(t, func(t *testing.T, su suite) {
		c := pair(t, su)
		c.r.write.seq, c.raw.read.seq = keyLimit-3, keyLimit-3
		want := bytes.Repeat([]byte("abcd"), 16384) // four records: two under the old key
		if c.r.NeedsUpdate() {
			t.Error("an update is due too early")
		}
		wire, err := c.r.AppendSeal(c.cache, connKey, nil, want)
		if err != nil {
			t.Fatal(err)
		}
		events := openAll(&c.raw, c.rawC, wire)
		if len(events) != 5 || events[2].ev != EventKeyUpdate || c.raw.Pending() {
			t.Fatalf("%d records, third is event %d", len(events), events[2].ev)
		}
		if got := data(t, append(events[:2:2], events[3:]...)); !bytes.Equal(got, want) {
			t.Errorf("%d bytes arrived, want %d", len(got), len(want))
		}
		if c.r.write.seq != 2 || c.r.write.epoch != 1 {
			t.Errorf("sequence %d, epoch %d", c.r.write.seq, c.r.write.epoch)
		}
		c.r.write.seq = keyLimit - 1
		if !c.r.NeedsUpdate() {
			t.Error("no update is due at the limit")
		}
		c.r.write.seq = keyLimit // can't happen; must not seal all the same
		_, err = c.r.sealOne(c.cache, connKey, nil, typeApplication, []byte("x"))
		wantError(t, err, ReasonKeyLimit, AlertInternalError)
	})
}

// The client of crypto/tls follows our KeyUpdates and answers them.
func TestTrap06_KeyUpdateWithGoClient(t *testing.T) {
	c := connect(t, newTestServer(t, serverConfig(), EngineLoop), clientConfig())
	for range 3 {
		wire, err := c.r.AppendKeyUpdate(c.cache, connKey, nil)
		if err != nil {
			t.Fatal(err)
		}
		if wire, err = c.r.AppendSeal(c.cache, connKey, wire, []byte("new key")); err != nil {
			t.Fatal(err)
		}
		if got := c.toClient(wire); string(got) != "new key" {
			t.Fatalf("client got %q", got)
		}
		if ev := c.open(c.client.take()); len(ev) != 1 || ev[0].ev != EventKeyUpdate || c.r.Pending() {
			t.Fatalf("the client's answer: %+v", ev)
		}
		c.echo("ping", "pong")
	}
}
