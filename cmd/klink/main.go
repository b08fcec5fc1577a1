package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker in releases.
var version = ""

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run()) }

func run() int {
	root, running := newRoot()
	cmd, err := root.ExecuteC()
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "klink: %v\n", err)
	var usage *usageError
	if *running && !errors.As(err, &usage) {
		return exitFailed
	}
	fmt.Fprintf(os.Stderr, "See %s --help.\n", cmd.CommandPath())
	return exitUsage
}

// usageError is wrong use that only a command itself can see.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// newRoot makes all commands. running becomes true when one of them has begun: what fails before is wrong use.
func newRoot() (root *cobra.Command, running *bool) {
	root = &cobra.Command{
		Use: "klink", Short: "Signaling for persistent connections: push, tags, presence", SilenceErrors: true, SilenceUsage: true,
		Long: "klink keeps connections of phones and browsers, and lets back ends push to users, devices, tags and everyone.\n\n" +
			"Begin with `klink dev`: it starts everything in one process and prints what to try.",
	}
	root.AddGroup(&cobra.Group{ID: "server", Title: "Servers:"}, &cobra.Group{ID: "device", Title: "Devices:"}, &cobra.Group{ID: "backend", Title: "Back ends:"})
	root.AddCommand(
		devCommand(), serveCommand(), configCommand(),
		connectCommand(), tokenCommand(),
		pushCommand(), presenceCommand(), tagsCommand(), kickCommand(), traceCommand(),
		benchCommand(), benchWorker(), versionCommand(),
	)
	running = new(bool)
	watch(root, running)
	return root, running
}

// watch notes when a command begins.
func watch(c *cobra.Command, running *bool) {
	if f := c.RunE; f != nil {
		c.RunE = func(cmd *cobra.Command, args []string) error {
			*running = true
			return f(cmd, args)
		}
	}
	for _, sub := range c.Commands() {
		watch(sub, running)
	}
}

// interruptible is a context that ends with SIGINT or SIGTERM.
func interruptible(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}

// versionText is the version of this binary: the linker's, or that of the module.
func versionText() string {
	if version != "" {
		return version
	}
	if b, ok := debug.ReadBuildInfo(); ok && b.Main.Version != "" {
		return b.Main.Version
	}
	return "(devel)"
}
