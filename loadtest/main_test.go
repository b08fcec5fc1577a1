package loadtest

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain makes this binary a worker where a bench has started it as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == WorkerArg {
		if err := Worker(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// Workers end by the dozen: under the race detector none has to wait for others' reports.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=1"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
