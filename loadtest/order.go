package loadtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// WorkerArg is the argument, followed by nothing, that makes the binary a worker; see [Worker].
const WorkerArg = "bench-worker"

// spec says what a worker is; it is the first line of its input.
type spec struct {
	Role    string // roleKlink, ...
	Seconds int    // after which the worker ends by itself

	// Servers.
	Cert, Key string            // PEM files; empty: plain
	Settings  map[string]string // of klink, over those of the role
	Profile   string            // file that gets klink's CPU profile at its end

	// Swarms.
	Transport string // tcp, tls, ws, wss
	Addr      string
	First     int    // number of the first session
	Max       int    // sessions
	Window    int    // logins or heartbeats in flight
	Alg       string // of the tokens: HS256, ES256
	Apart     bool   // sessions subscribe to their tags after Connected, not within Connect
	CA        string // PEM file
}

// The roles of workers.
const (
	roleKlink      = "klink"
	roleFloor      = "floor"
	roleGoroutines = "goroutines"
	roleHub        = "hub"
	roleSwarm      = "swarm"
)

// order is what the coordinator asks for.
type order struct {
	Op        string
	N         int    `json:",omitempty"` // sessions, copies or frames
	Frame     []byte `json:",omitempty"` // as on the wire
	Vector    bool   `json:",omitempty"`
	TimeoutMs int    `json:",omitempty"`
}

// The orders.
const (
	opConnect = "connect" // swarm: have N sessions
	opAwait   = "await"   // swarm: until N pushes have come since the last await
	opBeat    = "beat"    // swarm: a heartbeat of each session, and its answer
	opPush    = "push"    // control server: N copies of Frame to everyone
	opMembers = "members" // control server: how many have logged in
	opMemory  = "memory"  // klink: memory after a collection
	opCounts  = "counts"  // klink: counters of the transport
)

// answer is the reply to an order, and the first line of a worker's output.
type answer struct {
	Err string `json:",omitempty"`

	// Servers at their start.
	Devices string `json:",omitempty"`
	API     string `json:",omitempty"`
	Sum     string `json:",omitempty"` // of the cipher suite and curve of a swarm's connections

	Sessions int    `json:",omitempty"`
	Pushes   uint64 `json:",omitempty"` // all that came since the start
	Pongs    uint64 `json:",omitempty"`
	Gaps     uint64 `json:",omitempty"`
	Refused  uint64 `json:",omitempty"` // Error and Disconnect frames
	Lost     uint64 `json:",omitempty"` // connections that ended
	LastErr  string `json:",omitempty"`

	Memory *memory           `json:",omitempty"`
	Counts map[string]uint64 `json:",omitempty"`
}

// memory is a server's memory after a collection, in bytes.
type memory struct {
	Live       uint64 // objects in the heap
	Heap       uint64 // spans of the heap in use
	Stack      uint64
	RSS        uint64
	Goroutines int
}

// user is heap and stack.
func (m *memory) user() uint64 { return m.Heap + m.Stack }

// maxLine bounds a line of orders or answers in bytes.
const maxLine = 1 << 20

// lines reads and writes JSON lines.
type lines struct {
	in  *bufio.Scanner
	out io.Writer
}

func newLines(in io.Reader, out io.Writer) *lines {
	s := bufio.NewScanner(in)
	s.Buffer(make([]byte, 4096), maxLine)
	return &lines{in: s, out: out}
}

// read fills v from the next line; io.EOF: there is none.
func (l *lines) read(v any) error {
	if !l.in.Scan() {
		if err := l.in.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	if err := json.Unmarshal(l.in.Bytes(), v); err != nil {
		return fmt.Errorf("line %.80q: %w", l.in.Bytes(), err)
	}
	return nil
}

func (l *lines) write(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = l.out.Write(append(text, '\n'))
	return err
}

// serve answers orders by f until the input ends.
func (l *lines) serve(f func(*order) (*answer, error)) error {
	for {
		var o order
		switch err := l.read(&o); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		a, err := f(&o)
		if err != nil {
			a = &answer{Err: err.Error()}
		}
		if err := l.write(a); err != nil {
			return err
		}
	}
}

func unknownOrder(o *order) error { return fmt.Errorf("this worker does not know the order %q", o.Op) }
