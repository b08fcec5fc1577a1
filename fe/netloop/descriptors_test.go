package netloop

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

const limitChild = "NETLOOP_TEST_DESCRIPTORS" // in its environment, a child serves with so many descriptors to spare

// TestMain lets the test binary be the process that runs out of descriptors, or a client that allocates elsewhere.
func TestMain(m *testing.M) {
	if spare := os.Getenv(limitChild); spare != "" {
		if err := serveChild(spare); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if how := os.Getenv(echoChild); how != "" {
		if err := echoFrom(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// serveChild prints its address, then its counters for every line that it reads, until the end of its input.
func serveChild(spare string) error {
	var n uint64
	if _, err := fmt.Sscan(spare, &n); err != nil {
		return err
	}
	srv, stop, err := listenChild()
	if err != nil {
		return err
	}
	limit, err := limitFor(n)
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	fmt.Println(srv.Addrs()[0])
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if err := json.NewEncoder(os.Stdout).Encode(srv.Stats()); err != nil {
			return err
		}
	}
	return stop()
}

// limitFor is the limit that leaves n descriptors to be had: it is on their numbers, and those that are open may be anywhere.
func limitFor(n uint64) (limit uint64, err error) {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	open := map[uint64]bool{}
	for _, f := range list {
		var fd uint64
		if _, err := fmt.Sscan(f.Name(), &fd); err != nil {
			return 0, err
		}
		open[fd] = true // one is that of the directory, and free again
	}
	for free := uint64(0); free < n; limit++ {
		if !open[limit] {
			free++
		}
	}
	return limit, nil
}

// TestDescriptorLimit uses up the descriptors of a process. It turns clients away, does not spin, and takes new ones when some have left.
func TestDescriptorLimit(t *testing.T) {
	const spare = 20
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", limitChild, spare))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	ts := &testServer{}
	if _, err := fmt.Fscanln(r, &ts.addr); err != nil {
		t.Fatal(err)
	}
	stats := func() (st Stats) {
		if _, err := io.WriteString(in, "\n"); err != nil {
			t.Fatal(err)
		}
		line, err := r.ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &st)
		}
		if err != nil {
			t.Fatal(err)
		}
		return st
	}

	var open []peer
	for range 2 * spare {
		p, err := ts.tryDial("tcp", 0)
		if err != nil {
			continue // reset while it dialed
		}
		if p.send([]byte("x")) == nil {
			if _, err := p.recv(); err == nil {
				open = append(open, p)
				continue
			}
		}
		p.Close()
	}
	st := stats()
	if len(open) < spare/2 || len(open) > spare+1 || st.AcceptErrors == 0 || st.Refused[RefusedDescriptors] == 0 {
		t.Errorf("%d clients with %d descriptors, %d errors, %d turned away", len(open), spare, st.AcceptErrors, st.Refused[RefusedDescriptors])
	}
	if st.Wakeups > 40*(st.Accepted+st.AcceptErrors) { // a loop that spins has millions
		t.Errorf("%d wakeups for %d connections and %d errors", st.Wakeups, st.Accepted, st.AcceptErrors)
	}
	for _, p := range open[:len(open)/2] {
		p.Close()
	}
	eventually(t, "a new client gets in", func() bool {
		p, err := ts.tryDial("tcp", 0)
		if err != nil {
			return false
		}
		defer p.Close()
		if p.send([]byte("new")) != nil {
			return false
		}
		b, err := p.recv()
		return err == nil && string(b) == "new"
	})
	for _, p := range open[len(open)/2:] {
		roundTrip(t, p, "still there")
		p.Close()
	}
	eventually(t, "all are gone", func() bool { return stats().Conns == 0 })
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child: %v", err)
	}
}
