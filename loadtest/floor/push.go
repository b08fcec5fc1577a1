package floor

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Push sends the frame to everyone who has logged in, n copies each: with one send of one buffer, or with one writev of n parts. It returns how many
// connections took all of it.
func (s *Server) Push(frame []byte, n int, vector bool) (reached int) {
	all := make([]byte, 0, n*len(frame))
	for range n {
		all = append(all, frame...)
	}
	s.iov = s.iov[:0]
	for i := range n {
		s.iov = append(s.iov, unix.Iovec{Base: &all[i*len(frame)], Len: uint64(len(frame))})
	}
	for i := 0; i < len(s.members); {
		m := &s.members[i]
		ok := false
		if vector && m.out == nil {
			ok = s.writev(m.fd, all)
		} else {
			ok = s.send(m.fd, m.out, all)
		}
		if !ok {
			s.drop(m.c) // another one takes its place
			continue
		}
		reached++
		i++
	}
	return reached
}

// send gives all of b to the socket, sealed where there is TLS.
func (s *Server) send(fd int, out *Record, b []byte) bool {
	if out != nil {
		s.seal = out.Seal(s.seal[:0], b)
		b = s.seal
	}
	n, e := sendTo(fd, b)
	if e == 0 && n == len(b) {
		return true
	}
	return finish(fd, b, n, e)
}

// writev sends the parts in s.iov, which together are all.
func (s *Server) writev(fd int, all []byte) bool {
	n, _, e := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(&s.iov[0])), uintptr(len(s.iov)))
	if e == 0 && int(n) == len(all) {
		return true
	}
	return finish(fd, all, int(n), e)
}

func sendTo(fd int, b []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

// stallMs bounds the wait for a reader that is behind.
const stallMs = 5000

// finish sends the rest of b after a send that took n bytes, waiting for the reader.
func finish(fd int, b []byte, n int, e unix.Errno) bool {
	for {
		switch e {
		case 0:
			if b = b[n:]; len(b) == 0 {
				return true
			}
		case unix.EAGAIN, unix.EINTR:
		default:
			return false
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		if k, err := unix.Poll(fds, stallMs); err == nil && k == 0 {
			return false
		}
		n, e = sendTo(fd, b)
	}
}
