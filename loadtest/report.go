package loadtest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// WriteReport turns the figures' JSON lines into the tables of docs/results.md, a section a bench, in their order. A line that is no figure is an
// error that names its number.
func WriteReport(w io.Writer, lines io.Reader) error {
	out := bufio.NewWriter(w)
	in := bufio.NewScanner(lines)
	bench := ""
	for n := 1; in.Scan(); n++ {
		var f Figure
		if err := json.Unmarshal(in.Bytes(), &f); err != nil || f.Bench == "" || f.Metric == "" {
			return fmt.Errorf("line %d is no figure of a bench: %q", n, in.Text())
		}
		if f.Bench != bench {
			bench = f.Bench
			fmt.Fprintf(out, "\n## %s\n\n`klink bench %s`\n\n| case | metric | value | unit | bar | aim | |\n|---|---|---|---|---|---|---|\n", bench, bench)
		}
		verdict := ""
		switch {
		case f.Bar == nil:
		case f.Reached():
			verdict = "reached"
		default:
			verdict = "missed"
		}
		fmt.Fprintf(out, "| %s | `%s` | %s | %s | %s | %s | %s |\n", f.Case, f.Metric, number(f.Value), f.Unit, optional(f.Bar), optional(f.Aim), verdict)
	}
	if err := in.Err(); err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	return out.Flush()
}
