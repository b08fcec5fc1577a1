package wsframe_test

import (
	"strings"
	"testing"

	"github.com/klinkio/klink/proto/wsframe"
)

// result keeps what measured calls return.
type result struct {
	ev      wsframe.Event
	n, need int
	err     error
	dst     []byte
	choice  string
	wrong   bool
}

func noAllocs(t *testing.T, what string, f func(*result)) {
	t.Helper()
	res := result{dst: make([]byte, 0, 1024)}
	if n := testing.AllocsPerRun(100, func() { f(&res) }); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
	if res.wrong {
		t.Errorf("%s: not what was to be measured: %+v", what, res)
	}
}

func TestHandshakeAllocatesNothing(t *testing.T) {
	in := []byte(with("", "Authorization: Bearer abc|Cookie: a=b"))
	bad := []byte(with("Upgrade", ""))
	var u wsframe.Upgrade
	noAllocs(t, "parse and accept", func(r *result) {
		r.n, r.err = wsframe.ParseUpgrade(in, &u)
		r.choice = u.Choose("none", "superchat")
		r.dst = wsframe.AppendAccept(r.dst[:0], &u, r.choice)
		r.wrong = r.err != nil || r.choice == ""
	})
	noAllocs(t, "short", func(r *result) {
		r.n, r.err = wsframe.ParseUpgrade(in[:len(in)-1], &u)
		r.wrong = r.err != wsframe.ErrShort
	})
	noAllocs(t, "bad", func(r *result) {
		r.n, r.err = wsframe.ParseUpgrade(bad, &u)
		r.wrong = r.err == nil
	})
}

func TestFramesAllocateNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		frames []byte
		last   wsframe.Kind
	}{
		"message":  {clientFrame(fin|bin, strings.Repeat("x", 1000)), wsframe.Message},
		"text":     {clientFrame(fin|text, strings.Repeat("ü€", 100)), wsframe.Message},
		"cut text": {join(clientFrame(text, "a\xe2"), clientFrame(cont, "\x82"), clientFrame(fin|cont, "\xac")), wsframe.Fragment},
		"ping":     {clientFrame(fin|ping, "p"), wsframe.Ping},
		"close":    {clientFrame(fin|closing, "\x03\xe8bye"), wsframe.Close},
		"part":     {clientFrame(fin|bin, "x")[:5], wsframe.None},
		"refused":  {clientFrame(fin|0x10|bin, "x"), wsframe.None},
	} {
		buf := make([]byte, len(tc.frames)) // Next unmasks in place: each run needs its frames again
		noAllocs(t, name, func(r *result) {
			var rd wsframe.Reader
			rest := buf[:copy(buf, tc.frames)]
			for len(rest) > 0 {
				r.ev, r.n, r.need, r.err = rd.Next(rest, 10000)
				if r.n == 0 {
					break
				}
				rest = rest[r.n:]
			}
			r.wrong = r.ev.Kind != tc.last
		})
	}
	noAllocs(t, "headers and a close", func(r *result) {
		r.dst = wsframe.AppendHeader(r.dst[:0], wsframe.OpBinary, 1<<20)
		r.dst = wsframe.AppendClose(r.dst, 1001, "going away")
		r.wrong = len(r.dst) != 10+2+2+10
	})
}

func BenchmarkNext(b *testing.B) {
	for name, frame := range map[string][]byte{
		"binary 100":   clientFrame(fin|bin, strings.Repeat("x", 100)),
		"text 100":     clientFrame(fin|text, strings.Repeat("x", 100)),
		"text 100 CJK": clientFrame(fin|text, strings.Repeat("日", 33)),
		"ping":         clientFrame(fin|ping, ""),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, len(frame))
			for b.Loop() {
				copy(buf, frame)
				var r wsframe.Reader
				if _, n, _, err := r.Next(buf, 1000); n != len(buf) || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkHandshake(b *testing.B) {
	in := []byte(request(good...))
	dst := make([]byte, 0, 1024)
	var u wsframe.Upgrade
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wsframe.ParseUpgrade(in, &u); err != nil {
			b.Fatal(err)
		}
		dst = wsframe.AppendAccept(dst[:0], &u, "chat")
	}
}
