package crux

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"github.com/klinkio/klink"
)

func TestRecordRoundTrip(t *testing.T) {
	full := session{
		device: []byte("phone"), life: math.MaxUint32, handle: klink.MakeHandle(255, 1<<24-1, math.MaxUint32),
		transport: klink.TransportQUIC, attempt: math.MaxUint64, loginMs: maxLoginMs, version: maxVersion,
	}
	plain := session{device: []byte("pad"), handle: klink.MakeHandle(0, 0, 1), loginMs: 5, version: 5<<versionShift + 3}
	many := make([]session, MaxDevicesLimit)
	for i := range many {
		many[i] = full
		many[i].device = fmt.Append(nil, "device ", i)
	}
	for name, want := range map[string]record{
		"offline":          {version: 7, lastMs: 1<<47 - 1},
		"offline and tags": {version: maxVersion, tags: packTags([]string{"a", "b"})},
		"one":              {version: plain.version, sessions: []session{plain}},
		"two and tags":     {version: 9, sessions: []session{full, plain}, tags: packTags([]string{"vip"})},
		"many":             {version: 1, sessions: many},
	} {
		want.key = appendKey(nil, 70_000, "alice")
		packed := want.append(nil)
		var got record
		got.read(append(packed, 0xff, 0xff)) // a slot is longer than its record
		if len(want.sessions) == 0 {
			want.sessions = got.sessions[:0]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
		if keyApp(got.key) != 70_000 || string(keyUser(got.key)) != "alice" {
			t.Errorf("%s: key reads as %d %q", name, keyApp(got.key), keyUser(got.key))
		}
	}
}
