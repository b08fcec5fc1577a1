package loadtest

import (
	"context"
	"errors"

	"github.com/klinkio/klink/loadtest/floor"
)

// goroutineServer runs the server with two goroutines a connection.
func goroutineServer(ctx context.Context, l *lines) error {
	g, err := floor.ListenGoroutines(ctx, cannedConnected())
	if err != nil {
		return err
	}
	ended := make(chan error, 1) // Run's result, read at the end
	go func() { ended <- g.Run() }()
	if err := l.write(&answer{Devices: g.Addr().String()}); err != nil {
		return err
	}
	err = l.serve(func(o *order) (*answer, error) {
		switch o.Op {
		case opPush:
			if o.N < 1 || len(o.Frame) == 0 {
				return nil, errNoFrame
			}
			return &answer{Sessions: g.Push(o.Frame, o.N)}, nil
		case opMembers:
			return &answer{Sessions: g.Members()}, nil
		}
		return nil, unknownOrder(o)
	})
	return errors.Join(err, g.Close(), <-ended)
}
