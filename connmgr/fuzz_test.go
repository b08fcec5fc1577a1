package connmgr

import (
	"strings"
	"testing"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
	"github.com/klinkio/klink/proto/frame"
)

// FuzzOnMessage gives a session whatever a client may send, split into frames, in both encodings: nothing panics, and when
// the client is gone nothing is left of it.
func FuzzOnMessage(f *testing.F) {
	body := frame.Body{Kind: klink.DataText, Data: []byte("x")}
	all := [][]byte{
		connectBody("u", "d", "t"), subscribeBody(1, "a", "b"), nil,
		frame.AppendUnsubscribe(nil, &frame.Unsubscribe{ID: 2, Tags: [][]byte{[]byte("a")}}),
		frame.AppendPublish(nil, &frame.Publish{ID: 3, Tag: []byte("t"), Body: body}),
		frame.AppendRequest(nil, &frame.Request{ID: 4, Service: []byte("s"), Body: body}),
		frame.AppendRefresh(nil, &frame.Refresh{ID: 5, Token: []byte("x")}),
		frame.AppendSetHeartbeat(nil, &frame.SetHeartbeat{Seconds: 7}), frame.AppendPong(nil, &frame.Pong{ID: 1}),
		frame.AppendBye(nil, &frame.Bye{Reason: []byte("done")}),
	}
	var stream []byte
	for _, b := range all {
		stream = append(append(stream, byte(len(b))), b...)
	}
	f.Add(stream, false, false)
	f.Add(stream, false, true)
	var json strings.Builder
	for _, s := range []string{`{"connect":{"token":"u","device":"d"}}`, `{}`, `{ }`, `{"subscribe":{"id":1,"tags":[{"tag":"a"}]}}`,
		`{"publish":{"id":1,"tag":"t","json":"{}"}}`, `{"bye":{}}`, `{"what":1}`, `[`} {
		json.WriteString(string(rune(len(s))) + s)
	}
	f.Add([]byte(json.String()), true, false)
	f.Add([]byte(json.String()), true, true)
	f.Fuzz(func(t *testing.T, in []byte, text, hold bool) {
		r := newRig(t, 1, Config{QueueBytes: 4 << 10, MaxTags: 8})
		r.hold = hold
		l := r.loops[0]
		form := link.FormStream
		if text {
			form = link.FormWSJSON
		}
		h := l.open(0, form)
		r.publish = func(s *Shard, h klink.Handle, p *frame.Publish) { s.Published(h, p.ID, "p", &klink.Report{}, nil) }
		r.refresh = func(s *Shard, h klink.Handle, q *frame.Refresh) { s.Refreshed(h, q.ID, r.grant, 0, 0, 0, "") }
		for i := 0; len(in) > 0; i++ {
			n := min(int(in[0]), len(in)-1)
			l.shard.OnMessage(h, in[1:1+n])
			in = in[1+n:]
			switch i % 5 {
			case 1:
				if len(r.logins) > 0 {
					r.admit(l.shard, r.logins[0], "u", "d")
					r.logins = nil
				}
			case 2:
				l.conns[h].limit = i % 2
				r.toTags("p", "t", "a")
				l.round()
			case 4:
				l.unblock(h, 1)
			}
			if l.conns[h].over {
				break
			}
		}
		l.round()
		r.check()
	})
}
