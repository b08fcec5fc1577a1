package auth

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
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
		"Bearer " + strings.Repeat("x", MaxAPIKey+1): ErrBadKey.Error(),
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
	if missing, bad := keys.Refused(); missing != 4 || bad != 3 {
		t.Errorf("%d without a key and %d with a bad one are counted, want 4 and 3", missing, bad)
	}
}

func TestBadAPIKeysAreRefused(t *testing.T) {
	hash := HashKey("a")
	for name, list := range map[string][]APIKeyConfig{
		"a key in the place of its hash": {{Name: "x", Hash: "shop-key"}}, "a short hash": {{Name: "x", Hash: hash[:62]}}, "no hash": {{Name: "x"}}, "no name": {{Hash: hash}},
		"unknown scope": {{Name: "x", Hash: hash, Scopes: []string{ScopePush, "psuh"}}}, "bad app": {{Name: "x", Hash: hash, App: strings.Repeat("a", klink.MaxAppLen+1)}},
		"two of one name": {{Name: "x", Hash: hash}, {Name: "x", Hash: HashKey("b")}}, "one key under two names": {{Name: "x", Hash: hash}, {Name: "y", Hash: strings.ToUpper(hash)}},
		"negative rate": {{Name: "x", Hash: hash, Rate: -1}}, "rate that is no number": {{Name: "x", Hash: hash, Rate: math.NaN()}}, "endless burst": {{Name: "x", Hash: hash, Rate: 1, Burst: math.Inf(1)}},
	} {
		if _, err := NewAPIKeys(list); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// A key belongs to one back end, whose requests come from many goroutines.
func TestRateIsOneForAllGoroutines(t *testing.T) {
	keys, err := NewAPIKeys([]APIKeyConfig{{Name: "x", Hash: HashKey("a"), Rate: 1, Burst: 100}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var passed atomic.Int32
	at := time.Unix(1000, 0)
	for range 4 {
		wg.Go(func() {
			for range 100 {
				k, err := keys.Check("Bearer a")
				if err != nil {
					t.Error(err)
					return
				}
				if ok, _ := k.Allow(1, at); ok {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if n := passed.Load(); n != 100 {
		t.Errorf("%d requests passed, want the burst of 100", n)
	}
	if used, limited := keys.Keys()[0].Uses(); used != 400 || limited != 300 {
		t.Errorf("%d requests and %d refusals are counted, want 400 and 300", used, limited)
	}
}
