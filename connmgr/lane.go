package connmgr

import "github.com/klinkio/klink"

// lane is the pushes of one app that wait on one loop. The loop serves the lanes in turn, a quantum of sends each, so that
// an app that floods does not starve the others. Within a lane pushes to named sessions go first, but
// never more than half a quantum of them before a waiting round gets its turn.
//
// Order: a publisher that waits for the answer of one push before it sends the next gets its order, because an
// answer comes after the last send of its push. Pushes to one tag leave in the order of their arrival.
type lane struct {
	app    string
	prefix []byte // of the app's keys in the tag index
	direct []*part
	rounds []*round
	open   map[string]*round // by tag: rounds that did not start yet and may take another push
	recent map[string]int64  // by tag: when the last round of a large tag ended, ms
	listed bool              // in the shard's ring of busy lanes

	sessions int
	drops    [klink.NumDrops]uint64
}

func (l *lane) busy() bool { return len(l.direct) > 0 || len(l.rounds) > 0 }

// appTable interns the apps of one loop: a session keeps an index.
type appTable struct {
	lanes []*lane
	index map[string]uint16
}

func (t *appTable) lane(app string) (uint16, *lane) {
	if i, ok := t.index[app]; ok {
		return i, t.lanes[i]
	}
	if t.index == nil {
		t.index = make(map[string]uint16)
	}
	i := uint16(len(t.lanes))
	l := &lane{app: app, prefix: append([]byte(app), 0), open: make(map[string]*round), recent: make(map[string]int64)}
	t.lanes = append(t.lanes, l)
	t.index[app] = i
	return i, l
}

func (t *appTable) at(i uint16) *lane { return t.lanes[i] }

// find is the lane of an app that has been seen on this loop.
func (t *appTable) find(app string) (*lane, bool) {
	i, ok := t.index[app]
	if !ok {
		return nil, false
	}
	return t.lanes[i], true
}
