package fe

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink"
	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/proto/frame"
)

// swarm is many devices on one epoll descriptor, whose input is read and counted and otherwise ignored.
type swarm struct {
	ep    int
	fds   []int
	bytes atomic.Int64
	stop  context.CancelFunc
	done  chan struct{}
}

func newSwarm(b *testing.B) *swarm {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &swarm{ep: ep, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		buf := make([]byte, 64<<10)
		events := make([]unix.EpollEvent, 512)
		for ctx.Err() == nil {
			n, _ := unix.EpollWait(ep, events, 100)
			for i := range max(n, 0) {
				if k, _ := unix.Read(int(events[i].Fd), buf); k > 0 {
					s.bytes.Add(int64(k))
				}
			}
		}
	}()
	b.Cleanup(func() {
		cancel()
		<-s.done
		for _, fd := range s.fds {
			unix.Close(fd)
		}
		unix.Close(ep)
	})
	return s
}

func (s *swarm) login(b *testing.B, addr string, user string, tags ...string) {
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		b.Fatal(err)
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}); err != nil {
		b.Fatal(err)
	}
	c := frame.Connect{Token: []byte(token(b, auth.Claims{User: user, Subscribe: []string{"*"}})), Device: []byte(user)}
	for _, t := range tags {
		c.Tags = append(c.Tags, []byte(t))
	}
	if _, err := unix.Write(fd, frame.AppendStream(nil, frame.AppendConnect(nil, &c))); err != nil {
		b.Fatal(err)
	}
	s.fds = append(s.fds, fd)
	if err := unix.EpollCtl(s.ep, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
		b.Fatal(err)
	}
}

func (s *swarm) enter(b *testing.B, n *node, count int) {
	for i := range count {
		s.login(b, n.addr, fmt.Sprintf("user-%011d", i), "common")
	}
	for n.Sessions().Sessions() < count {
		time.Sleep(time.Millisecond)
	}
}

func BenchmarkTagPush(b *testing.B) {
	const members = 4000
	n := startNode(b, func(c *Config) { c.Net.Loops = 1; c.Net.SendBuffer = 32 << 10 })
	s := newSwarm(b)
	s.enter(b, n, members)
	to := klink.Target{Tags: []string{"common"}}
	text := string(make([]byte, 100))
	b.ReportAllocs()
	for b.Loop() {
		if r := n.push(b, to, text, nil); r.Enqueued != members {
			b.Fatalf("%+v", r)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*members), "ns/delivery")
}

func BenchmarkLogin(b *testing.B) {
	n := startNode(b, func(c *Config) { c.Net.Loops = 1 })
	s := newSwarm(b)
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		s.login(b, n.addr, fmt.Sprintf("user-%011d", i), "common", fmt.Sprintf("own-%020d", i))
		i++
	}
	for n.Sessions().Sessions() < i {
		time.Sleep(time.Millisecond)
	}
}
