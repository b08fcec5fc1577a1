package cruxtest

import (
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
)

var revokeTests = []test{
	{"revocation of a user, times around the boundary", revokeUser},
	{"revocation of a device", revokeDevice},
	{"revocations at login", revokeLogin},
	{"a revocation never moves back", revokeOnlyForward},
	{"impossible revocations", revokeInvalid},
}

func (p *play) revoke(user, device string, before time.Time) {
	p.Helper()
	if err := p.Revoke(p.Context(), app, user, device, before); err != nil {
		p.Fatalf("revoke %s/%s: %v", user, device, err)
	}
}

func (p *play) revoked(user, device string, issued time.Time, want bool) {
	p.Helper()
	got, err := p.Revoked(p.Context(), app, user, device, issued)
	if err != nil || got != want {
		p.Fatalf("token of %s/%s issued %v revoked: got %v, %v, want %v", user, device, issued, got, err, want)
	}
}

// boundary is a time of revocations; a millisecond around it has to be told apart.
func boundary() time.Time { return time.UnixMilli(1_800_000_000_500) }

func revokeUser(p *play) {
	b := boundary()
	p.revoked("alice", "phone", b.Add(-time.Hour), false)
	p.revoke("alice", "", b)
	for _, device := range []string{"phone", "pad", ""} {
		p.revoked("alice", device, b.Add(-time.Hour), true)
		p.revoked("alice", device, b.Add(-time.Millisecond), true)
		p.revoked("alice", device, b.Truncate(time.Second), true)
		p.revoked("alice", device, b, false)
		p.revoked("alice", device, b.Add(time.Millisecond), false)
	}
	p.revoked("alicea", "phone", b.Add(-time.Hour), false)
	got, err := p.Revoked(p.Context(), "other", "alice", "phone", b.Add(-time.Hour))
	if err != nil || got {
		p.Errorf("the same user of another app: got %v, %v", got, err)
	}
}

func revokeDevice(p *play) {
	b := boundary()
	p.revoke("alice", "phone", b)
	p.revoked("alice", "phone", b.Add(-time.Millisecond), true)
	p.revoked("alice", "phone", b, false)
	p.revoked("alice", "pad", b.Add(-time.Hour), false)
	p.revoked("alice", "", b.Add(-time.Hour), false)
	p.revoked("alic", "ephone", b.Add(-time.Hour), false)
	p.revoked("alicephone", "", b.Add(-time.Hour), false)
}

func revokeLogin(p *play) {
	fe1, b := p.begin("fe1"), boundary()
	issued := func(t time.Time) func(*crux.Registration) { return func(r *crux.Registration) { r.TokenIssued = t } }
	a := p.login(fe1, "alice", "phone", issued(b.Add(-time.Second)))
	in := p.admit(a)
	p.revoke("alice", "", b)
	p.sessions("alice", a) // it is for the caller to end sessions
	p.verdict(p.register(p.login(fe1, "alice", "phone", issued(b.Add(-time.Millisecond)))), crux.Revoked)
	p.verdict(p.register(p.login(fe1, "alice", "pad", issued(b.Add(-time.Hour)))), crux.Revoked)
	if u := p.lookup("alice"); u.Version != in.Version {
		p.Errorf("refused logins changed the version: got %d, want %d", u.Version, in.Version)
	}
	good := p.login(fe1, "alice", "phone", issued(b))
	p.admit(good)
	unchecked := p.login(fe1, "alice", "pad")
	p.admit(unchecked)
	p.sessions("alice", good, unchecked)
	p.revoke("alice", "pad", b.Add(time.Hour))
	p.verdict(p.register(p.login(fe1, "alice", "pad", issued(b.Add(time.Minute)))), crux.Revoked)
	p.admit(p.login(fe1, "alice", "phone", issued(b.Add(time.Minute))))
	p.admit(p.login(fe1, "bob", "pad", issued(b.Add(-time.Hour))))
}

func revokeOnlyForward(p *play) {
	b := boundary()
	p.revoke("alice", "", b)
	p.revoke("alice", "", b.Add(-time.Hour))
	p.revoked("alice", "phone", b.Add(-time.Minute), true)
	p.revoke("alice", "", b.Add(time.Hour))
	p.revoked("alice", "phone", b.Add(time.Minute), true)
	p.revoked("alice", "phone", b.Add(time.Hour), false)
}

func revokeInvalid(p *play) {
	for _, c := range []struct {
		app, user, device string
		before            time.Time
	}{
		{"", "alice", "", boundary()},
		{app, "", "", boundary()},
		{app, long(klink.MaxUserLen + 1), "", boundary()},
		{app, "alice", long(klink.MaxDeviceLen + 1), boundary()},
		{app, "alice", "", time.Time{}},
	} {
		p.code(p.Revoke(p.Context(), c.app, c.user, c.device, c.before), klink.CodeInvalid)
	}
}
