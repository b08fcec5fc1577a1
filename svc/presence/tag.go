package presence

import (
	"context"
	"errors"

	"github.com/klinkio/klink"
)

// TagCount is how many sessions carry a tag. Unreached names front ends that did not answer; their sessions are not counted.
type TagCount struct {
	Sessions  int
	FEs       int // that answered
	Unreached []string
}

// Count asks every front end for its count, which each reads in constant time. It is an error only if none answers.
func (s *Service) Count(ctx context.Context, app, tag string) (TagCount, error) {
	if err := klink.CheckID("tag", tag, klink.MaxTagLen); err != nil {
		return TagCount{}, s.failed(klink.Errorf(klink.CodeInvalid, "%w", err))
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	fes := s.dir.FrontEnds()
	type answer struct {
		n   int
		err error
	}
	answers := make([]answer, len(fes))
	done := make(chan int, len(fes))
	for i := 1; i < len(fes); i++ {
		go func() { // ends with ctx at the latest
			answers[i].n, answers[i].err = fes[i].TagCount(ctx, app, tag)
			done <- i
		}()
	}
	if len(fes) > 0 {
		answers[0].n, answers[0].err = fes[0].TagCount(ctx, app, tag)
	}
	for i := 1; i < len(fes); i++ {
		<-done
	}
	var c TagCount
	var first error
	for i, a := range answers {
		if a.err != nil {
			c.Unreached = append(c.Unreached, fes[i].ID())
			if first == nil {
				first = a.err
			}
			continue
		}
		c.Sessions += a.n
		c.FEs++
	}
	if c.FEs == 0 && first != nil {
		return TagCount{}, s.failed(feError(fes[0].ID(), first))
	}
	return c, nil
}

func feError(fe string, err error) error {
	if coded, ok := errors.AsType[*klink.Error](err); ok {
		return klink.Errorf(coded.Code, "front end %s: %w", fe, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return klink.Errorf(klink.CodeTimeout, "front end %s: %w", fe, err)
	}
	return klink.Errorf(klink.CodeUnavailable, "front end %s: %w", fe, err)
}

// Page is a part of the members of a tag.
type Page struct {
	Members []klink.Member
	Next    string // cursor of the next page, empty: there is none
}

// Members is the page of at most limit members of a tag that begins at a cursor, empty for the first one. A page may hold fewer,
// also none, and have a successor. Members that come and go between two pages may be missed or met twice.
func (s *Service) Members(ctx context.Context, app, tag, cursor string, limit int) (Page, error) {
	if err := klink.CheckID("tag", tag, klink.MaxTagLen); err != nil {
		return Page{}, s.failed(klink.Errorf(klink.CodeInvalid, "%w", err))
	}
	if limit < 1 || limit > MaxPage {
		return Page{}, s.failed(klink.Errorf(klink.CodeInvalid, "limit %d is not within 1 to %d", limit, MaxPage))
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	fes := s.dir.FrontEnds()
	at, within, err := parseCursor(cursor, fes)
	if err != nil {
		return Page{}, s.failed(err)
	}
	var page Page
	for ; at < len(fes) && len(page.Members) < limit; at++ {
		members, next, done, err := fes[at].Members(ctx, app, tag, within, limit-len(page.Members))
		if err != nil {
			return Page{}, s.failed(feError(fes[at].ID(), err))
		}
		page.Members = append(page.Members, members...)
		if !done {
			page.Next = formatCursor(fes[at].ID(), next)
			return page, nil
		}
		within = 0
	}
	if at < len(fes) {
		page.Next = formatCursor(fes[at].ID(), 0)
	}
	return page, nil
}
