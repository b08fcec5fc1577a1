package loadtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/klinkio/klink/auth"
)

// Limits of one order, and of a bench as a whole.
const (
	connectTime = 100 * time.Second
	awaitTime   = 60 * time.Second
	benchTime   = 170 * time.Second
)

// rig is the processes of one bench.
type rig struct {
	ctx      context.Context //nolint:containedctx // a rig lives within one call of a bench
	cancel   context.CancelFunc
	dir      string
	id       *identity
	children []*child
	profile  string // folder, empty: none
	name     string // of the bench
	first    int    // number of the next swarm's first session
}

func newRig(ctx context.Context, rec *Recorder) (*rig, error) {
	dir, err := os.MkdirTemp("", "klink-bench-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, profile: rec.Profile, name: rec.bench}
	r.ctx, r.cancel = context.WithTimeout(ctx, benchTime)
	if r.id, err = newIdentity(dir); err != nil {
		r.close()
		return nil, fmt.Errorf("make keys for the bench: %w", err)
	}
	return r, nil
}

func (r *rig) close() {
	r.stop()
	r.cancel()
	_ = os.RemoveAll(r.dir) // a folder that is left over in the temporary directory does no harm
}

// stop ends all workers.
func (r *rig) stop() {
	for _, c := range r.children {
		c.close()
	}
	r.children = nil
}

func (r *rig) start(s *spec) (*child, error) {
	s.Seconds = int(benchTime / time.Second)
	c, err := start(r.ctx, s)
	if err != nil {
		return nil, err
	}
	r.children = append(r.children, c)
	return c, nil
}

// side is a server and the swarm that is connected to it.
type side struct {
	server, swarm *child
	api           *backend // of klink and the hub
	sessions      int      // that a bench has connected so far
	pongs         uint64   // that had come when last asked
	firstUser     int      // number of the first session
}

// secure reports whether a transport needs a certificate.
func secure(transport string) bool { return transport == "tls" || transport == "wss" }

// klink starts the server under test.
func (r *rig) klink(settings map[string]string) (*side, error) {
	s := spec{Role: roleKlink, Cert: r.id.cert, Key: r.id.key, Settings: settings}
	if r.profile != "" {
		s.Profile = filepath.Join(r.profile, fmt.Sprintf("%s-%s.pprof", r.name, time.Now().Format("150405.000")))
	}
	c, err := r.start(&s)
	if err != nil {
		return nil, err
	}
	return &side{server: c, api: newBackend(c.hello.API)}, nil
}

// control starts a control server.
func (r *rig) control(role, transport string) (*side, error) {
	s := &spec{Role: role}
	if secure(transport) {
		s.Cert, s.Key = r.id.cert, r.id.key
	}
	c, err := r.start(s)
	if err != nil {
		return nil, err
	}
	sd := &side{server: c}
	if c.hello.API != "" {
		sd.api = newBackend(c.hello.API)
	}
	return sd, nil
}

// swarmWindow is how many logins or heartbeats of a swarm are in flight.
const swarmWindow = 64

// fill starts a swarm for a side, which may grow to max sessions, and connects n.
func (r *rig) fill(s *side, transport string, alg auth.Alg, n, limit int) error {
	return r.fillBy(s, &spec{Transport: transport, Alg: string(alg)}, n, limit)
}

// fillBy is fill with more to say about the sessions.
func (r *rig) fillBy(s *side, sp *spec, n, limit int) error {
	if err := descriptors(limit); err != nil {
		return err
	}
	sp.Role, sp.Addr, sp.First, sp.Max, sp.Window = roleSwarm, s.server.hello.Devices, r.first, limit, swarmWindow
	sp.Key, sp.CA = r.id.key, r.id.cert
	var err error
	s.swarm, err = r.start(sp)
	r.first += limit
	if err != nil {
		return err
	}
	return s.grow(n)
}

// spareDescriptors is what a server opens besides its connections.
const spareDescriptors = 200

// descriptors checks that a process can hold so many connections.
func descriptors(sessions int) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read the limit of descriptors: %w", err)
	}
	if need := uint64(sessions + spareDescriptors); l.Cur < need {
		return fmt.Errorf("%d sessions need %d descriptors in one process, the limit (ulimit -n) is %d: raise it or ask for fewer sessions", sessions, need, l.Cur)
	}
	return nil
}

// grow connects until there are n sessions.
func (s *side) grow(n int) error {
	a, err := s.swarm.ask(&order{Op: opConnect, N: n, TimeoutMs: int(connectTime / time.Millisecond)})
	if err == nil && a.Sessions != n {
		err = fmt.Errorf("only %d of %d sessions logged in; last error: %s", a.Sessions, n, a.LastErr)
	}
	return err
}

// await waits until n more pushes have come to the swarm.
func (s *side) await(n int) error {
	a, err := s.swarm.ask(&order{Op: opAwait, N: n, TimeoutMs: int(awaitTime / time.Millisecond)})
	if err == nil && (a.Gaps > 0 || a.Lost > 0 || a.Refused > 0) {
		err = fmt.Errorf("the swarm has seen %d gaps, %d refusals and %d lost connections; last error: %s", a.Gaps, a.Refused, a.Lost, a.LastErr)
	}
	return err
}

// spend is the CPU that the server uses during f.
func (s *side) spend(f func() error) (time.Duration, error) {
	before, err := s.server.cpu()
	if err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	after, err := s.server.cpu()
	return after - before, err
}

// memory reads the server's memory.
func (s *side) memory(sessions int) (*memory, error) {
	a, err := s.server.ask(&order{Op: opMemory})
	if err != nil {
		return nil, err
	}
	if a.Sessions != sessions || a.Memory == nil {
		return nil, fmt.Errorf("the server has %d sessions, not %d", a.Sessions, sessions)
	}
	return a.Memory, nil
}

// errSizes says that the sizes asked for make no bench.
var errSizes = errors.New("sizes of a bench must be positive, and sessions at most 18000")
