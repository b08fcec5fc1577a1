package sdk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// tagServer serves and notes the tags of each Connect, sorted, and each Subscribe and Unsubscribe as "+a" and "-a".
type tagServer struct {
	logins notes[[]string]
	frames notes[string]
	cut    time.Duration // life of a connection; 0: no end
	change func(m *klinkv1.Connected)
	see    func(p *peer, f *klinkv1.ClientFrame) bool
	after  func(p *peer)
}

func (s *tagServer) serve(_ int, p *peer) {
	c := p.accept(s.change)
	s.logins.add(slices.Sorted(slices.Values(c.GetTags())))
	if s.after != nil {
		s.after(p)
	}
	if s.cut > 0 {
		_ = p.c.SetReadDeadline(time.Now().Add(s.cut))
	}
	p.serve(func(f *klinkv1.ClientFrame) bool {
		for _, t := range f.GetSubscribe().GetTags() {
			s.frames.add("+" + t.Tag)
		}
		for _, t := range f.GetUnsubscribe().GetTags() {
			s.frames.add("-" + t)
		}
		return s.see != nil && s.see(p, f)
	})
}

func TestTagsComeBackAfterAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tagServer{cut: 10 * time.Minute}
		n := &network{t: t, script: s.serve}
		c, l := n.connect(func(c *Config) { c.Tags = []string{"first"} })
		sub, err := c.Subscribe(t.Context(), "a", "b")
		if err != nil || !sub.Barrier || len(sub.Tags) != 2 || sub.Tags[0] != (TagResult{Tag: "a"}) {
			t.Errorf("got %+v, %v", sub, err)
		}
		left, err := c.Unsubscribe(t.Context(), "b")
		if err != nil || len(left) != 1 || left[0] != (TagResult{Tag: "b"}) {
			t.Errorf("got %+v, %v", left, err)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if want := "[[first] [a first]]"; fmt.Sprint(s.logins.all()) != want {
			t.Errorf("logins with %v, want %v", s.logins.all(), want)
		}
		if want := "[+a +b -b]"; fmt.Sprint(s.frames.all()) != want {
			t.Errorf("frames %v, want %v", s.frames.all(), want)
		}
		if got := c.Tags(); !slices.Equal(got, []string{"a", "first"}) {
			t.Errorf("tags %v", got)
		}
		if len(l.tags) != 2 || !slices.Equal(slices.Sorted(slices.Values(l.tags[1].Added)), []string{"a", "first"}) {
			t.Errorf("told %+v", l.tags)
		}
	})
}

// Subscribing goes on over a lost connection; what a call gave up is not carried on.
func TestSubscribeOverAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		s := tagServer{see: func(p *peer, f *klinkv1.ClientFrame) bool {
			if f.GetSubscribe() != nil && first {
				first = false
				_ = p.c.Close()
				return true
			}
			return f.GetSubscribe() != nil && f.GetSubscribe().Tags[0].Tag == "slow"
		}}
		n := &network{t: t, script: s.serve}
		c, _ := n.connect(nil)
		if _, err := c.Subscribe(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if c.Stats().Connects != 2 || fmt.Sprint(s.logins.all()) != "[[] [a]]" {
			t.Errorf("%d connects, logins with %v", c.Stats().Connects, s.logins.all())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Subscribe(ctx, "slow", "a")
		wantCode(t, err, klink.CodeTimeout)
		synctest.Wait()
		if got := s.frames.all(); got[len(got)-1] != "-slow" || !slices.Equal(c.Tags(), []string{"a"}) {
			t.Errorf("frames %v, tags %v", got, c.Tags())
		}
	})
}

func TestRefusedTagsAreNotAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tagServer{cut: 10 * time.Minute, change: func(m *klinkv1.Connected) {
			for _, r := range m.Tags {
				switch r.Tag {
				case "secret":
					r.Error, r.Text = klinkv1.ErrorCode_FORBIDDEN, "no"
				case "later":
					r.Error = klinkv1.ErrorCode_UNAVAILABLE
				}
			}
			m.Tags = append(m.Tags, &klinkv1.TagResult{Tag: "vip"})
		}, see: func(p *peer, f *klinkv1.ClientFrame) bool {
			if f.GetSubscribe() == nil {
				return false
			}
			p.send(&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Subscribed{Subscribed: &klinkv1.Subscribed{
				Id: f.GetSubscribe().Id, Tags: []*klinkv1.TagResult{{Tag: "x", Error: klinkv1.ErrorCode_FORBIDDEN, Text: "no"}},
			}}})
			return true
		}}
		n := &network{t: t, script: s.serve}
		c, l := n.connect(func(c *Config) { c.Tags = []string{"ok", "secret", "later"} })
		sub, err := c.Subscribe(t.Context(), "x")
		if err != nil || sub.Tags[0].Code != klink.CodeForbidden || sub.Tags[0].Text != "no" {
			t.Errorf("got %+v, %v", sub, err)
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if want := "[[later ok secret] [later ok]]"; fmt.Sprint(s.logins.all()) != want {
			t.Errorf("logins with %v, want %v", s.logins.all(), want)
		}
		if got := l.tags[0]; len(got.Refused) != 2 || !slices.Equal(slices.Sorted(slices.Values(got.Added)), []string{"ok", "vip"}) {
			t.Errorf("told %+v", got)
		}
		if want := "[+x]"; fmt.Sprint(s.frames.all()) != want {
			t.Errorf("frames %v, want %v", s.frames.all(), want)
		}
	})
}

func TestBackEndChangesTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tagServer{cut: 10 * time.Minute}
		s.after = func(p *peer) {
			if len(s.logins.all()) > 1 {
				return
			}
			p.send(
				&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_TagsChanged{TagsChanged: &klinkv1.TagsChanged{Added: []string{"vip"}, Removed: []string{"a"}}}},
				&klinkv1.ServerFrame{Kind: &klinkv1.ServerFrame_Subscribed{Subscribed: &klinkv1.Subscribed{Id: 99, Barrier: true, Tags: []*klinkv1.TagResult{{Tag: "b"}}}}},
			)
		}
		n := &network{t: t, script: s.serve}
		c, l := n.connect(func(c *Config) { c.Tags = []string{"a", "b"} })
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if want := "[[a b] [b]]"; fmt.Sprint(s.logins.all()) != want {
			t.Errorf("logins with %v, want %v", s.logins.all(), want)
		}
		if got := fmt.Sprintf("%+v %+v", *l.tags[1], *l.tags[2]); got != "{Added:[vip] Removed:[a] Refused:[] Barrier:[]} {Added:[] Removed:[] Refused:[] Barrier:[b]}" {
			t.Errorf("told %s", got)
		}
		if c.Stats().Stray != 0 {
			t.Error("a late barrier counts as stray")
		}
	})
}

// More tags than one frame holds are all subscribed, at the server's pace, with Connect and after it.
func TestManyTags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tags []string
		for i := range 1000 {
			tags = append(tags, fmt.Sprintf("%04d%s", i, strings.Repeat("x", 100)))
		}
		s := tagServer{}
		n := &network{t: t, script: s.serve}
		_, l := n.connect(func(c *Config) { c.Tags = tags })
		time.Sleep(time.Minute)
		synctest.Wait()
		first := s.logins.all()[0]
		got := slices.Clone(first)
		for _, f := range s.frames.all() {
			got = append(got, f[1:])
		}
		slices.Sort(got)
		if !slices.Equal(got, tags) || len(first) < 100 || len(first) > maxHelloTags {
			t.Errorf("%d tags asked for, %d of them in Connect, want %d once each", len(got), len(first), len(tags))
		}
		told := 0
		for _, e := range l.tags {
			told += len(e.Added)
		}
		if told != len(tags) {
			t.Errorf("told of %d", told)
		}
	})
}

// What is given back while the login is under way does not stay.
func TestUnsubscribeDuringLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := tagServer{change: func(*klinkv1.Connected) { time.Sleep(time.Second) }}
		n := &network{t: t, script: s.serve}
		c, _ := n.start(func(c *Config) { c.Tags = []string{"a", "b"} })
		synctest.Wait() // Connect is sent
		if got, err := c.Unsubscribe(t.Context(), "a"); err != nil || len(got) != 1 {
			t.Errorf("got %v, %v", got, err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if want := "[-a]"; fmt.Sprint(s.frames.all()) != want || fmt.Sprint(s.logins.all()) != "[[a b]]" {
			t.Errorf("frames %v after %v, want %v", s.frames.all(), s.logins.all(), want)
		}
	})
}
