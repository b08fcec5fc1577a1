package loadtest

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klinkio/klink/loadtest/floor"
)

// errEnd ends an event loop whose orders have ended.
var errEnd = errors.New("no more orders")

var errNoFrame = errors.New("a push needs a frame and how often it is sent")

// floorServer runs the floor. Its orders come through the same epoll descriptor as everything else.
func floorServer(s *spec, l *lines, in *os.File) error {
	var srv *floor.Server
	orders := &orderReader{in: in, do: func(o *order) error {
		a, err := floorOrder(srv, o)
		if err != nil {
			a = &answer{Err: err.Error()}
		}
		return l.write(a)
	}}
	opts := floor.Options{Answer: cannedConnected(), Joined: cannedSubscribed(), Control: int(in.Fd()), Ready: orders.ready}
	if s.Cert != "" {
		var err error
		if opts.TLS, err = serverTLS(s.Cert, s.Key); err != nil {
			return err
		}
	}
	var err error
	if srv, err = floor.Listen(&opts); err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	if err := l.write(&answer{Devices: fmt.Sprintf("127.0.0.1:%d", srv.Port())}); err != nil {
		return err
	}
	if err := srv.Run(); !errors.Is(err, errEnd) {
		return err
	}
	return nil
}

func floorOrder(srv *floor.Server, o *order) (*answer, error) {
	switch o.Op {
	case opPush:
		if o.N < 1 || len(o.Frame) == 0 {
			return nil, errNoFrame
		}
		return &answer{Sessions: srv.Push(o.Frame, o.N, o.Vector)}, nil
	case opMembers:
		return &answer{Sessions: srv.Members()}, nil
	}
	return nil, unknownOrder(o)
}

func serverTLS(cert, key string) (*tls.Config, error) {
	c, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{c}, MinVersion: tls.VersionTLS13, NextProtos: []string{alpn}}, nil
}

// orderReader reads orders on an event loop: ready is called when there is input.
type orderReader struct {
	in   *os.File
	buf  []byte
	do   func(*order) error
	size [4096]byte
}

func (r *orderReader) ready() error {
	n, err := r.in.Read(r.size[:])
	if n == 0 || err != nil {
		if err == nil || errors.Is(err, io.EOF) {
			return errEnd
		}
		return err
	}
	r.buf = append(r.buf, r.size[:n]...)
	for {
		line, rest, ok := bytes.Cut(r.buf, []byte{'\n'})
		if !ok {
			if len(r.buf) > maxLine {
				return errors.New("an order is too long")
			}
			return nil
		}
		var o order
		if err := json.Unmarshal(line, &o); err != nil {
			return fmt.Errorf("order %.80q: %w", line, err)
		}
		r.buf = rest
		if err := r.do(&o); err != nil {
			return err
		}
	}
}
