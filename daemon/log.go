package daemon

import (
	"io"
	"log/slog"
	"os"

	"github.com/klinkio/klink/config"
)

// NewLog makes the logger that the configuration asks for, and its level.
func NewLog(c *config.Log, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	setLevel(level, c.Level)
	opts := &slog.HandlerOptions{Level: level}
	if c.Format == "json" || c.Format == "auto" && !terminal(w) {
		return slog.New(slog.NewJSONHandler(w, opts)), level
	}
	return slog.New(slog.NewTextHandler(w, opts)), level
}

// setLevel takes one of the names that the configuration allows.
func setLevel(v *slog.LevelVar, name string) {
	var l slog.Level
	if l.UnmarshalText([]byte(name)) == nil {
		v.Set(l)
	}
}

// terminal reports whether a person reads along.
func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
