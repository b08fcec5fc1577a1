package tagindex

import "testing"

func TestParsePrecedence(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"a", "a"},
		{"a&&!b||c", "a && !b || c"},
		{"a && (b || c)", "a && (b || c)"},
		{"(a && b) || c", "a && b || c"},
		{"a && (b && c)", "a && b && c"},
		{"!!a", "a"},
		{"!(!(a))", "a"},
		{"!(a&&b)", "!(a && b)"},
		{`"a b" && "c\"d" && "e\\f" && "plain"`, `"a b" && "c\"d" && e\f && plain`},
		{"room:1\t&&\nvip", "room:1 && vip"},
	} {
		e, err := Parse(tc.in)
		if err != nil {
			t.Errorf("Parse(%q): %v", tc.in, err)
			continue
		}
		if got := e.String(); got != tc.want {
			t.Errorf("Parse(%q) = %s, want %s", tc.in, got, tc.want)
		}
	}
}
