package klink_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/klinkio/klink"
)

// The close-code table of the documentation is that of the code.
func TestCloseCodeTable(t *testing.T) {
	b, err := os.ReadFile("docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d{4}) \|.*$`).FindAllString(string(b), -1)
	infos := klink.Disconnects()
	if len(rows) != len(infos) {
		t.Fatalf("%d rows, %d codes", len(rows), len(infos))
	}
	for i, in := range infos {
		retry, delay := "no", ""
		if in.Retry {
			retry, delay = "yes", fmt.Sprintf("%d ms", in.DelayMs)
		}
		for _, want := range []string{fmt.Sprint(uint16(in.Code)), "`" + in.Name + "`", in.Meaning, "| " + retry + " |", delay} {
			if !strings.Contains(rows[i], want) {
				t.Errorf("%q lacks %q", rows[i], want)
			}
		}
	}
}

// Links between files of the repository lead somewhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)`)
	for _, dir := range []string{".", "docs"} {
		files, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), ".md") {
				continue
			}
			b, err := os.ReadFile(dir + "/" + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(b), -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				if _, err := os.Stat(dir + "/" + m[1]); err != nil {
					t.Errorf("%s/%s: %s leads nowhere", dir, f.Name(), m[1])
				}
			}
		}
	}
}
