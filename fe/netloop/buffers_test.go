package netloop

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// TestInTable plays random use of many buffers against plain slices.
func TestInTable(t *testing.T) {
	var table inTable
	r := rand.New(rand.NewPCG(1, 2))
	refs, model := make([]inRef, 20), make([][]byte, 20)
	for step := range 20000 {
		i := r.IntN(len(refs))
		switch r.IntN(4) {
		case 0:
			table.drop(refs[i])
			refs[i], model[i] = 0, nil
		case 1:
			if refs[i] == 0 {
				continue
			}
			b := table.detach(refs[i])
			if !bytes.Equal(b, model[i]) {
				t.Fatalf("step %d: buffer %d is not what was put in", step, i)
			}
			table.release(b)
			refs[i], model[i] = 0, nil
		default:
			p := bytes.Repeat([]byte{byte(step)}, 1+r.IntN(1<<r.IntN(17)))
			grown := table.used + table.growth(refs[i], len(p))
			refs[i] = table.add(refs[i], p)
			model[i] = append(model[i], p...)
			if len(model[i]) > 1<<18 {
				table.drop(refs[i])
				refs[i], model[i] = 0, nil
			} else if table.used != grown {
				t.Fatalf("step %d: growth said %d, it is %d", step, grown, table.used)
			}
		}
		if !bytes.Equal(table.get(refs[i]), model[i]) {
			t.Fatalf("step %d: buffer %d differs", step, i)
		}
	}
	for _, ref := range refs {
		table.drop(ref)
	}
	if table.used != 0 || table.kept > maxKept || len(table.free) != len(table.all) {
		t.Errorf("at the end %d bytes are in use, %d kept, %d of %d names free", table.used, table.kept, len(table.free), len(table.all))
	}
}

// TestOutTable plays it for output: what is added comes out in order, shared bytes are neither copied nor written to.
func TestOutTable(t *testing.T) {
	var table outTable
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		shared := r.IntN(2) == 0
		first := bytes.Repeat([]byte{1}, 1+r.IntN(5000))
		ref := table.hold(first, shared)
		if same := unsafe.SliceData(table.next(ref)) == unsafe.SliceData(first); same != shared {
			t.Fatalf("shared %t, the same bytes %t", shared, same)
		}
		want, got := bytes.Clone(first), []byte(nil)
		for step := range 50 {
			if r.IntN(3) == 0 {
				b := bytes.Repeat([]byte{byte(step)}, r.IntN(3000))
				table.add(ref, b)
				want = append(want, b...)
			}
			b := table.next(ref)
			n := r.IntN(len(b) + 1)
			got = append(got, b[:n]...)
			table.sent(ref, n)
			if table.size(ref) != len(want)-len(got) || table.bytes != int64(table.size(ref)) {
				t.Fatalf("%d wait, and %d in all, want %d", table.size(ref), table.bytes, len(want)-len(got))
			}
		}
		if r.IntN(2) == 0 {
			for b := table.next(ref); len(b) > 0; b = table.next(ref) {
				got = append(got, b...)
				table.sent(ref, len(b))
			}
			if !bytes.Equal(got, want) {
				t.Fatal("what came out is not what went in")
			}
		} else if !bytes.HasPrefix(want, got) {
			t.Fatal("what came out is not what went in first")
		}
		table.drop(ref)
		if !bytes.Equal(first, bytes.Repeat([]byte{1}, len(first))) {
			t.Fatal("shared bytes were written to")
		}
	}
	if table.bytes != 0 || len(table.all) != 1 || table.kept > maxKept {
		t.Errorf("%d bytes, %d entries, %d kept", table.bytes, len(table.all), table.kept)
	}
}

// TestPongOfEntry does not outlive its entry.
func TestPongOfEntry(t *testing.T) {
	var table outTable
	ref := table.hold([]byte("x"), false)
	if _, ok := table.pong(ref); ok {
		t.Error("a pong before any ping")
	}
	table.setPong(ref, []byte("one"))
	table.setPong(ref, nil)
	if p, ok := table.pong(ref); !ok || len(p) != 0 {
		t.Errorf("%q %t, want the newest ping, which is empty", p, ok)
	}
	table.drop(ref)
	if ref = table.hold([]byte("y"), true); ref != 1 {
		t.Fatal("the entry is not used again")
	}
	if _, ok := table.pong(ref); ok {
		t.Error("the pong of the entry before")
	}
}
