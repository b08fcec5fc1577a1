package loadtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"

	"github.com/klinkio/klink/auth"
	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/daemon"
)

// klinkServer is the server under test: the daemon of `klink serve`, with an order for its memory.
func klinkServer(ctx context.Context, s *spec, l *lines) error {
	settings := map[string]string{
		"fe.listen": "['127.0.0.1:0']", "api.listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0", "log.level": "warn",
		"auth.keys":     fmt.Sprintf("[{kid: %s, alg: HS256, secret: %s}, {kid: %s, alg: ES256, public_key_file: %s}]", hsKID, hsSecret, esKID, s.Key+".pub"),
		"auth.api_keys": fmt.Sprintf("[{name: bench, hash: %s, scopes: [push, presence, tags, admin]}]", auth.HashKey(apiKey)),
		"fe.insecure":   "true", "tls.cert": s.Cert, "tls.key": s.Key,
	}
	maps.Copy(settings, s.Settings)
	c, err := config.Load("", nil, settings)
	if err != nil {
		return err
	}
	log, level := daemon.NewLog(&c.Config.Log, os.Stderr)
	p, err := daemon.Start(ctx, daemon.Options{Config: c, Log: log, Level: level, Version: "bench"})
	if err != nil {
		return err
	}
	run, end := context.WithCancel(ctx)
	defer end()
	failed := make(chan error, 1) // Run's result, read at the end
	go func() { failed <- p.Run(run) }()
	if s.Profile != "" {
		stop, err := profile(s.Profile)
		if err != nil {
			return err
		}
		defer stop()
	}
	a := p.Addresses()
	if err := l.write(&answer{Devices: a.Devices[0].String(), API: a.API.String()}); err != nil {
		return err
	}
	return l.serve(func(o *order) (*answer, error) {
		select {
		case err := <-failed:
			return nil, fmt.Errorf("the server ended: %w", err)
		default:
		}
		switch o.Op {
		case opMemory:
			m, err := ownMemory()
			return &answer{Sessions: p.Sessions(), Memory: m}, err
		case opCounts:
			counts, err := ownCounts(ctx, a.Admin.String())
			return &answer{Sessions: p.Sessions(), Counts: counts}, err
		}
		return nil, unknownOrder(o)
	})
}

// profile writes a CPU profile from now on until stop is called.
func profile(name string) (stop func(), err error) {
	f, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		_ = f.Close() // a profile that is cut short shows it by itself
	}, nil
}

// ownMemory collects garbage twice, the second time for what finalizers and sync.Pool held, and reads what is left.
func ownMemory() (*memory, error) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	rss, err := residentBytes("self")
	return &memory{Live: m.HeapAlloc, Heap: m.HeapInuse, Stack: m.StackInuse, RSS: rss, Goroutines: runtime.NumGoroutine()}, err
}

// ownCounts reads the counters of the server as operators see them, those without labels.
func ownCounts(ctx context.Context, admin string) (map[string]uint64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	counts := make(map[string]uint64)
	in := bufio.NewScanner(resp.Body)
	for in.Scan() {
		name, val, ok := strings.Cut(in.Text(), " ")
		if !ok || !strings.HasSuffix(name, "_total") {
			continue
		}
		if f, err := strconv.ParseFloat(val, 64); err == nil {
			counts[name] = uint64(f)
		}
	}
	return counts, in.Err()
}
