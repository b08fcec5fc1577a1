package loadtest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/klinkio/klink/loadtest/floor"
)

// hubServer runs the WebSocket hub, with a port for devices and one for back ends, as klink has them.
func hubServer(ctx context.Context, l *lines) error {
	hub := floor.NewHub(cannedConnected())
	devices, api := http.NewServeMux(), http.NewServeMux()
	devices.HandleFunc("GET /connect", hub.ServeDevices)
	api.HandleFunc("POST /v1/push", hub.ServePush)
	api.HandleFunc("POST /v1/push/batch", hub.ServeBatch)
	ended := make(chan error, 2) // one result a server
	var addrs [2]string
	for i, mux := range []*http.ServeMux{devices, api} {
		var lc net.ListenConfig
		lis, err := lc.Listen(ctx, "tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		addrs[i] = lis.Addr().String()
		srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
		defer srv.Close()
		go func() { ended <- srv.Serve(lis) }()
	}
	if err := l.write(&answer{Devices: addrs[0], API: addrs[1]}); err != nil {
		return err
	}
	return l.serve(func(o *order) (*answer, error) {
		select {
		case err := <-ended:
			return nil, errors.Join(errors.New("the hub ended"), err)
		default:
		}
		if o.Op == opMembers {
			return &answer{Sessions: hub.Members()}, nil
		}
		return nil, unknownOrder(o)
	})
}
