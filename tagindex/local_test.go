package tagindex

import "testing"

func TestJoinAndLeave(t *testing.T) {
	l := NewLocal()
	id, joined, first := l.Join(7, "a")
	if id == 0 || !joined || !first {
		t.Fatalf("first join: %d %v %v", id, joined, first)
	}
	if id2, joined, first := l.Join(7, "a"); id2 != id || joined || first {
		t.Fatalf("again: %d %v %v", id2, joined, first)
	}
	if _, joined, first := l.Join(8, "a"); !joined || first {
		t.Fatalf("second: %v %v", joined, first)
	}
	if got, ok := l.Lookup("a"); !ok || got != id || l.Len(id) != 2 || l.Key(id) != "a" {
		t.Fatalf("lookup: %d %v len %d key %q", got, ok, l.Len(id), l.Key(id))
	}
	if left, last := l.Leave(7, "a"); !left || last {
		t.Fatalf("leave: %v %v", left, last)
	}
	var gone []string
	l.LeaveAll(8, func(k string) { gone = append(gone, k) })
	if len(gone) != 1 || gone[0] != "a" || l.Tags() != 0 || l.Memberships() != 0 {
		t.Fatalf("gone %q, %d tags, %d memberships", gone, l.Tags(), l.Memberships())
	}
	if _, ok := l.Lookup("a"); ok {
		t.Fatal("an empty tag is found")
	}
}
