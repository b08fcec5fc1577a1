package crux

import (
	"testing"
)

func FuzzReadFrames(f *testing.F) {
	head := appendHeader(nil, 7)
	f.Add(head)
	f.Add(append(head, 0, 0, 0, 0))
	frame := make([]byte, frameHead)
	for _, e := range []entry{
		{kind: entryTags, app: "shop", user: "alice", version: 1 << 50, tags: packTags([]string{"a", "b"})},
		{kind: entryRevoke, app: "shop", user: "alice", device: "phone", before: -5},
		{kind: entryMark, version: 9},
		{kind: entryEnd, count: 3},
	} {
		frame = e.append(frame)
	}
	sealFrame(frame, 7, int64(len(head)))
	f.Add(append(head, frame...))
	f.Fuzz(func(t *testing.T, data []byte) {
		end, torn, err := readFrames("file", data, 7, func(*entry) error { return nil })
		if end < 0 || end > int64(len(data)) || torn && err != nil {
			t.Fatalf("end %d of %d, torn %v, %v", end, len(data), torn, err)
		}
		// The entries themselves, without the checksum in the way.
		for p := data; len(p) > 0; {
			e, rest, err := readEntry(p)
			if err != nil {
				return
			}
			if len(rest) >= len(p) {
				t.Fatal("an entry took no bytes")
			}
			back, left, err := readEntry(e.append(nil))
			if err != nil || len(left) != 0 || back.app != e.app || back.user != e.user || back.device != e.device ||
				back.version != e.version || back.before != e.before || back.count != e.count || string(back.tags) != string(e.tags) {
				t.Fatalf("%+v reads back as %+v, %v", e, back, err)
			}
			p = rest
		}
	})
}
