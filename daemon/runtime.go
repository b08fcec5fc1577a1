package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/klinkio/klink/config"
)

// tuneRuntime sets the collector's pace and limit. GOGC and GOMEMLIMIT win over defaults, not over what is configured.
func tuneRuntime(l *config.Loaded, log *slog.Logger) {
	c := &l.Config.Runtime
	if os.Getenv("GOGC") == "" || l.Sources["runtime.gogc"] != config.FromDefault {
		debug.SetGCPercent(c.GOGC)
	}
	limit := int64(c.MemoryLimit)
	if limit == 0 && os.Getenv("GOMEMLIMIT") == "" {
		limit = containerLimit("/sys/fs/cgroup", "/proc/self/cgroup") / 10 * 9
	}
	if limit > 0 {
		debug.SetMemoryLimit(limit)
		log.Debug("memory limit", "bytes", limit)
	}
}

// containerLimit is the memory limit of the process's control group and those above it (version 2), or 0.
func containerLimit(root, self string) int64 {
	text, err := os.ReadFile(self)
	if err != nil {
		return 0
	}
	path := ""
	for line := range strings.SplitSeq(string(text), "\n") {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			path = p
		}
	}
	lowest := int64(0)
	for dir := filepath.Clean("/" + path); ; dir = filepath.Dir(dir) {
		b, err := os.ReadFile(filepath.Join(root, dir, "memory.max"))
		if err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 && (lowest == 0 || n < lowest) {
				lowest = n
			}
		}
		if dir == "/" {
			return lowest
		}
	}
}
