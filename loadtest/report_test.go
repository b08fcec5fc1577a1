package loadtest

import (
	"bytes"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	var lines, out bytes.Buffer
	r := NewRecorder("fanout", &lines)
	r.Add("tcp 1", "floor_ratio", 1.05, "x", goals(1.18, 1.05))
	r.Add("tcp 1", "goroutine_ratio", 1.2, "x", goals(1.35, 1.5))
	r.Add("tcp 1", "klink_us", 8, "CPU us", goal{})
	if err := WriteReport(&out, &lines); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"## fanout", "`klink bench fanout`", "| tcp 1 | `floor_ratio` | 1.05 | x | 1.18 | 1.05 | reached |", "1.5 | missed |", "`klink_us` | 8 |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	if err := WriteReport(&out, strings.NewReader("{}\n")); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a line that is no figure: %v", err)
	}
}
