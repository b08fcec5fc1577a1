package connmgr

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/fe/link"
)

func frameOf(n int) *link.Frame { return link.NewFrame(make([]byte, n)) }

func ids(q *sendQueue) []string {
	var out []string
	for i := q.head; i < len(q.q); i++ {
		if p := q.q[i].push; p != nil {
			out = append(out, p.ID)
		} else {
			out = append(out, "answer")
		}
	}
	return out
}

// The ladder of 3-protocol: collapse to the newest, then droppable ones oldest first, then nothing helps.
func TestQueueLadder(t *testing.T) {
	now := time.Unix(1000, 0)
	type drop struct {
		id  string
		why klink.Drop
	}
	tests := []struct {
		name   string
		add    []*klink.Push // each of 100 bytes; nil: an answer
		budget int
		keep   []string
		drops  []drop
		fits   bool
	}{
		{"below the budget nothing goes", []*klink.Push{{ID: "a", CollapseKey: "k"}, {ID: "b", CollapseKey: "k"}}, 200,
			[]string{"a", "b"}, nil, true},
		{"collapse keeps the newest of each key", []*klink.Push{{ID: "a", CollapseKey: "k"}, {ID: "x", CollapseKey: "l"}, {ID: "b", CollapseKey: "k"}, {ID: "c", CollapseKey: "k"}}, 300,
			[]string{"x", "c"}, []drop{{"a", klink.DropCollapsed}, {"b", klink.DropCollapsed}}, true},
		{"droppable go oldest first and only as many as needed", []*klink.Push{{ID: "a", Droppable: true}, {ID: "b"}, {ID: "c", Droppable: true}, {ID: "d", Droppable: true}}, 250,
			[]string{"b", "d"}, []drop{{"a", klink.DropDroppable}, {"c", klink.DropDroppable}}, true},
		{"collapse comes before droppable", []*klink.Push{{ID: "a", CollapseKey: "k"}, {ID: "b", Droppable: true}, {ID: "c", CollapseKey: "k"}}, 200,
			[]string{"b", "c"}, []drop{{"a", klink.DropCollapsed}}, true},
		{"expired go first", []*klink.Push{{ID: "a", Expires: now}, {ID: "b", Droppable: true}, {ID: "c", Expires: now.Add(1)}}, 200,
			[]string{"b", "c"}, []drop{{"a", klink.DropExpired}}, true},
		{"answers never go", []*klink.Push{nil, nil, {ID: "a"}}, 200, []string{"answer", "answer", "a"}, nil, false},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			q := new(sendQueue)
			for _, p := range tc.add {
				q.push(queued{f: frameOf(100), push: p, tag: "t", bytes: 100})
			}
			var drops []drop
			fits := q.bytes <= tc.budget || q.shrink(tc.budget, now, func(e queued, why klink.Drop) {
				drops = append(drops, drop{e.push.ID, why})
			})
			if fits != tc.fits || !slices.Equal(ids(q), tc.keep) || !slices.Equal(drops, tc.drops) {
				t.Errorf("fits %v keep %v drops %v, want %v %v %v", fits, ids(q), drops, tc.fits, tc.keep, tc.drops)
			}
			if q.bytes != 100*q.len() {
				t.Errorf("bytes %d for %d frames", q.bytes, q.len())
			}
			n := uint32(0)
			for _, g := range q.gaps {
				n += g.count
			}
			if int(n) != len(drops) {
				t.Errorf("gaps tell %d drops, there were %d", n, len(drops))
			}
		})
	}
}

func TestQueueGapsAreBoundedAndComplete(t *testing.T) {
	q := new(sendQueue)
	for i := range 100 {
		q.addGap(fmt.Sprint("tag", i), klink.DropDroppable, 1)
		q.addGap("other", klink.DropMemory, 2)
	}
	total := uint32(0)
	for _, g := range q.gaps {
		total += g.count
	}
	if total != 300 {
		t.Errorf("gaps add up to %d, want 300", total)
	}
	if len(q.gaps) > maxGaps+1 {
		t.Errorf("%d gaps are kept, bound %d", len(q.gaps), maxGaps)
	}
}

func TestQueueTableReuses(t *testing.T) {
	var qt queueTable
	a, b := qt.take(), qt.take()
	qt.at(a).push(queued{f: frameOf(1), bytes: 1})
	qt.drop(a)
	if c := qt.take(); c != a || qt.at(c).len() != 0 || qt.at(c).bytes != 0 {
		t.Errorf("the dropped queue came back as %d with %d frames", c, qt.at(c).len())
	}
	if used := len(qt.all) - len(qt.free); a == b || used != 2 {
		t.Errorf("two queues in use, the table says %d", used)
	}
}
