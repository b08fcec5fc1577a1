package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// output is the form of what a command prints: the flag --output.
type output struct{ form string }

func (o *output) flag(c *cobra.Command) {
	o.form = "table"
	c.Flags().VarP(o, "output", "o", "table, for people, or json")
}

func (o *output) json() bool { return o.form == "json" }

// String, Set and Type implement pflag.Value.
func (o *output) String() string { return o.form }

// Set takes one of the two forms.
func (o *output) Set(s string) error {
	if s != "table" && s != "json" {
		return fmt.Errorf("%q is neither table nor json", s)
	}
	o.form = s
	return nil
}

// Type names the value in help.
func (o *output) Type() string { return "form" }

// jsonText is v in one line, with < > & as they are: payloads are passed on as they came.
func jsonText(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// table prints rows in columns; the first row is the heading.
func table(w io.Writer, rows ...[]string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, printable(cell))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// printable keeps what others have written from steering the terminal.
func printable(s string) string {
	b := []rune(s)
	for i, r := range b {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			b[i] = '\ufffd'
		}
	}
	return string(b)
}

// helpOnly is what a command does that only holds others; with an unknown one behind it, cobra says so before.
func helpOnly(cmd *cobra.Command, _ []string) error { return cmd.Help() }
