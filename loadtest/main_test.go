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
	os.Exit(m.Run())
}
