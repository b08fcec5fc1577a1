package crux

import (
	"fmt"
	"testing"

	"github.com/klinkio/klink"
)

func TestEmbeddedManyUsers(t *testing.T) {
	e, err := NewEmbedded(EmbeddedConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	inc, err := e.RegisterFE(ctx, FE{ID: "fe1"})
	if err != nil {
		t.Fatal(err)
	}
	const users = 5000
	name := func(i int) string { return fmt.Sprintf("user-%d", i) }
	for i := range users {
		out, err := e.Register(ctx, []Registration{{
			App: "a", User: name(i), Device: "d", Incarnation: inc, Handle: klink.MakeHandle(1, uint32(i), 7), Attempt: 3,
		}})
		if err != nil || out[0].Verdict != Admitted {
			t.Fatalf("user %d: %+v %v", i, out, err)
		}
	}
	for i := range users {
		if i%3 != 0 {
			continue
		}
		out, err := e.Unregister(ctx, []Unregistration{{
			App: "a", User: name(i), Device: "d", Incarnation: inc, Handle: klink.MakeHandle(1, uint32(i), 7),
		}})
		if err != nil || !out[0].Removed || !out[0].Last {
			t.Fatalf("user %d: %+v %v", i, out, err)
		}
	}
	for i := range users {
		us, err := e.Lookup(ctx, "a", []string{name(i)})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := us[0].Online(), i%3 != 0; got != want {
			t.Fatalf("user %d online: got %v, want %v", i, got, want)
		}
		if us[0].Online() && us[0].Sessions[0].Handle != klink.MakeHandle(1, uint32(i), 7) {
			t.Fatalf("user %d: %+v", i, us[0])
		}
	}
	st, err := e.Stats(ctx)
	if err != nil || st.Known != users || st.Sessions != users-(users+2)/3 || st.Users != st.Sessions || st.FEs != 1 {
		t.Fatalf("stats: %+v %v", st, err)
	}
}
