package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestRecorderWritesAJSONLineAFigure(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := NewRecorder("fanout", &out)
	r.Add("tcp 1", "floor_ratio", 1.25, "x", goals(1.18, 1.05))
	r.Add("tcp 1", "klink_us", 8, "CPU us/message", goal{})
	want := `{"bench":"fanout","case":"tcp 1","metric":"floor_ratio","value":1.25,"unit":"x","bar":1.18,"aim":1.05}
{"bench":"fanout","case":"tcp 1","metric":"klink_us","value":8,"unit":"CPU us/message","bar":null,"aim":null}
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
	if n := len(r.Figures()); n != 2 || r.Err() != nil {
		t.Errorf("%d figures, %v", n, r.Err())
	}
	var table bytes.Buffer
	if err := r.Table(&table); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(table.String()), "\n")
	if len(rows) != 3 || !strings.HasSuffix(rows[1], "MISSED") || strings.Contains(rows[2], "MISSED") {
		t.Errorf("table\n%s", table.String())
	}
}

func TestFigureReached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		metric     string
		value, bar float64
		want       bool
	}{
		{"floor_ratio", 1.18, 1.18, true}, {"floor_ratio", 1.181, 1.18, false},
		{"goroutine_ratio", 1.35, 1.35, true}, {"goroutine_ratio", 1.34, 1.35, false},
	} {
		f := Figure{Metric: c.metric, Value: c.value, Bar: &c.bar}
		if got := f.Reached(); got != c.want {
			t.Errorf("%s %v with bar %v: reached %v, want %v", c.metric, c.value, c.bar, got, c.want)
		}
	}
	if f := (Figure{Value: 9}); !f.Reached() {
		t.Error("a figure without a bar counts as missed")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("no space left")

func TestRecorderKeepsTheFirstError(t *testing.T) {
	t.Parallel()
	r := NewRecorder("b", fullDisk{})
	r.Add("c", "m", 1, "x", goal{})
	if err := r.Err(); !errors.Is(err, errFull) {
		t.Errorf("Err: %v", err)
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for v, want := range map[float64]string{0: "0", 1.5: "1.5", 1.18: "1.18", 0.98765: "0.988", 99.9999: "100", 1234.6: "1235", -200.4: "-200"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestFigureIsJSONBothWays(t *testing.T) {
	t.Parallel()
	var f Figure
	if err := json.Unmarshal([]byte(`{"bench":"b","case":"c","metric":"m","value":2,"unit":"x","bar":null,"aim":1}`), &f); err != nil || f.Bar != nil || *f.Aim != 1 {
		t.Errorf("%+v, %v", f, err)
	}
}
