package tls13

import (
	"bytes"
	"crypto/tls"
	"testing"
	"unsafe"
)

var allSuites = []suite{suiteAES128, suiteAES256, suiteChaCha20}

func forSuites(t *testing.T, f func(t *testing.T, su suite)) {
	for _, su := range allSuites {
		t.Run(tls.CipherSuiteName(su.id()), func(t *testing.T) { f(t, su) })
	}
}

// bytesOf is the memory of a record.
func bytesOf(r *Record) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(r)), unsafe.Sizeof(*r)) }

func TestRecordSize(t *testing.T) {
	if n := unsafe.Sizeof(Record{}); n > 208 {
		t.Fatalf("a Record has %d bytes, budget 208", n)
	}
}

func TestSealSizes(t *testing.T) {
	forSuites(t, func(t *testing.T, su suite) {
		c := pair(t, su)
		for _, n := range []int{0, 1, 15, 16, 17, 100, 16383, 16384, 16385, 40000, 65536} {
			plain := bytes.Repeat([]byte{byte(n), 0}, n/2+1)[:n] // ends in zeros, too: content is not padding
			prefix := []byte("already there")
			wire, err := c.r.AppendSeal(c.cache, connKey, bytes.Clone(prefix), plain)
			if err != nil || !bytes.HasPrefix(wire, prefix) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			wire = wire[len(prefix):]
			if len(wire) != SealedLen(n) {
				t.Errorf("%d bytes became %d, SealedLen says %d", n, len(wire), SealedLen(n))
			}
			if got := data(t, openAll(&c.raw, c.rawC, wire)); !bytes.Equal(got, plain) {
				t.Errorf("%d bytes came back as %d", n, len(got))
			}
		}
	})
}

func TestRecordLen(t *testing.T) {
	for _, tc := range []struct {
		name  string
		hdr   []byte
		total int
		want  *Error
	}{
		{"nothing", nil, 0, nil},
		{"four bytes", []byte{23, 3, 3, 0}, 0, nil},
		{"empty", []byte{23, 3, 3, 0, 0}, 5, nil},
		{"largest", []byte{23, 3, 3, 0x41, 0x00}, MaxRecord, nil},
		{"with body", []byte{23, 3, 3, 0, 2, 9, 9, 9}, 7, nil},
		{"one too many", []byte{23, 3, 3, 0x41, 0x01}, 0, errOverflow},
		{"65535", []byte{23, 3, 3, 0xff, 0xff}, 0, errOverflow},
		{"plain alert", []byte{21, 3, 3, 0, 2}, 0, errType},
		{"plain handshake", []byte{22}, 0, errType},
		{"change_cipher_spec", []byte{20, 3, 3, 0, 1, 1}, 0, errType},
		{"heartbeat", []byte{24, 3, 3, 0, 1}, 0, errType},
		{"HTTP", []byte("GET / HTTP/1.1"), 0, errType},
		{"TLS 1.3 as version", []byte{23, 3, 4, 0, 1}, 0, errVersion},
		{"TLS 1.0", []byte{23, 3, 1}, 0, errVersion},
		{"major 2", []byte{23, 2, 3, 0, 1}, 0, errVersion},
	} {
		total, ok, err := RecordLen(tc.hdr)
		if tc.want != nil {
			if err != error(tc.want) || ok || total != 0 {
				t.Errorf("%s: %d, %t, %v, want %v", tc.name, total, ok, err, tc.want)
			}
			continue
		}
		if err != nil || total != tc.total || ok != (tc.total > 0) {
			t.Errorf("%s: %d, %t, %v, want %d", tc.name, total, ok, err, tc.total)
		}
	}
}

// TestOpenRefuses gives records that a client must not send.
func TestOpenRefuses(t *testing.T) {
	big := make([]byte, maxPlaintext+2)
	for i := range big {
		big[i] = 1
	}
	inner := func(b ...byte) func(*conn) []byte {
		return func(c *conn) []byte { return rawSeal(c.t, &c.raw, b) }
	}
	for _, tc := range []struct {
		name   string
		wire   func(c *conn) []byte
		reason Reason
		alert  Alert
	}{
		{"wrong tag", func(c *conn) []byte {
			w := c.send(typeApplication, 'x')
			w[len(w)-1] ^= 1
			return w
		}, ReasonMAC, AlertBadRecordMAC},
		{"wrong ciphertext", func(c *conn) []byte {
			w := c.send(typeApplication, 'x')
			w[headerLen] ^= 0x80
			return w
		}, ReasonMAC, AlertBadRecordMAC},
		{"repeated record", func(c *conn) []byte {
			w := c.send(typeApplication, 'x')
			if got := data(c.t, c.open(bytes.Clone(w))); string(got) != "x" {
				c.t.Fatalf("got %q", got)
			}
			return w
		}, ReasonMAC, AlertBadRecordMAC},
		{"record left out", func(c *conn) []byte {
			c.send(typeApplication, 'x')
			return c.send(typeApplication, 'y')
		}, ReasonMAC, AlertBadRecordMAC},
		{"other direction", func(c *conn) []byte {
			w, err := c.r.AppendSeal(c.cache, connKey, nil, []byte("x"))
			if err != nil {
				c.t.Fatal(err)
			}
			return w
		}, ReasonMAC, AlertBadRecordMAC},
		{"shorter than a tag", func(*conn) []byte { return []byte{23, 3, 3, 0, 3, 1, 2, 3} }, ReasonMAC, AlertBadRecordMAC},
		{"no ciphertext", func(*conn) []byte { return []byte{23, 3, 3, 0, 0} }, ReasonMAC, AlertBadRecordMAC},
		{"empty inner plaintext", inner(), ReasonPadding, AlertUnexpectedMessage},
		{"nothing but padding", inner(make([]byte, 100)...), ReasonPadding, AlertUnexpectedMessage},
		{"content one over the limit", inner(append(bytes.Clone(big[:maxPlaintext+1]), typeApplication)...), ReasonOverflow, AlertRecordOverflow},
		{"padding over the limit", inner(append([]byte{'x', typeApplication}, make([]byte, maxPlaintext)...)...), ReasonOverflow, AlertRecordOverflow},
		{"inner change_cipher_spec", inner(1, typeCCS), ReasonMessage, AlertUnexpectedMessage},
		{"inner heartbeat", inner(1, 24), ReasonMessage, AlertUnexpectedMessage},
		{"inner type 255", inner(1, 255), ReasonMessage, AlertUnexpectedMessage},
		{"ClientHello again", inner(1, 0, 0, 1, 0, typeHandshake), ReasonMessage, AlertUnexpectedMessage},
		{"NewSessionTicket", inner(4, 0, 0, 1, 0, typeHandshake), ReasonMessage, AlertUnexpectedMessage},
		{"Certificate", inner(11, 0, 0, 1, 0, typeHandshake), ReasonMessage, AlertUnexpectedMessage},
		{"Finished", inner(20, 0, 0, 1, 0, typeHandshake), ReasonMessage, AlertUnexpectedMessage},
		{"empty handshake fragment", inner(typeHandshake), ReasonMessage, AlertUnexpectedMessage},
		{"KeyUpdate of two bytes", inner(24, 0, 0, 2, 0, 0, typeHandshake), ReasonDecode, AlertDecodeError},
		{"KeyUpdate of no byte", inner(24, 0, 0, 0, typeHandshake), ReasonDecode, AlertDecodeError},
		{"KeyUpdate of 65,537 bytes", inner(24, 1, 0, 1, 0, typeHandshake), ReasonDecode, AlertDecodeError},
		{"KeyUpdate with value 2", inner(24, 0, 0, 1, 2, typeHandshake), ReasonDecode, AlertIllegalParameter},
		{"KeyUpdate and more in a record", inner(24, 0, 0, 1, 0, 24, 0, 0, 1, 0, typeHandshake), ReasonMessage, AlertUnexpectedMessage},
		{"alert of one byte", inner(1, typeAlert), ReasonDecode, AlertDecodeError},
		{"two alerts in a record", inner(1, 0, 1, 0, typeAlert), ReasonDecode, AlertDecodeError},
		{"empty alert", inner(typeAlert), ReasonDecode, AlertDecodeError},
		{"data inside a KeyUpdate", func(c *conn) []byte {
			if ev := c.open(c.send(typeHandshake, 24, 0)); ev[0].err != nil || ev[0].ev != EventIgnored {
				c.t.Fatalf("part of a KeyUpdate: %+v", ev)
			}
			return c.send(typeApplication, 'x')
		}, ReasonMessage, AlertUnexpectedMessage},
		{"close_notify inside a KeyUpdate", func(c *conn) []byte {
			c.open(c.send(typeHandshake, 24))
			return c.send(typeAlert, 1, 0)
		}, ReasonMessage, AlertUnexpectedMessage},
		{"outer handshake", func(c *conn) []byte {
			w := c.send(typeApplication, 'x')
			w[0] = typeHandshake
			return w
		}, ReasonType, AlertUnexpectedMessage},
		{"outer version", func(c *conn) []byte {
			w := c.send(typeApplication, 'x')
			w[2] = 1
			return w
		}, ReasonVersion, AlertProtocolVersion},
		{"outer length over the limit", func(*conn) []byte { return append([]byte{23, 3, 3, 0x41, 0x01}, make([]byte, 0x4101)...) }, ReasonOverflow, AlertRecordOverflow},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forSuites(t, func(t *testing.T, su suite) {
				c := pair(t, su)
				wire := tc.wire(c)
				ev, plain, err := c.r.Open(c.cache, connKey, wire)
				wantError(t, err, tc.reason, tc.alert)
				if ev != EventNone || plain != nil {
					t.Errorf("event %d with %d bytes beside the error", ev, len(plain))
				}
				// It is final for reading, and the peer can still be told.
				_, _, err = c.r.Open(c.cache, connKey, c.send(typeApplication, 'z'))
				wantError(t, err, ReasonClosed, NoAlert)
				alert, err := c.r.AppendAlert(c.cache, connKey, nil, tc.alert)
				if err != nil {
					t.Fatal(err)
				}
				got := openAll(&c.raw, c.rawC, alert)
				if tc.name == "other direction" { // that record took the sequence number
					return
				}
				if len(got) != 1 || got[0].ev != EventAlert || !bytes.Equal(got[0].plain, []byte{2, byte(tc.alert)}) {
					t.Errorf("peer got %+v", got)
				}
			})
		})
	}
}

func TestOpenWantsOneRecord(t *testing.T) {
	c := pair(t, suiteAES128)
	w := c.send(typeApplication, 'x')
	for _, bad := range [][]byte{nil, w[:4], w[:len(w)-1], append(bytes.Clone(w), 0)} {
		c := *c
		_, _, err := c.r.Open(c.cache, connKey, bad)
		wantError(t, err, ReasonLength, AlertInternalError)
	}
}

// TestOpenAccepts gives records at the limits of what is allowed.
func TestOpenAccepts(t *testing.T) {
	full := bytes.Repeat([]byte{0xaa}, maxPlaintext)
	for _, tc := range []struct {
		name  string
		inner []byte
		ev    Event
		plain []byte
	}{
		{"one byte", []byte{'x', typeApplication}, EventData, []byte("x")},
		{"zeros as content", []byte{0, 0, 0, typeApplication}, EventData, []byte{0, 0, 0}},
		{"padded", append([]byte{'x', typeApplication}, make([]byte, 1000)...), EventData, []byte("x")},
		{"full", append(bytes.Clone(full), typeApplication), EventData, full},
		{"padded to the limit", append([]byte{'x', typeApplication}, make([]byte, maxPlaintext-1)...), EventData, []byte("x")},
		{"empty data", []byte{typeApplication}, EventIgnored, nil},
		{"empty data, padded", []byte{typeApplication, 0, 0}, EventIgnored, nil},
		{"user_canceled", []byte{1, 90, typeAlert}, EventIgnored, nil},
		{"close_notify", []byte{1, 0, typeAlert}, EventCloseNotify, nil},
		{"close_notify as fatal", []byte{2, 0, typeAlert}, EventCloseNotify, nil},
		{"handshake_failure", []byte{2, 40, typeAlert}, EventAlert, []byte{2, 40}},
		{"KeyUpdate", []byte{24, 0, 0, 1, 0, typeHandshake}, EventKeyUpdate, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			forSuites(t, func(t *testing.T, su suite) {
				c := pair(t, su)
				ev, plain, err := c.r.Open(c.cache, connKey, rawSeal(t, &c.raw, tc.inner))
				if err != nil || ev != tc.ev || !bytes.Equal(plain, tc.plain) {
					t.Fatalf("event %d with %d bytes, %v", ev, len(plain), err)
				}
			})
		})
	}
}

func TestClosedDirections(t *testing.T) {
	c := pair(t, suiteAES128)
	if ev := c.open(c.send(typeAlert, 1, 0)); ev[0].ev != EventCloseNotify || !c.r.ReadClosed() {
		t.Fatalf("close_notify: %+v", ev)
	}
	// RFC 8446 section 6.1: data behind a closure alert is ignored, and our own direction is open still.
	if ev := c.open(c.send(typeApplication, 'x')); ev[0].ev != EventIgnored || ev[0].err != nil {
		t.Fatalf("data behind close_notify: %+v", ev)
	}
	w, err := c.r.AppendSeal(c.cache, connKey, nil, []byte("last words"))
	if err != nil {
		t.Fatal(err)
	}
	if w, err = c.r.AppendCloseNotify(c.cache, connKey, w); err != nil || !c.r.WriteClosed() {
		t.Fatal(err)
	}
	got := openAll(&c.raw, c.rawC, w)
	if len(got) != 2 || string(got[0].plain) != "last words" || got[1].ev != EventCloseNotify {
		t.Fatalf("peer got %+v", got)
	}
	for name, f := range map[string]func() ([]byte, error){
		"close_notify": func() ([]byte, error) { return c.r.AppendCloseNotify(c.cache, connKey, nil) },
		"alert":        func() ([]byte, error) { return c.r.AppendAlert(c.cache, connKey, nil, AlertDecodeError) },
	} {
		if w, err := f(); err != nil || len(w) != 0 {
			t.Errorf("%s after close_notify: %d bytes, %v", name, len(w), err)
		}
	}
	_, err = c.r.AppendSeal(c.cache, connKey, nil, []byte("x"))
	wantError(t, err, ReasonClosed, NoAlert)
	_, err = c.r.AppendKeyUpdate(c.cache, connKey, nil)
	wantError(t, err, ReasonClosed, NoAlert)
}

func TestZeroRecordRefuses(t *testing.T) {
	var r Record
	c := NewCache(1)
	_, err := r.AppendSeal(c, connKey, nil, []byte("x"))
	wantError(t, err, ReasonClosed, NoAlert)
	_, _, err = r.Open(c, connKey, make([]byte, 30))
	wantError(t, err, ReasonClosed, NoAlert)
	if w, err := r.AppendCloseNotify(c, connKey, nil); len(w) != 0 || err != nil {
		t.Errorf("close_notify of nothing: %d bytes, %v", len(w), err)
	}
	if r.CipherSuite() != 0 || r.Pending() || r.NeedsUpdate() {
		t.Error("the zero Record says that it has keys")
	}
}

// TestIdleRecords floods with each kind of record that brings no data: 16 in a row are allowed.
func TestIdleRecords(t *testing.T) {
	kinds := map[string]func(c *conn) []byte{
		"empty":         func(c *conn) []byte { return c.send(typeApplication) },
		"user_canceled": func(c *conn) []byte { return c.send(typeAlert, 1, 90) },
		"KeyUpdate": func(c *conn) []byte {
			w := c.send(typeHandshake, 24, 0, 0, 1, 1)
			if err := c.raw.write.rotate(); err != nil {
				c.t.Fatal(err)
			}
			return w
		},
	}
	for name, next := range kinds {
		t.Run(name, func(t *testing.T) {
			c := pair(t, suiteChaCha20)
			for round := range 3 {
				for i := range maxIdle {
					if ev := c.open(next(c)); ev[0].err != nil {
						t.Fatalf("round %d, record %d: %v", round, i, ev[0].err)
					}
				}
				if got := data(t, c.open(c.send(typeApplication, 'x'))); string(got) != "x" {
					t.Fatalf("got %q", got)
				}
			}
			for range maxIdle {
				c.open(next(c))
			}
			_, _, err := c.r.Open(c.cache, connKey, next(c))
			wantError(t, err, ReasonFlood, AlertUnexpectedMessage)
		})
	}
}

// TestHotPathAllocations: none while the AEADs are cached and dst has room.
func TestHotPathAllocations(t *testing.T) {
	forSuites(t, func(t *testing.T, su suite) {
		c := pair(t, su)
		plain := bytes.Repeat([]byte("push"), 64)
		dst := make([]byte, 0, SealedLen(len(plain)))
		if n := testing.AllocsPerRun(200, func() {
			var err error
			if dst, err = c.r.AppendSeal(c.cache, connKey, dst[:0], plain); err != nil {
				t.Fatal(err)
			}
			total, _, err := RecordLen(dst)
			if err != nil || total != len(dst) {
				t.Fatal(total, err)
			}
			if ev, got, err := c.raw.Open(c.rawC, connKey, dst); err != nil || ev != EventData || len(got) != len(plain) {
				t.Fatal(ev, err)
			}
		}); n != 0 {
			t.Errorf("%v allocations for a seal and an open, want 0", n)
		}
	})
	c := pair(t, suiteAES128)
	bad := c.send(typeApplication, 'x')
	bad[9] ^= 1
	buf := make([]byte, len(bad))
	r := new(Record) // in production it lies in a slab
	if n := testing.AllocsPerRun(200, func() {
		*r = c.r
		if _, _, err := r.Open(c.cache, connKey, append(buf[:0], bad...)); err == nil {
			t.Fatal("bad record opened")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a record that does not decrypt, want 0", n)
	}
}
