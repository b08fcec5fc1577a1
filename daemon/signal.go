package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/klinkio/klink/config"
)

// Signals catches SIGTERM, SIGINT and SIGHUP. It is made before the process announces itself, so that none ends it unprepared.
type Signals struct {
	end chan os.Signal
	hup chan os.Signal
}

// CatchSignals begins to catch them. Stop must follow.
func CatchSignals() *Signals {
	// Two signals may wait: the one that drains and the one that cuts it short.
	s := &Signals{end: make(chan os.Signal, 2), hup: make(chan os.Signal, 1)}
	signal.Notify(s.end, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(s.hup, syscall.SIGHUP)
	return s
}

// Stop gives the signals back their usual effect.
func (s *Signals) Stop() {
	signal.Stop(s.end)
	signal.Stop(s.hup)
}

// sameSignal is within which time two of the same signal are one: some senders signal a process and then its group.
const sameSignal = 500 * time.Millisecond

// Run runs the process until SIGTERM or SIGINT, which drain it; a second one ends the drain at once. SIGHUP reads the configuration again
// by load.
func (s *Signals) Run(ctx context.Context, p *Process, load func() (*config.Loaded, error)) error {
	run, drain := context.WithCancel(ctx)
	defer drain()
	done := make(chan error, 1) // Run's result
	var first time.Time
	var firstSig os.Signal
	go func() { done <- p.Run(run) }()
	for {
		select {
		case err := <-done:
			return err
		case sig := <-s.end:
			if sig == firstSig && time.Since(first) < sameSignal {
				continue
			}
			if run.Err() != nil {
				p.log.Warn("second signal, ending at once", "signal", sig.String())
				p.Kill()
				continue
			}
			p.log.Info("signal, draining; a second one ends at once", "signal", sig.String())
			first, firstSig = time.Now(), sig
			drain()
		case <-s.hup:
			if run.Err() != nil {
				p.log.Warn("configuration not reloaded: the process drains")
				continue
			}
			p.reload(load)
		}
	}
}

// reload reads the configuration and takes what it can. The service manager is told when it begins and when it has ended, however.
func (p *Process) reload(load func() (*config.Loaded, error)) {
	if p.ready.Load() {
		if line, err := reloading(); err != nil {
			p.log.Warn("the service manager was not told", "err", err)
		} else {
			p.tell(line)
		}
		defer p.tell(statusServing)
	}
	l, err := load()
	if err != nil {
		p.log.Error("configuration not reloaded, the old one stays in force", "err", err)
		return
	}
	taken, restart, err := p.Reload(l)
	if err != nil {
		p.log.Error("a part of the configuration was not reloaded", "err", err)
	}
	msg := "configuration reloaded; certificates and keys were read again"
	if err != nil {
		msg = "configuration reloaded in part"
	}
	p.log.Info(msg, "taken", append([]string{}, taken...))
	if len(restart) > 0 {
		p.log.Warn("these changes need a restart", "keys", restart)
	}
}
