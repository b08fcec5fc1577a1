package netloop

import (
	"net"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the hot path go without entersyscall: their sockets never block, so the loop keeps its processor. Everything that may
// block goes through package unix.

func sysRead(fd int32, p []byte) (int, syscall.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
	return int(n), e
}

func sysSend(fd int32, p []byte) (int, syscall.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

// sysPoll is epoll_wait that does not wait.
func sysPoll(ep int, events []unix.EpollEvent) (int, syscall.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(ep), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	return int(n), e
}

func sysCtl(ep, op int, fd int32, events uint32, slot int32, gen uint32) error {
	ev := unix.EpollEvent{Events: events, Fd: slot, Pad: int32(gen)}
	return unix.EpollCtl(ep, op, int(fd), &ev)
}

// sysAccept takes one connection; the socket options were inherited from the listener.
func sysAccept(fd int) (int32, netip.AddrPort, syscall.Errno) {
	var sa unix.RawSockaddrAny
	n := uint32(unsafe.Sizeof(sa))
	nfd, _, e := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(&sa)), uintptr(unsafe.Pointer(&n)),
		unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if e != 0 {
		return -1, netip.AddrPort{}, e
	}
	return int32(nfd), addrPort(&sa), 0
}

// sysReset closes a connection that nobody has spoken on with a reset, which leaves nothing behind in the kernel.
func sysReset(fd int32) {
	_ = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	unix.Close(int(fd))
}

// listenQueue is how many connections may wait to be accepted at one socket; net.core.somaxconn bounds it, too.
const listenQueue = 4096

func addrPort(sa *unix.RawSockaddrAny) netip.AddrPort {
	port := func(p uint16) uint16 {
		b := (*[2]byte)(unsafe.Pointer(&p))
		return uint16(b[0])<<8 | uint16(b[1])
	}
	switch sa.Addr.Family {
	case unix.AF_INET:
		s := (*unix.RawSockaddrInet4)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), port(s.Port))
	case unix.AF_INET6:
		s := (*unix.RawSockaddrInet6)(unsafe.Pointer(sa))
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr).Unmap(), port(s.Port))
	default:
		return netip.AddrPort{}
	}
}

// listen binds one listening socket. With share it is one of a group on the same port, and the kernel spreads connections over the group.
func listen(addr *net.TCPAddr, sendBuffer int, share bool) (fd int, bound *net.TCPAddr, err error) {
	family, sa := sockaddr(addr)
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, nil, err
	}
	set := func(level, opt, v int) {
		if err == nil {
			err = unix.SetsockoptInt(fd, level, opt, v)
		}
	}
	set(unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if share {
		set(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	set(unix.SOL_SOCKET, unix.SO_SNDBUF, sendBuffer)
	set(unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if family == unix.AF_INET6 {
		only := 1
		if addr.IP == nil { // no host at all: both families
			only = 0
		}
		set(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only)
	}
	if err == nil {
		err = unix.Bind(fd, sa)
	}
	if err == nil {
		err = unix.Listen(fd, listenQueue)
	}
	var got unix.Sockaddr
	if err == nil {
		got, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, nil, err
	}
	out := *addr
	switch s := got.(type) {
	case *unix.SockaddrInet4:
		out.Port = s.Port
	case *unix.SockaddrInet6:
		out.Port = s.Port
	}
	return fd, &out, nil
}

// hasIPv6 says whether sockets of IPv6, which serve IPv4 too, can be made here.
func hasIPv6() bool {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func sockaddr(a *net.TCPAddr) (family int, sa unix.Sockaddr) {
	if ip4 := a.IP.To4(); ip4 != nil {
		return unix.AF_INET, &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip4)}
	}
	s := &unix.SockaddrInet6{Port: a.Port}
	if a.IP != nil {
		s.Addr = [16]byte(a.IP.To16())
	}
	if a.Zone != "" {
		if ifi, err := net.InterfaceByName(a.Zone); err == nil {
			s.ZoneId = uint32(ifi.Index)
		}
	}
	return unix.AF_INET6, s
}
