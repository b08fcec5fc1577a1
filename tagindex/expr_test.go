package tagindex

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func mustParse(t testing.TB, s string) *Expr {
	t.Helper()
	e, err := Parse(s)
	if err != nil {
		t.Fatalf("Parse(%q): %v", s, err)
	}
	return e
}

func TestParse(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"a", "a"},
		{"a&&!b||c", "a && !b || c"},
		{"a && (b || c)", "a && (b || c)"},
		{"(a && b) || c", "a && b || c"},
		{"a && (b && c)", "a && b && c"},
		{"!!a", "a"},
		{"!(!(a))", "a"},
		{"!(a&&b)", "!(a && b)"},
		{"!a && b", "!a && b"},
		{`"a b" && "c\"d" && "e\\f" && "plain"`, `"a b" && "c\"d" && e\f && plain`},
		{"room:1\t&&\nvip", "room:1 && vip"},
		{"\u00a0räume:ü\u2003||東", "räume:ü || 東"},
		{`"a&&b"`, `"a&&b"`},
	} {
		if got := mustParse(t, tc.in).String(); got != tc.want {
			t.Errorf("Parse(%q) = %s, want %s", tc.in, got, tc.want)
		}
	}
	e := mustParse(t, "b && a || !b && c")
	if got := e.Tags(); !slices.Equal(got, []string{"b", "a", "c"}) {
		t.Errorf("tags %q", got)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		in  string
		pos int
		msg string
	}{
		{"", 0, `expected a tag, "!" or "(", found the end`},
		{"a b", 2, `expected "&&", "||" or the end, found "b"`},
		{"a && ", 5, `expected a tag, "!" or "(", found the end`},
		{"a && || b", 5, `expected a tag, "!" or "(", found "||"`},
		{"a & b", 2, `expected "&&", found "&"`},
		{"a |", 2, `expected "||", found "|"`},
		{"(a || b", 7, `expected "&&", "||" or ")", found the end`},
		{"a)", 1, `expected "&&", "||" or the end, found ")"`},
		{"()", 1, `expected a tag, "!" or "(", found ")"`},
		{`a && "b`, 7, `expected the quote that closes the tag at 5`},
		{`"a\n"`, 3, `expected \" or \\ after the backslash`},
		{`"a\`, 3, `expected \" or \\ after the backslash`},
		{`a && ""`, 5, `expected a valid tag, tag is empty`},
		{"a && \xff", 5, `expected a valid tag, tag is not valid UTF-8`},
		{"a\x01", 0, `expected a valid tag, tag has a control character (U+0001)`},
		{strings.Repeat("t", 129), 0, `expected a valid tag, tag is 129 bytes long, limit 128`},
		{strings.Repeat("a", 1025), 1024, `expected the end, the expression is 1025 bytes long, limit 1024`},
		{strings.Repeat("(", 33) + "a" + strings.Repeat(")", 33), 32, `expected a tag, there are 32 parentheses within each other, the limit`},
		{manyTags(33), 214, `expected no more tags, 32 different ones are the limit`},
	} {
		_, err := Parse(tc.in)
		var se *SyntaxError
		if !errors.As(err, &se) {
			t.Errorf("Parse(%q) = %v, want a SyntaxError", tc.in, err)
			continue
		}
		if se.Pos != tc.pos || se.Msg != tc.msg {
			t.Errorf("Parse(%q): %d: %s\nwant %d: %s", tc.in, se.Pos, se.Msg, tc.pos, tc.msg)
		}
		if want := fmt.Sprintf("tag expression, position %d: %s", se.Pos, se.Msg); err.Error() != want {
			t.Errorf("text %q", err)
		}
	}
}

func manyTags(n int) string {
	s := make([]string, n)
	for i := range s {
		s[i] = fmt.Sprint("t", i)
	}
	return strings.Join(s, " && ")
}

// TestParseAtTheLimits takes what is just allowed, in the shapes that would grow a stack.
func TestParseAtTheLimits(t *testing.T) {
	for _, in := range []string{
		manyTags(32),
		strings.Repeat("(", 32) + "a" + strings.Repeat(")", 32),
		strings.Repeat("!", 1023) + "a",
		strings.Repeat("a&&", 341) + "a",
		strings.Repeat("!(a||b&&", 32) + "c" + strings.Repeat(")", 32),
	} {
		e := mustParse(t, in)
		for mask := range 8 {
			e.Eval(func(tag string) bool { return mask&(1<<(tag[0]-'a')) != 0 })
		}
		if again := mustParse(t, e.String()).String(); again != e.String() {
			t.Errorf("%s parses to %s", e, again)
		}
	}
}

// randomExpr makes an expression and, apart from the parser, what it means for a set of tags.
func randomExpr(r *rand.Rand, tags, depth int) (string, func(set int) bool) {
	pad := []string{"", " ", "\t "}[r.IntN(3)]
	kind := r.IntN(8)
	if depth == 0 {
		kind = 0
	}
	switch {
	case kind < 2:
		i := r.IntN(tags)
		name := fmt.Sprintf("t%d", i)
		if r.IntN(4) == 0 {
			name = `"` + name + `"`
		}
		return pad + name + pad, func(set int) bool { return set&(1<<i) != 0 }
	case kind < 4:
		s, f := randomExpr(r, tags, depth-1)
		return pad + "!(" + s + ")", func(set int) bool { return !f(set) }
	}
	// A list of operands in parentheses where they are needed or just so.
	and := kind < 6
	n := 2 + r.IntN(2)
	parts, fs := make([]string, n), make([]func(int) bool, n)
	for i := range parts {
		parts[i], fs[i] = randomExpr(r, tags, depth-1)
		if r.IntN(3) > 0 || strings.ContainsAny(parts[i], "&|") {
			parts[i] = "(" + parts[i] + ")"
		}
	}
	return strings.Join(parts, map[bool]string{true: "&&", false: "||"}[and]), func(set int) bool {
		for _, f := range fs {
			if f(set) != and {
				return !and
			}
		}
		return and
	}
}

// TestExprBruteForce compares meaning, canonical form, cover and bound form of random expressions over all sets of tags.
func TestExprBruteForce(t *testing.T) {
	const prefix = "app\x00"
	r := rand.New(rand.NewPCG(1, 2))
	covered, uncovered := 0, 0
	for range 3000 {
		n := 1 + r.IntN(6)
		in, want := randomExpr(r, n, 1+r.IntN(3))
		if len(in) > MaxExprLen {
			continue
		}
		e := mustParse(t, in)
		again := mustParse(t, e.String())
		if again.String() != e.String() {
			t.Fatalf("%q: %s parses to %s", in, e, again)
		}
		cover, ok := e.Cover()
		if want(0) == ok {
			t.Fatalf("%q: cover %v, but without tags it is %v", in, ok, want(0))
		}
		if ok {
			covered++
		} else {
			uncovered++
		}
		l := NewLocal()
		bound := e.Bind(l, prefix)
		for set := range 1 << n {
			has := func(tag string) bool { return set&(1<<(tag[1]-'0')) != 0 }
			c := uint32(set)
			for i := range n {
				if set&(1<<i) != 0 {
					l.Join(c, fmt.Sprintf("%st%d", prefix, i))
				}
			}
			fits := want(set)
			if e.Eval(has) != fits || again.Eval(has) != fits || bound.Match(l, c) != fits {
				t.Fatalf("%q with tags %b: want %v, got %v, in canonical form %v, bound %v", in, set, fits, e.Eval(has), again.Eval(has), bound.Match(l, c))
			}
			if fits && ok && !slices.ContainsFunc(cover, has) {
				t.Fatalf("%q fits %b, which has none of the cover %q", in, set, cover)
			}
			if set%3 == 0 { // tags vanish, and their IDs get other meanings
				l.LeaveAll(c, nil)
				l.Join(9999, fmt.Sprint("other", set))
			}
		}
	}
	if covered < 300 || uncovered < 300 {
		t.Fatalf("%d with and %d without a cover: too few of one kind to mean anything", covered, uncovered)
	}
}

func TestCover(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want []string // nil: none
	}{
		{"a", []string{"a"}},
		{"room:1 && !vip", []string{"room:1"}},
		{"!vip && room:1", []string{"room:1"}},
		{"a || b", []string{"a", "b"}},
		{"(a || b) && c", []string{"c"}},
		{"a && b || a && c", []string{"a"}},
		{"!(a || !b)", []string{"b"}},
		{"!(!a && !b)", []string{"a", "b"}},
		{"!a", nil},
		{"a || !b", nil},
		{"!(a && b)", nil},
	} {
		got, ok := mustParse(t, tc.in).Cover()
		if ok != (tc.want != nil) || !slices.Equal(got, tc.want) {
			t.Errorf("cover of %s is %q %v, want %q", tc.in, got, ok, tc.want)
		}
	}
}

// TestBoundAfterRecycling: a tag without members must not be mistaken for the one that got its ID.
func TestBoundAfterRecycling(t *testing.T) {
	l := NewLocal()
	id, _, _ := l.Join(1, "vip")
	b := mustParse(t, "vip").Bind(l, "")
	if !b.Match(l, 1) {
		t.Fatal("a member does not match")
	}
	l.LeaveAll(1, nil)
	if other, _, _ := l.Join(1, "other"); other != id {
		t.Fatalf("the ID was not recycled: %d, %d", id, other)
	}
	if b.Match(l, 1) {
		t.Fatal("a tag matches that has the recycled ID")
	}
	l.Join(1, "vip")
	if !b.Match(l, 1) {
		t.Fatal("a tag that came back does not match")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a", "room:1 && !vip", "a&&b||!(c||d)&&e", `"a b" || "\"\\"`, "((((a))))", "!!!a", "a & b", `"`, "a\x00", "\xff", "(", "東 || \u3000x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		e, err := Parse(in)
		if err != nil {
			var se *SyntaxError
			if !errors.As(err, &se) || se.Pos < 0 || se.Pos > len(in) {
				t.Fatalf("Parse(%q): %v", in, err)
			}
			return
		}
		s := e.String()
		again, err := Parse(s)
		if err != nil {
			t.Fatalf("%q gives %q: %v", in, s, err)
		}
		if again.String() != s || !slices.Equal(again.tags, e.tags) || !slices.Equal(again.prog, e.prog) {
			t.Fatalf("%q gives %q, that gives %q", in, s, again)
		}
		if _, ok := e.Cover(); ok == e.Eval(func(string) bool { return false }) {
			t.Fatalf("%q: cover %v, but without tags it fits: %v", in, ok, !ok)
		}
	})
}
