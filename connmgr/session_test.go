package connmgr

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/klinkio/klink"
)

// The record is what an idle session costs here; it must hold no pointer, or the garbage collector walks millions of them.
func TestSessionSize(t *testing.T) {
	if n := unsafe.Sizeof(session{}); n > 96 {
		t.Errorf("session is %d bytes, budget 96", n)
	}
	typ := reflect.TypeFor[session]()
	for field := range typ.Fields() {
		switch f := field; f.Type.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.String, reflect.Map, reflect.Interface, reflect.Chan, reflect.Func:
			t.Errorf("field %s is a %v", f.Name, f.Type.Kind())
		default:
		}
	}
}

func TestSlabFindsOnlyTheGeneration(t *testing.T) {
	var sl slab
	h1 := klink.MakeHandle(0, 5, 1)
	sl.openSlot(5, 1)
	if sl.find(h1) == nil {
		t.Fatal("the open session is not found")
	}
	if sl.find(klink.MakeHandle(0, 5, 2)) != nil || sl.find(klink.MakeHandle(0, 6, 1)) != nil || sl.find(klink.MakeHandle(0, 1<<20, 1)) != nil {
		t.Error("a handle of another generation or slot found a session")
	}
	sl.release(sl.at(5))
	if sl.find(h1) != nil {
		t.Error("a released session is found")
	}
	sl.openSlot(5, 2)
	if sl.find(h1) != nil {
		t.Error("the old handle finds the new owner of the slot")
	}
}

func TestIDArena(t *testing.T) {
	var a idArena
	refs := make(map[idRef][2]string)
	for i := range 2000 {
		u := strings.Repeat("u", i%klink.MaxUserLen+1) + fmt.Sprint(i)
		d := strings.Repeat("d", (i*7)%klink.MaxDeviceLen)
		u = u[max(0, len(u)-klink.MaxUserLen):]
		r := a.put(u, d)
		if _, dup := refs[r]; dup {
			t.Fatal("two ids share a block")
		}
		refs[r] = [2]string{u, d}
		if i%3 == 0 {
			for old := range refs {
				a.drop(old)
				delete(refs, old)
				break
			}
		}
	}
	for r, want := range refs {
		u, d := a.get(r)
		if string(u) != want[0] || string(d) != want[1] {
			t.Fatalf("got %q %q, want %v", u, d, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { a.drop(a.put("alice", "phone-1")) }); n != 0 {
		t.Errorf("%v allocations for a put and drop", n)
	}
}
