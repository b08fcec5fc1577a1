package loadtest

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Figure is one number that was measured.
type Figure struct {
	Bench  string   `json:"bench"`
	Case   string   `json:"case"`
	Metric string   `json:"metric"`
	Value  float64  `json:"value"`
	Unit   string   `json:"unit"`
	Bar    *float64 `json:"bar"` // what must be reached; nil: none
	Aim    *float64 `json:"aim"` // where it should end
}

// atLeast are the metrics that should be high; of all others a low value is good.
var atLeast = map[string]bool{"goroutine_ratio": true}

// Reached reports whether the figure reaches its bar; it does without one.
func (f *Figure) Reached() bool {
	switch {
	case f.Bar == nil:
		return true
	case atLeast[f.Metric]:
		return f.Value >= *f.Bar
	}
	return f.Value <= *f.Bar
}

// Recorder writes each figure as a JSON line when it comes, and all of them as a table at the end.
type Recorder struct {
	// Profile is a folder that gets a CPU profile of each klink server; empty: none. Being profiled costs a server some CPU.
	Profile string

	bench   string
	lines   io.Writer
	figures []Figure
	err     error
}

// NewRecorder writes the figures of a bench to lines.
func NewRecorder(bench string, lines io.Writer) *Recorder {
	return &Recorder{bench: bench, lines: lines}
}

// goal is the bar and the aim of a figure.
type goal struct{ bar, aim *float64 }

func goals(bar, aim float64) goal { return goal{&bar, &aim} }

// Add records a figure.
func (r *Recorder) Add(name, metric string, value float64, unit string, g goal) {
	f := Figure{Bench: r.bench, Case: name, Metric: metric, Value: value, Unit: unit, Bar: g.bar, Aim: g.aim}
	r.figures = append(r.figures, f)
	text, err := json.Marshal(&f)
	if err == nil {
		_, err = fmt.Fprintf(r.lines, "%s\n", text)
	}
	if r.err == nil {
		r.err = err
	}
}

// Figures are all figures so far, in order.
func (r *Recorder) Figures() []Figure { return r.figures }

// Err is the first error of writing.
func (r *Recorder) Err() error { return r.err }

// Table writes the figures for people.
func (r *Recorder) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "bench\tcase\tmetric\tvalue\tunit\tbar\taim\t")
	for i := range r.figures {
		f := &r.figures[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Bench, f.Case, f.Metric, number(f.Value), f.Unit, optional(f.Bar), optional(f.Aim), mark(f))
	}
	return t.Flush()
}

func mark(f *Figure) string {
	if f.Reached() {
		return ""
	}
	return "MISSED"
}

func optional(v *float64) string {
	if v == nil {
		return "-"
	}
	return number(*v)
}

// number is short and exact enough: three decimals below 100.
func number(v float64) string {
	if v >= 100 || v <= -100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	s := strconv.FormatFloat(v, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
