package push

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/klinkio/klink"
)

// TestTraceRing compares the ring with a plain list under random sizes.
func TestTraceRing(t *testing.T) {
	const room = 64 << 10
	type entry struct {
		*trace
		id    string
		bytes int
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, limit := range []int{1, 2, 3, 50, 1000} {
		r := &traceRing{limit: limit, maxBytes: room}
		var model []*entry
		sum := func() (n int) {
			for _, m := range model {
				n += m.bytes
			}
			return n
		}
		for i := range 2000 {
			p := &klink.Push{ID: fmt.Sprint(i), App: "a", To: klink.Target{Users: []string{"u"}}}
			if rnd.IntN(10) == 0 {
				p.To.Expr = string(make([]byte, rnd.IntN(room/2)))
			}
			alone := traceRing{limit: 1, maxBytes: 1 << 30}
			model = append(model, &entry{r.begin(p), p.ID, alone.begin(p).bytes})
			trim := func() {
				for len(model) > limit || sum() > room && len(model) > 1 {
					model = model[1:]
				}
			}
			trim()
			if rnd.IntN(3) == 0 {
				e := model[rnd.IntN(len(model))]
				refs := make([]klink.SessionRef, rnd.IntN(100))
				r.plan(e.trace, []part{{d: klink.Delivery{Sessions: refs}}}, nil)
				e.bytes += int(unsafe.Sizeof(tracePart{})) + refsBytes(refs)
				trim()
			}
			n, bytes, forgotten := r.size()
			if n != len(model) || bytes != sum() || int(forgotten) != i+1-n {
				t.Fatalf("limit %d, push %d: %d traces of %d bytes, %d forgotten; want %d of %d", limit, i, n, bytes, forgotten, len(model), sum())
			}
		}
		var got, want []string
		for _, tr := range r.last(limit, func(*trace) bool { return true }) {
			got = append(got, tr.id)
		}
		for _, m := range slices.Backward(model) {
			want = append(want, m.id)
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: %v, want %v", limit, got, want)
		}
	}
}

// TestTraceForgottenGrows: what still ends after it was forgotten does not change the sum.
func TestTraceForgottenGrows(t *testing.T) {
	r := &traceRing{limit: 1, maxBytes: 1 << 20}
	old := r.begin(&klink.Push{ID: "1"})
	r.begin(&klink.Push{ID: "2"})
	_, before, _ := r.size()
	parts := []part{{d: klink.Delivery{Sessions: make([]klink.SessionRef, 10)}}}
	r.plan(old, parts, make([]klink.SessionRef, 3))
	r.report(old, parts)
	r.end(old, &Result{})
	if _, after, _ := r.size(); after != before {
		t.Errorf("%d bytes, before %d", after, before)
	}
}

// TestTraceOff: everything works without traces.
func TestTraceOff(t *testing.T) {
	r := &traceRing{}
	tr := r.begin(&klink.Push{})
	if tr != nil {
		t.Fatal("a trace is kept")
	}
	r.plan(tr, nil, nil)
	r.report(tr, nil)
	r.end(tr, &Result{})
}
