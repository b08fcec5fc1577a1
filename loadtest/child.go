package loadtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// child is a worker as the coordinator sees it.
type child struct {
	role  string
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *lines
	hello answer
}

// start runs a worker: this binary with WorkerArg.
func start(ctx context.Context, s *spec) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{role: s.Role, cmd: exec.CommandContext(ctx, self, WorkerArg)}
	c.cmd.Stderr = os.Stderr
	c.cmd.WaitDelay = time.Second
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.Role == roleFloor {
		c.cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
		if s.Cert == "" { // handshakes leave garbage, the rest does not
			c.cmd.Env = append(c.cmd.Env, "GOGC=off")
		}
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	c.lines = newLines(out, c.in)
	if err := c.lines.write(s); err != nil {
		c.close()
		return nil, fmt.Errorf("tell a worker what it is: %w", err)
	}
	if err := c.receive(&c.hello); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// receive reads an answer.
func (c *child) receive(a *answer) error {
	if err := c.lines.read(a); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("worker %s ended", c.role)
		}
		return fmt.Errorf("worker %s: %w", c.role, err)
	}
	if a.Err != "" {
		return fmt.Errorf("worker %s: %s", c.role, a.Err)
	}
	return nil
}

// ask gives an order and waits for its answer; the context that started the worker bounds the wait.
func (c *child) ask(o *order) (*answer, error) {
	if err := c.lines.write(o); err != nil {
		return nil, fmt.Errorf("worker %s: %w", c.role, err)
	}
	a := new(answer)
	return a, c.receive(a)
}

// endTime is how long a worker may take to end by itself.
const endTime = 3 * time.Second

// close ends the worker.
func (c *child) close() {
	_ = c.in.Close() // the worker may be gone already
	kill := time.AfterFunc(endTime, func() { _ = c.cmd.Process.Kill() })
	defer kill.Stop()
	_ = c.cmd.Wait() // how it ends does not matter any more
}

// cpu is what the process has used, user and system, by its CPU clock.
func (c *child) cpu() (time.Duration, error) {
	var t unix.Timespec
	clock := int32(^c.cmd.Process.Pid<<3 | 2) // as clock_getcpuclockid(3) makes it, CPUCLOCK_SCHED
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("CPU clock of worker %s: %w", c.role, err)
	}
	return time.Duration(t.Nano()), nil
}

// residentBytes is the resident set of a process.
func residentBytes(pid string) (uint64, error) {
	text, err := os.ReadFile("/proc/" + pid + "/statm")
	if err != nil {
		return 0, err
	}
	f := strings.Fields(string(text))
	if len(f) < 2 {
		return 0, fmt.Errorf("statm of %s is not understood", pid)
	}
	n, err := strconv.ParseUint(f[1], 10, 64)
	return n * uint64(os.Getpagesize()), err
}
