package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/klinkio/klink/config"
	"github.com/klinkio/klink/daemon"
)

// settings is the configuration as a command line gives it: a file and a flag for every key.
type settings struct {
	file  string
	flags *pflag.FlagSet
}

// add gives a command --config and the flags of all keys, which its help lists or hides.
func (s *settings) add(c *cobra.Command, hidden bool) {
	s.flags = c.Flags()
	s.flags.StringVar(&s.file, "config", os.Getenv("KLINK_CONFIG"), "configuration file (KLINK_CONFIG)")
	for _, k := range config.Keys() {
		s.flags.Var(&keyFlag{key: k, text: k.Default}, k.Path, k.Doc)
		if k.Type == "bool" {
			s.flags.Lookup(k.Path).NoOptDefVal = "true"
		}
		if hidden {
			_ = s.flags.MarkHidden(k.Path) // the flag was made in the line above
		}
	}
}

// load reads file, environment and flags.
func (s *settings) load() (*config.Loaded, error) {
	given := make(map[string]string)
	s.flags.Visit(func(f *pflag.Flag) {
		if k, ok := f.Value.(*keyFlag); ok {
			given[k.key.Path] = k.text
		}
	})
	return config.Load(s.file, os.Environ(), given)
}

// keyFlag holds the text of a key's flag; package config reads it.
type keyFlag struct {
	key  config.Key
	text string
}

func (f *keyFlag) String() string { return f.text }

// Set keeps the text.
func (f *keyFlag) Set(s string) error { f.text = s; return nil }

// Type names the value in help.
func (f *keyFlag) Type() string { return f.key.Type }

func configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check, print or begin a configuration", GroupID: "server", Args: cobra.NoArgs, RunE: helpOnly}
	c.AddCommand(configCheck(), configPrint(), configDefault())
	return c
}

func configCheck() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Say whether a file is a valid configuration", Args: cobra.ExactArgs(1),
		Long: "Reads FILE alone, without environment and flags. Reads the keys and certificates that it names, too. Exits with 1 and names what is\n" +
			"wrong; mistakes of the file itself with their line.",
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("read configuration: %w", err)
			}
			l, err := config.Parse(args[0], text)
			if err != nil {
				return err
			}
			missing, err := daemon.Check(&l.Config)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			for _, m := range missing {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: not enough to serve yet: %s\n", args[0], m)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: ok\n", args[0])
			return err
		},
	}
}

func configPrint() *cobra.Command {
	var s settings
	c := &cobra.Command{
		Use: "print", Short: "Print the values in force and where each comes from", Args: cobra.NoArgs,
		Long: "Prints what `klink serve` with the same file, environment and flags would use: flag > environment > file > default. Secrets are masked.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := s.load()
			if err != nil {
				return err
			}
			return l.Write(cmd.OutOrStdout())
		},
	}
	s.add(c, false)
	return c
}

func configDefault() *cobra.Command {
	return &cobra.Command{
		Use: "default", Short: "Print a commented file of all defaults, to begin with", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return config.WriteDefault(cmd.OutOrStdout()) },
	}
}
