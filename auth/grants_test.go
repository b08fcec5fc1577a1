package auth

import (
	"fmt"
	"strings"
	"testing"
)

func TestGrantsAreSharedAndMatch(t *testing.T) {
	v := verifierOf(t, VerifierConfig{}, hsKey(t))
	key := SigningKey{KID: "hs", Secret: secret}
	with := func(user string) *Claims {
		c := claims()
		c.User, c.Subscribe, c.Publish, c.Services = user, []string{"room:*", "u:{user}", "{user}:x:*"}, []string{"*"}, []string{"shop"}
		got, err := v.Verify([]byte(mint(t, key, c)), now)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	a, b := with("alice"), with("bob")
	if a.Grants != b.Grants {
		t.Error("equal sets are two objects")
	}
	g := a.Grants
	for tag, want := range map[string]bool{
		"room:1": true, "room:": true, "room": false, "u:alice": true, "u:alice2": false, "u:bob": false, "u:": false,
		"alice:x:1": true, "alice:x:": true, "alice:x": false, "bob:x:1": false, "": false,
	} {
		if got := g.CanSubscribe(tag, []byte("alice")); got != want {
			t.Errorf("alice may subscribe to %q: %v, want %v", tag, got, want)
		}
	}
	if !g.CanPublish("anything", nil) || !g.CanCall("shop", nil) || !g.CanCall(EchoService, nil) || g.CanCall("bank", nil) {
		t.Error("publish and services are not as the token says")
	}
	user := []byte("alice")
	if n := testing.AllocsPerRun(100, func() { g.CanSubscribe("alice:x:1", user) }); n != 0 {
		t.Errorf("matching allocates %v times", n)
	}
}

func grantsOf(t testing.TB, c *grantCache, raw ...string) *Grants {
	t.Helper()
	var in [3][]byte
	for i, r := range raw {
		in[i] = []byte(r)
	}
	g, err := c.get(&in)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestEqualSetsAreOneObject(t *testing.T) {
	var c grantCache
	first := grantsOf(t, &c, `["a","b*","c"]`, `["x"]`)
	for _, same := range [][]string{
		{`["a","b*","c"]`, `["x"]`}, {`[ "a", "b*" ,"c"]`, `["x"]`}, {`["c","a","b*"]`, `["x"]`}, {`["a","b*","c","a"]`, `["x","x"]`}, {`["\u0061","b*","c"]`, `["x"]`, `[]`},
		{`["a","b*","c"]`, `["x"]`, `null`},
	} {
		if grantsOf(t, &c, same...) != first {
			t.Errorf("%q allows the same, but is another object", same)
		}
	}
	for _, other := range [][]string{
		{`["a","b*"]`, `["c","x"]`}, {`["a","b","c"]`, `["x"]`}, {`["ab*","c"]`, `["x"]`}, {`["x"]`, `["a","b*","c"]`}, {`["a","b*","c"]`, ``, `["x"]`}, {`["a","b*","c"]`}, {},
	} {
		if grantsOf(t, &c, other...) == first {
			t.Errorf("%q allows something else, but is the same object", other)
		}
	}
}

func TestGrantCacheIsBounded(t *testing.T) {
	var c grantCache
	keep := grantsOf(t, &c, `["keep"]`)
	for i := range 3 * maxGrantSets {
		grantsOf(t, &c, fmt.Sprintf(`["t%d"]`, i))
		if len(c.set) > maxGrantSets {
			t.Fatalf("%d sets are cached, limit %d", len(c.set), maxGrantSets)
		}
	}
	if !keep.CanSubscribe("keep", nil) || grantsOf(t, &c, `["keep"]`).CanSubscribe("other", nil) {
		t.Error("a set changed when the cache forgot it")
	}
}

// A pattern matches what its parts say, by a slower way to say it.
func FuzzPattern(f *testing.F) {
	f.Add("room:*", "room:1", "alice")
	f.Add("u:{user}", "u:alice", "alice")
	f.Add("{user}:*", "alice:", "alice")
	f.Add("*", "", "")
	f.Add("a*b", "a", "a")
	f.Add("{user}{user}", "aa", "a")
	f.Fuzz(func(t *testing.T, text, name, user string) {
		p, err := parsePattern("tags", text)
		stars, marks := strings.Count(text, "*"), strings.Count(text, userMark)
		if err != nil {
			return
		}
		if marks > 1 || stars > 1 || (stars == 1 && !strings.HasSuffix(text, "*")) {
			t.Fatalf("%q is accepted", text)
		}
		full := strings.Replace(strings.TrimSuffix(text, "*"), userMark, user, 1)
		want := name == full || (stars == 1 && strings.HasPrefix(name, full))
		if got := p.match(name, []byte(user)); got != want {
			t.Fatalf("%q matches %q for %q: %v, want %v", text, name, user, got, want)
		}
	})
}
