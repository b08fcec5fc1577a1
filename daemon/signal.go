package daemon

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/klinkio/klink/config"
)

// Signals runs the process until SIGTERM or SIGINT, which drain it; a second one ends the drain at once. SIGHUP reads the configuration again
// by load.
func Signals(ctx context.Context, p *Process, load func() (*config.Loaded, error)) error {
	// Two signals may wait: the one that drains and the one that cuts it short.
	end := make(chan os.Signal, 2)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(end)
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	run, drain := context.WithCancel(ctx)
	defer drain()
	done := make(chan error, 1) // Run's result, also when nobody waits for it any more
	go func() { done <- p.Run(run) }()
	for {
		select {
		case err := <-done:
			return err
		case s := <-end:
			if run.Err() != nil {
				p.log.Warn("second signal, ending at once", "signal", s.String())
				p.Kill()
				continue
			}
			p.log.Info("signal, draining; a second one ends at once", "signal", s.String())
			drain()
		case <-hup:
			p.reload(load)
		}
	}
}

// reload reads the configuration and takes what it can.
func (p *Process) reload(load func() (*config.Loaded, error)) {
	l, err := load()
	if err != nil {
		p.log.Error("configuration not reloaded, the old one stays in force", "err", err)
		return
	}
	taken, restart, err := p.Reload(l)
	if err != nil {
		p.log.Error("a part of the configuration was not reloaded", "err", err)
	}
	p.log.Info("configuration reloaded", "taken", taken)
	if len(restart) > 0 {
		p.log.Warn("these changes need a restart", "keys", restart)
	}
}
