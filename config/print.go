package config

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteDefault writes the commented file of all defaults. Reading it changes nothing.
func WriteDefault(w io.Writer) error {
	return write(w, func(k *Key) (string, string) {
		doc := k.Doc
		if k.Reload {
			doc += " (SIGHUP)"
		}
		return "# " + doc + "\n", k.Default
	})
}

// Write prints the values in force, each with its source. Secrets are masked.
func (l *Loaded) Write(w io.Writer) error {
	return write(w, func(k *Key) (string, string) {
		text := k.text(&l.Config)
		if k.Secret && text != "[]" {
			text = "'***'"
		}
		return "", text + " # " + string(l.Sources[k.Path])
	})
}

// write lays the table out as YAML; entry gives the lines before a key, and the rest of its line.
func write(w io.Writer, entry func(k *Key) (before, value string)) error {
	b := bufio.NewWriter(w)
	section := ""
	for _, k := range Keys() {
		indent, name := "", k.Path
		if sec, last, ok := strings.Cut(k.Path, "."); ok {
			if sec != section {
				fmt.Fprintf(b, "\n%s:\n", sec)
			}
			section, indent, name = sec, "  ", last
		} else {
			section = ""
			fmt.Fprintln(b)
		}
		before, value := entry(&k)
		if before != "" {
			fmt.Fprint(b, indent, before)
		}
		if k.Type == "string" && !strings.HasPrefix(value, "'") && !strings.HasPrefix(value, `"`) && !strings.Contains(value, " # ") {
			value = quote(value)
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, value)
	}
	return b.Flush()
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
