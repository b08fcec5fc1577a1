package sdk

import (
	"testing"

	"google.golang.org/protobuf/proto"

	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// An endpoint that is accepted means the same when it is parsed again: it is kept and compared by its URL.
func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"tls://h:1", "wss://h/connect?x=1", "tcp://[::1]:7443", "ws://h", "quic://h:1", "tls://h:1#x", "tCp://::0", "tls://[fe80::1%25eth0]:1", "tls://a%3Ab:1", "wss://h:1/%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		ep, err := parseEndpoint(raw)
		if err != nil {
			return
		}
		again, err := parseEndpoint(ep.url)
		if err != nil || again != ep {
			t.Errorf("%q is %+v, and that is %+v, %v", raw, ep, again, err)
		}
	})
}

func FuzzTokenExpiry(f *testing.F) {
	f.Add("h.eyJleHAiOjE3MDAwMDAwMDB9.s")
	f.Add("a.e30.b")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if got := tokenExpiry(token); got < 0 {
			t.Errorf("%q expires at %d", token, got)
		}
	})
}

// Whatever frames a server sends, in whatever order: the client keeps its bounds.
func FuzzServerFrames(f *testing.F) {
	seed := func(frames ...*klinkv1.ServerFrame) {
		var in []byte
		for _, m := range frames {
			b, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			in = append(append(in, byte(len(b))), b...)
		}
		f.Add(in)
	}
	connected := &klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Connected{Connected: &klinkv1.Connected{
		Tags: []*klinkv1.TagResult{{Tag: "a"}, {Tag: "b", Error: klinkv1.ErrorCode_FORBIDDEN}}, Limits: &klinkv1.Limits{Requests: 1},
	}}}
	seed(connected, pushFrame("1", "x"), pushFrame("2", "y"))
	seed(connected, connected)
	seed(connected, errorFrame(1, klinkv1.ErrorCode_OK, ""), errorFrame(0, klinkv1.ErrorCode_INTERNAL, ""))
	seed(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Subscribed{Subscribed: &klinkv1.Subscribed{Id: 1, Barrier: true, Tags: []*klinkv1.TagResult{{Tag: "a"}}}}})
	seed(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Ping{Ping: &klinkv1.Ping{Id: 9}}}, &klinkv1.ServerFrame{})
	seed(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_TagsChanged{TagsChanged: &klinkv1.TagsChanged{Added: []string{"x"}, Removed: []string{"a"}}}})
	f.Fuzz(func(t *testing.T, in []byte) {
		c, err := New(Config{Endpoints: []string{"tcp://a:1"}, Token: staticToken, Tags: []string{"a", "b"}, QueueEvents: 4, QueueBytes: 64})
		if err != nil {
			t.Fatal(err)
		}
		cn := newConn(c, endpoint{}, &canned{in: in}, []string{"a", "b"}, false)
		close(cn.end) // nobody writes
		_, cl, err := cn.begin(true)
		if err != nil {
			t.Fatal(err)
		}
		cn.readLoop()
		if cn.readErr == nil {
			t.Error("the end has no reason")
		}
		if cn.inUse != len(cn.pending) || cn.inUse+len(cl.done) != 1 {
			t.Errorf("%d in use, %d pending, %d answered", cn.inUse, len(cn.pending), len(cl.done))
		}
		if d := c.events; d.pushes > 4 || d.control > maxControl+d.pushes+2 {
			t.Errorf("%d pushes and %d other events wait", d.pushes, d.control)
		}
		if len(c.wanted) > 2 {
			t.Errorf("the server added tags: %v", c.wanted)
		}
		_ = c.Close()
		<-c.Done()
	})
}
