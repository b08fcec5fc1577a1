package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/klinkio/klink/daemon"
)

func serveCommand() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use: "serve", Short: "Run a server", GroupID: "server", Args: cobra.NoArgs,
		Long: "Runs front end, push, presence and the embedded store in one process. SIGTERM drains, a second one ends at once, SIGHUP reads certificates,\n" +
			"keys and what else can change again. Every key of the configuration is also a flag and an environment variable: fe.listen is --fe.listen and\n" +
			"KLINK_FE_LISTEN.",
		Example: "  klink config default > klink.yaml\n  klink serve --config klink.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := s.load()
			if err != nil {
				return err
			}
			signals := daemon.CatchSignals()
			defer signals.Stop()
			log, level := daemon.NewLog(&l.Config.Log, os.Stderr)
			p, err := daemon.Start(cmd.Context(), daemon.Options{Config: l, Log: log, Level: level, Version: versionText()})
			if err != nil {
				return err
			}
			return signals.Run(cmd.Context(), p, s.load)
		},
	}
	s.add(c, false)
	return c
}
