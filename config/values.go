package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that reads and prints like 1m30s.
type Duration time.Duration

// Std is the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// UnmarshalText reads a duration with a unit; a bare number is refused, since nobody knows its unit.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 30s or 1m30s", b)
	}
	if v < 0 {
		return fmt.Errorf("%q is below zero", b)
	}
	*d = Duration(v)
	return nil
}

// MarshalText prints it as it is read.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Size is a number of bytes that reads like 64KiB, 10MB or 512B.
type Size int64

var units = []struct {
	name string
	n    int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1000}, {"MB", 1000_000}, {"GB", 1000_000_000}, {"B", 1},
}

// UnmarshalText reads a size with a unit, or a bare number of bytes.
func (s *Size) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	factor := int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.name); ok {
			text, factor = strings.TrimSpace(rest), u.n
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a size such as 64KiB, 10MB or 512B", b)
	}
	if n > (1<<62)/factor {
		return fmt.Errorf("%q is too large", b)
	}
	*s = Size(n * factor)
	return nil
}

// MarshalText prints it with the largest binary unit that divides it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Size) String() string {
	for i := 2; i >= 0; i-- {
		if u := units[i]; s != 0 && int64(s)%u.n == 0 {
			return strconv.FormatInt(int64(s)/u.n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
