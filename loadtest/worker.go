package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// errTime ends a worker that outlived its time.
var errTime = errors.New("the worker's time is up")

// Worker is the life of a worker process. in must be the pipe that is its standard input.
func Worker(ctx context.Context, in, out *os.File) error {
	l := newLines(&byteReader{in}, out)
	var s spec
	if err := l.read(&s); err != nil {
		return fmt.Errorf("read the worker's specification: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(s.Seconds)*time.Second, errTime)
	defer cancel()
	done := make(chan error, 1) // the result, also when time is up
	go func() { done <- work(ctx, &s, l, in) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func work(ctx context.Context, s *spec, l *lines, in *os.File) error {
	switch s.Role {
	case roleKlink:
		return klinkServer(ctx, s, l)
	case roleFloor:
		return floorServer(s, l, in)
	case roleGoroutines:
		return goroutineServer(ctx, l)
	case roleHub:
		return hubServer(ctx, l)
	case roleSwarm:
		return runSwarm(s, l, in)
	}
	return fmt.Errorf("there is no worker %q", s.Role)
}

// byteReader gives single bytes, so that a scanner on it takes no byte behind the line that was asked for: workers with an event loop read
// the rest of the input themselves.
type byteReader struct{ f *os.File }

func (r *byteReader) Read(p []byte) (int, error) { return r.f.Read(p[:min(len(p), 1)]) }
