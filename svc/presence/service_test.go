package presence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/crux"
	"github.com/klinkio/klink/svc/presence"
)

// front answers from a list of members; its cursor is an index of it.
type front struct {
	id      string
	members []klink.Member
	short   int // at most this many in one page, 0: no bound
	err     error
	hang    bool
}

func (f *front) ID() string { return f.id }

func (f *front) TagCount(ctx context.Context, _, _ string) (int, error) {
	if f.hang {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return len(f.members), f.err
}

func (f *front) Members(ctx context.Context, _, _ string, cursor uint64, limit int) ([]klink.Member, uint64, bool, error) {
	if f.hang {
		<-ctx.Done()
		return nil, 0, false, ctx.Err()
	}
	if f.err != nil {
		return nil, 0, false, f.err
	}
	if f.short > 0 {
		limit = min(limit, f.short)
	}
	from := min(cursor, uint64(len(f.members)))
	to := min(from+uint64(limit), uint64(len(f.members)))
	return f.members[from:to], to, to == uint64(len(f.members)), nil
}

func fronts(n, members int) (fes []*front, dir presence.Static) {
	for i := range n {
		f := &front{id: fmt.Sprintf("fe%d", i)}
		for m := range members {
			f.members = append(f.members, klink.Member{SessionRef: klink.SessionRef{User: fmt.Sprintf("%d/%d", i, m)}})
		}
		fes, dir = append(fes, f), append(dir, f)
	}
	return fes, dir
}

func newService(t *testing.T, dir presence.Directory) (*presence.Service, *crux.Embedded) {
	t.Helper()
	store, err := crux.NewEmbedded(crux.EmbeddedConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := presence.New(presence.Config{Store: store, Directory: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s, store
}

func codeOf(err error) klink.Code {
	if e, ok := errors.AsType[*klink.Error](err); ok {
		return e.Code
	}
	return klink.OK
}

func TestQuery(t *testing.T) {
	s, store := newService(t, presence.Static(nil))
	ctx := t.Context()
	inc, err := store.RegisterFE(ctx, crux.FE{ID: "fe"})
	if err != nil {
		t.Fatal(err)
	}
	reg := crux.Registration{App: "a", User: "ann", Device: "d", Incarnation: inc, Handle: klink.MakeHandle(0, 1, 1), Transport: klink.TransportTLS}
	if _, err := store.Register(ctx, []crux.Registration{reg}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Query(ctx, "a", []string{"nobody", "ann"})
	if err != nil || len(got) != 2 || got[0].Online() || got[0].User != "nobody" || !got[1].Online() || got[1].Sessions[0].Transport != klink.TransportTLS {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Query(ctx, "b", []string{"ann"}); err != nil || got[0].Online() {
		t.Errorf("another app: %+v, %v", got, err)
	}
	if _, err := s.Query(ctx, "a", make([]string, presence.MaxUsers+1)); codeOf(err) != klink.CodeLimit {
		t.Errorf("too many: %v", err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Query(ctx, "a", []string{"ann"}); codeOf(err) != klink.CodeUnavailable {
		t.Errorf("closed store: %v", err)
	}
	if st := s.Stats(); st != (presence.Stats{Queries: 4, Users: 4, Errors: 2}) {
		t.Errorf("stats %+v", st)
	}
}

func TestCount(t *testing.T) {
	fes, dir := fronts(3, 4)
	s, _ := newService(t, dir)
	got, err := s.Count(t.Context(), "a", "red")
	if err != nil || got.Sessions != 12 || got.FEs != 3 || len(got.Unreached) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	fes[1].err = errors.New("link down")
	if got, err = s.Count(t.Context(), "a", "red"); err != nil || got.Sessions != 8 || got.FEs != 2 || len(got.Unreached) != 1 || got.Unreached[0] != "fe1" {
		t.Errorf("one is away: %+v, %v", got, err)
	}
	fes[0].err, fes[2].err = klink.Errorf(klink.CodeOverloaded, "full"), fes[1].err
	if _, err = s.Count(t.Context(), "a", "red"); codeOf(err) != klink.CodeOverloaded {
		t.Errorf("all are away: %v", err)
	}
	fes[0].err = fes[1].err
	if _, err = s.Count(t.Context(), "a", "red"); codeOf(err) != klink.CodeUnavailable {
		t.Errorf("all are away: %v", err)
	}
	if _, err = s.Count(t.Context(), "a", ""); codeOf(err) != klink.CodeInvalid {
		t.Errorf("no tag: %v", err)
	}
	empty, _ := newService(t, presence.Static(nil))
	if got, err := empty.Count(t.Context(), "a", "red"); err != nil || got.Sessions != 0 {
		t.Errorf("no front end: %+v, %v", got, err)
	}
}

// TestTimeout: a front end that hangs costs the time limit, not the answer of the others.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fes, dir := fronts(2, 4)
		s, _ := newService(t, dir)
		fes[0].hang = true
		start := time.Now()
		got, err := s.Count(t.Context(), "a", "red")
		if err != nil || got.Sessions != 4 || len(got.Unreached) != 1 || time.Since(start) != 10*time.Second {
			t.Errorf("%+v, %v after %v", got, err, time.Since(start))
		}
		if _, err := s.Members(t.Context(), "a", "red", "", 10); codeOf(err) != klink.CodeTimeout {
			t.Errorf("members: %v", err)
		}
	})
}

// TestMembers walks over all pages with several limits: every member once, in order.
func TestMembers(t *testing.T) {
	for _, short := range []int{0, 1, 2} {
		for _, limit := range []int{1, 2, 3, 4, 5, 100} {
			fes, dir := fronts(3, 4)
			fes[1].members = nil
			fes[2].short = short
			s, _ := newService(t, dir)
			var got []string
			cursor, pages := "", 0
			for {
				page, err := s.Members(t.Context(), "a", "red", cursor, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(page.Members) > limit {
					t.Errorf("%d members, limit %d", len(page.Members), limit)
				}
				for _, m := range page.Members {
					got = append(got, m.User)
				}
				if cursor = page.Next; cursor == "" {
					break
				}
				if pages++; pages > 20 {
					t.Fatal("no end")
				}
			}
			if want := "0/0 0/1 0/2 0/3 2/0 2/1 2/2 2/3"; strings.Join(got, " ") != want {
				t.Errorf("limit %d, pages of %d: %v", limit, short, got)
			}
		}
	}
}

// TestCursorHolds: a cursor means the same when other front ends come and go, and says so when its own is gone.
func TestCursorHolds(t *testing.T) {
	fes, dir := fronts(3, 4)
	s, store := newService(t, dir)
	page, err := s.Members(t.Context(), "a", "red", "", 6) // ends within fe1
	if err != nil || page.Next == "" {
		t.Fatalf("%+v, %v", page, err)
	}
	for _, tc := range []struct {
		dir  presence.Static
		want string
		code klink.Code
	}{
		{presence.Static{fes[1], fes[2]}, "1/2 1/3 2/0 2/1 2/2 2/3", klink.OK},
		{presence.Static{fes[0], &front{id: "new"}, fes[1]}, "1/2 1/3", klink.OK},
		{presence.Static{fes[0], fes[2]}, "", klink.CodeInvalid},
	} {
		s, err := presence.New(presence.Config{Store: store, Directory: tc.dir})
		if err != nil {
			t.Fatal(err)
		}
		rest, err := s.Members(t.Context(), "a", "red", page.Next, 100)
		var got []string
		for _, m := range rest.Members {
			got = append(got, m.User)
		}
		if codeOf(err) != tc.code || strings.Join(got, " ") != tc.want {
			t.Errorf("%v, %v; want %q", got, err, tc.want)
		}
	}
}

func TestMembersErrors(t *testing.T) {
	fes, dir := fronts(1, 4)
	s, _ := newService(t, dir)
	for _, tc := range []struct {
		tag, cursor string
		limit       int
	}{
		{"", "", 1}, {"red", "", 0}, {"red", "", presence.MaxPage + 1}, {"red", "!", 1}, {"red", "AAAAAAAAAAA", 1}, {"red", "AAAAAAAAAABmZTB", 1},
		{"red", strings.Repeat("A", 1000), 1},
	} {
		if _, err := s.Members(t.Context(), "a", tc.tag, tc.cursor, tc.limit); codeOf(err) != klink.CodeInvalid {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	fes[0].err = klink.Errorf(klink.CodeOverloaded, "full")
	if _, err := s.Members(t.Context(), "a", "red", "", 1); codeOf(err) != klink.CodeOverloaded {
		t.Errorf("%v", err)
	}
}

// FuzzCursor: whatever a client sends as cursor, the answer is a page or a refusal.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "AAAAAAAAAAAAZmUw", "AAAAAAAAAABmZTA", "____________ZmUw", "!", "AAAAAAAAAAA="} {
		f.Add(s)
	}
	_, dir := fronts(2, 4)
	store, err := crux.NewEmbedded(crux.EmbeddedConfig{})
	if err != nil {
		f.Fatal(err)
	}
	s, err := presence.New(presence.Config{Store: store, Directory: dir})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, cursor string) {
		page, err := s.Members(context.Background(), "a", "red", cursor, 3)
		if err != nil && codeOf(err) != klink.CodeInvalid || err == nil && len(page.Members) > 3 {
			t.Errorf("%q: %+v, %v", cursor, page, err)
		}
	})
}

func TestConfig(t *testing.T) {
	if _, err := presence.New(presence.Config{}); err == nil {
		t.Error("a service without store was made")
	}
}
