package auth

import (
	"strings"
	"testing"
	"time"

	"github.com/klinkio/klink"
)

func TestAPIKeys(t *testing.T) {
	keys, err := NewAPIKeys([]APIKeyConfig{
		{Name: "shop", App: "shop", Hash: HashKey("shop-key"), Scopes: []string{ScopePush, ScopePresence}, Rate: 10, Burst: 2},
		{Name: "ops", Hash: strings.ToUpper(HashKey("ops-key")), Scopes: []string{ScopeAdmin}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for header, want := range map[string]string{
		"Bearer shop-key": "shop", "bearer  ops-key": "ops",
		"": ErrNoKey.Error(), "Bearer": ErrNoKey.Error(), "Bearer ": ErrNoKey.Error(), "Basic shop-key": ErrNoKey.Error(),
		"Bearer shop-kex": ErrBadKey.Error(), "Bearer " + HashKey("shop-key"): ErrBadKey.Error(),
	} {
		k, err := keys.Check(header)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = k.Name()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
	shop, _ := keys.Check("Bearer shop-key")
	if shop.App() != "shop" || !shop.Has(ScopePush) || shop.Has(ScopeAdmin) {
		t.Errorf("app %q, push %v, admin %v", shop.App(), shop.Has(ScopePush), shop.Has(ScopeAdmin))
	}
	if ops, _ := keys.Check("Bearer ops-key"); ops.App() != klink.DefaultApp {
		t.Errorf("a key without app acts for %q", ops.App())
	}
	at := time.Unix(1000, 0)
	for i, want := range []bool{true, true, false} {
		if ok, _ := shop.Allow(1, at); ok != want {
			t.Errorf("request %d: %v, want %v", i, ok, want)
		}
	}
	if _, after := shop.Allow(1, at); after != 100*time.Millisecond {
		t.Errorf("retry after %v, want 100ms", after)
	}
	if ok, _ := shop.Allow(1, at.Add(100*time.Millisecond)); !ok {
		t.Error("the token that was promised is not there")
	}
	if _, limited := shop.Uses(); limited != 2 {
		t.Errorf("%d refusals counted, want 2", limited)
	}
	if _, err := NewAPIKeys([]APIKeyConfig{{Name: "x", Hash: "shop-key"}}); err == nil {
		t.Error("a key in the place of its hash is accepted")
	}
}
