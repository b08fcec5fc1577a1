package tls13

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"testing"
)

func FuzzRecordLen(f *testing.F) {
	for _, seed := range []string{"", "\x17", "\x17\x03\x03\x00\x13", "\x17\x03\x03\x41\x00", "\x17\x03\x03\x41\x01", "\x15\x03\x03\x00\x02\x02\x28", "GET / HTTP/1.1"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, hdr []byte) {
		total, ok, err := RecordLen(hdr)
		switch {
		case err != nil:
			if ok || total != 0 {
				t.Errorf("%d, %t beside %v", total, ok, err)
			}
		case ok:
			if len(hdr) < headerLen || hdr[0] != typeApplication || total < headerLen || total > MaxRecord || total != headerLen+int(hdr[3])<<8+int(hdr[4]) {
				t.Errorf("total %d of %x", total, hdr[:min(len(hdr), 5)])
			}
		case len(hdr) >= headerLen:
			t.Error("five bytes are no answer")
		}
	})
}

// FuzzOpen seals what the fuzzer wants inside of records, with the right keys: it is beyond the MAC, where a client that means harm is. data is
// a sequence of records, each with a length byte pair before it.
func FuzzOpen(f *testing.F) {
	rec := func(parts ...string) []byte {
		var out []byte
		for _, p := range parts {
			out = append(out, byte(len(p)>>8), byte(len(p)))
			out = append(out, p...)
		}
		return out
	}
	f.Add(uint8(0), rec("hello\x17", "\x17", "x\x17\x00\x00"))
	f.Add(uint8(1), rec("\x18\x00\x00\x01\x01\x16", "y\x17", "\x18\x00\x16", "\x00\x01\x00\x16", "z\x17"))
	f.Add(uint8(2), rec("\x01\x5a\x15", "\x01\x00\x15", "ignored\x17"))
	f.Add(uint8(0), rec("\x02\x28\x15"))
	f.Add(uint8(1), rec("\x00\x00\x00"))
	f.Add(uint8(2), rec("\x18\x00\x16", "x\x17"))
	f.Fuzz(func(t *testing.T, which uint8, in []byte) {
		c := pair(t, allSuites[int(which)%len(allSuites)])
		failed := false
		for len(in) >= 2 {
			n := min(int(in[0])<<8|int(in[1]), len(in)-2, maxCiphertext-tagLen)
			inner := in[2 : 2+n]
			in = in[2+n:]
			ev, plain, err := c.r.Open(c.cache, connKey, rawSeal(t, &c.raw, inner))
			switch {
			case err != nil:
				if ev != EventNone || plain != nil {
					t.Fatalf("event %d beside %v", ev, err)
				}
				failed = true
			case failed:
				t.Fatal("opened a record after an error")
			case ev == EventData:
				content := bytes.TrimRight(inner, "\x00")
				if len(plain) == 0 || len(plain) > maxPlaintext || !bytes.Equal(plain, content[:len(content)-1]) || content[len(content)-1] != typeApplication {
					t.Fatalf("plaintext %x of %x", plain, inner)
				}
			case ev == EventKeyUpdate:
				if err := c.raw.write.rotate(); err != nil {
					t.Fatal(err)
				}
			case ev == EventAlert:
				if len(plain) != 2 || !c.r.ReadClosed() {
					t.Fatalf("alert %x", plain)
				}
			case ev == EventNone:
				t.Fatal("no event and no error")
			}
		}
		// Whatever came in, our own direction works until we close it.
		wire, err := c.r.AppendSeal(c.cache, connKey, nil, []byte("still"))
		if err != nil {
			t.Fatal(err)
		}
		got := openAll(&c.raw, c.rawC, wire)
		if len(got) == 0 || string(got[len(got)-1].plain) != "still" {
			t.Fatalf("peer got %+v", got)
		}
	})
}

// FuzzOpenForged gives bytes that no key made.
func FuzzOpenForged(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x17\x03\x03\x00\x13\xc9\x87\x27\x60\x65\x56\x66\xb7\x4d\x7f\xf1\x15\x3e\xfd\x6d\xb6\xd0\xb0\xe3"))
	f.Add([]byte("\x17\x03\x03\x00\x00"))
	f.Add([]byte("\x14\x03\x03\x00\x01\x01"))
	f.Fuzz(func(t *testing.T, rec []byte) {
		c := pair(t, suiteAES128)
		if ev, plain, err := c.r.Open(c.cache, connKey, rec); err == nil || ev != EventNone || plain != nil {
			t.Fatalf("forged record opened: event %d, %x", ev, plain)
		}
	})
}

// FuzzFeed gives a server what a client may say before it has proven anything, in pieces.
func FuzzFeed(f *testing.F) {
	// Ed25519 and X25519 take the same way through the code each time; with ECDSA and ML-KEM the fuzzer would take chance for coverage.
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	client := clientConfig()
	client.CurvePreferences = []tls.CurveID{tls.X25519}
	first := hello(client)
	f.Add(first, uint16(0))
	f.Add(first, uint16(1))
	f.Add(append(bytes.Clone(first), "\x14\x03\x03\x00\x01\x01\x17\x03\x03\x00\x13"...), uint16(50))
	f.Add([]byte("GET / HTTP/1.1\r\n"), uint16(3))
	f.Add([]byte("\x16\x03\x01\x00\x04\x01\x00\x00\x00"), uint16(0))
	s, err := NewServer(&tls.Config{Certificates: []tls.Certificate{testCert(key)}, CurvePreferences: client.CurvePreferences}, EngineLoop)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in []byte, step uint16) {
		h := s.NewHandshake()
		defer func() {
			h.Abort()
			if s.stats.active.Load() != 0 || s.current != nil || h.secrets != (secrets{}) || h.conn.in != nil {
				t.Fatal("something is left after Abort")
			}
		}()
		failed := false
		for piece := range slicesOf(in, int(step)+1) {
			st, err := h.Feed(piece)
			if (err != nil) != (st == Failed) || failed && st != Failed || st == Done {
				t.Fatalf("status %d, %v", st, err) // nobody finishes without the keys
			}
			failed = err != nil
			if len(h.conn.in) > MaxPending {
				t.Fatalf("%d bytes are kept", len(h.conn.in))
			}
			h.Output()
		}
	})
}
