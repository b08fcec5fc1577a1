package klink_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klinkio/klink"
)

func TestHandlePacks(t *testing.T) {
	for _, tc := range []struct {
		loop      uint8
		slot, gen uint32
	}{{0, 0, 1}, {255, 1<<24 - 1, 1<<32 - 1}, {7, 12345, 99}} {
		h := klink.MakeHandle(tc.loop, tc.slot, tc.gen)
		if h.Loop() != int(tc.loop) || h.Slot() != tc.slot || h.Gen() != tc.gen {
			t.Errorf("%v came back as %d/%d/%d", tc, h.Loop(), h.Slot(), h.Gen())
		}
	}
}

func TestIDsSortByTime(t *testing.T) {
	var ids []string
	for i := range 100 {
		ids = append(ids, klink.NewID(time.UnixMilli(1_700_000_000_000+int64(i))))
	}
	if !slices.IsSorted(ids) || len(ids[0]) != 26 {
		t.Errorf("not sorted, or not 26 characters: %q", ids[:3])
	}
	slices.Sort(ids)
	if n := len(slices.Compact(ids)); n != 100 {
		t.Errorf("%d of 100 ids are different", n)
	}
}

func TestCheckID(t *testing.T) {
	for s, want := range map[string]string{
		"ok": "", "ünï": "", "": "empty", "12345": "5 bytes long, limit 4", "a\xff": "UTF-8", "a\n": "control", "\x7f": "control",
	} {
		err := klink.CheckID("x", s, 4)
		if strings.HasPrefix(s, "ünï") {
			err = klink.CheckID("x", s, 10)
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", s, err, want)
		}
	}
}

func TestReportKeepsDropsBeforeQueued(t *testing.T) {
	var r klink.Report
	for range klink.MaxOutcomes {
		r.AddOutcome(klink.Outcome{Result: klink.OutcomeQueued})
	}
	r.AddOutcome(klink.Outcome{Result: klink.OutcomeQueued})
	r.AddOutcome(klink.Outcome{Result: klink.DropSlow.String(), User: "eve"})
	if len(r.Outcomes) != klink.MaxOutcomes || !slices.ContainsFunc(r.Outcomes, func(o klink.Outcome) bool { return o.User == "eve" }) {
		t.Errorf("%d outcomes, the drop is not among them", len(r.Outcomes))
	}
}

func TestErrorCarriesItsCause(t *testing.T) {
	cause := errors.New("disk full")
	err := klink.Errorf(klink.CodeUnavailable, "write: %w", cause)
	if !errors.Is(err, cause) || err.Error() != "unavailable: write: disk full" || !err.Code.Temporary() {
		t.Errorf("%v", err)
	}
}

func TestUnknownDisconnects(t *testing.T) {
	if in := klink.Disconnect(4499).Info(); !in.Retry {
		t.Error("an unknown code below 4500 must be retried")
	}
	if in := klink.Disconnect(4999).Info(); in.Retry || in.First != klink.FirstStop {
		t.Error("an unknown code from 4500 on must stop")
	}
	seen := make(map[string]bool)
	for _, in := range klink.Disconnects() {
		if seen[in.Name] || in.Retry != (in.Code < 4500) {
			t.Errorf("%+v: name twice, or retry does not fit the number", in)
		}
		seen[in.Name] = true
	}
}

func TestTransportsParse(t *testing.T) {
	for _, tr := range []klink.Transport{klink.TransportTCP, klink.TransportTLS, klink.TransportWS, klink.TransportWSS, klink.TransportQUIC} {
		if got, err := klink.ParseTransport(tr.String()); err != nil || got != tr {
			t.Errorf("%v reads as %v, %v", tr, got, err)
		}
	}
	if _, err := klink.ParseTransport("udp"); err == nil {
		t.Error("udp is no transport")
	}
}
