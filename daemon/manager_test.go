package daemon

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/config"
)

// manager is the socket of a service manager.
type manager struct {
	t *testing.T
	l *net.UnixConn
}

func newManager(t *testing.T) *manager {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sock")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return &manager{t, l}
}

// next is the next message, as fields.
func (m *manager) next() map[string]string {
	m.t.Helper()
	buf := make([]byte, 4096)
	n, err := m.l.Read(buf)
	if err != nil {
		m.t.Fatal(err)
	}
	fields := make(map[string]string)
	for line := range strings.SplitSeq(string(buf[:n]), "\n") {
		k, v, _ := strings.Cut(line, "=")
		fields[k] = v
	}
	return fields
}

func monotonic(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano() / 1000
}

// The manager hears of the start, the begin and the end of each reload, also of one that fails, and of the drain.
func TestManagerIsTold(t *testing.T) {
	m := newManager(t)
	o := options(t, nil)
	o.Dev = devFolder(t)
	r := start(t, o)
	if f := m.next(); f["READY"] != "1" {
		t.Fatalf("at the start: %v", f)
	}
	for _, load := range []func() (*config.Loaded, error){
		func() (*config.Loaded, error) { return o.Config, nil },
		func() (*config.Loaded, error) { return nil, errors.New("no such file") },
	} {
		before := monotonic(t)
		r.reload(load)
		after := monotonic(t)
		f := m.next()
		at, err := strconv.ParseInt(f["MONOTONIC_USEC"], 10, 64)
		if f["RELOADING"] != "1" || err != nil || at < before || at > after {
			t.Errorf("a reload began with %v, not from %d to %d", f, before, after)
		}
		if f := m.next(); f["READY"] != "1" || f["RELOADING"] != "" {
			t.Errorf("a reload ended with %v", f)
		}
	}
	r.end()
	if f := m.next(); f["STOPPING"] != "1" || f["EXTEND_TIMEOUT_USEC"] == "" {
		t.Errorf("at the end: %v", f)
	}
}
