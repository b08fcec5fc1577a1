package main

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/klinkio/klink/loadtest"
)

// benchProfile is the flag for profiles.
const benchProfile = "profile"

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Measure a server on this machine against control programs", GroupID: "server", Args: cobra.NoArgs, RunE: helpOnly,
		Long: "Starts a server, its control and thousands of clients as processes of their own on loopback and prints one JSON line a figure on standard\n" +
			"output and a table on standard error. CPU is that of the server process; bars are on ratios, bytes and counts. The machine should be idle\n" +
			"and the limit of open files at least 20,000.",
	}
	c.PersistentFlags().String(benchProfile, "", "folder that gets a CPU profile of each server measured; that costs the server some CPU")
	c.AddCommand(benchMemory(), benchFanout(), benchLogin(), benchHeartbeat(), benchUnicast(), benchPresence(), benchReport())
	return c
}

func benchReport() *cobra.Command {
	return &cobra.Command{
		Use: "report", Short: "Turn figures into the tables of docs/results.md", Args: cobra.NoArgs,
		Long: "Reads the JSON lines of benches on standard input and writes Markdown.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return loadtest.WriteReport(cmd.OutOrStdout(), cmd.InOrStdin())
		},
	}
}

// benchWorker is what `klink bench` starts; not for people.
func benchWorker() *cobra.Command {
	return &cobra.Command{
		Use: loadtest.WorkerArg, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return loadtest.Worker(cmd.Context(), os.Stdin, os.Stdout) },
	}
}

// measure runs a bench: figures to out, the table to notes.
func measure(cmd *cobra.Command, name string, bench func(context.Context, *loadtest.Recorder) error) error {
	ctx, stop := interruptible(cmd)
	defer stop()
	return record(ctx, name, cmd.Flag(benchProfile).Value.String(), cmd.OutOrStdout(), cmd.ErrOrStderr(), bench)
}

func record(ctx context.Context, name, profile string, out, notes io.Writer, bench func(context.Context, *loadtest.Recorder) error) error {
	r := loadtest.NewRecorder(name, out)
	r.Profile = profile
	if err := bench(ctx, r); err != nil {
		return err
	}
	return r.Table(notes)
}

func benchMemory() *cobra.Command {
	o := loadtest.MemoryOptions{}
	c := &cobra.Command{
		Use: "session-memory", Short: "Memory of an idle session", Args: cobra.NoArgs,
		Long: "Connects sessions, pushes to all of them, and reads the server's memory at two numbers of sessions: the slope is what a session costs.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Low = o.High / 3
			return measure(cmd, "session-memory", func(ctx context.Context, r *loadtest.Recorder) error {
				return loadtest.SessionMemory(ctx, &o, r)
			})
		},
	}
	c.Flags().StringSliceVar(&o.Transports, "transports", []string{"tcp", "tls", "wss"}, "of the sessions: tcp, tls, ws, wss")
	c.Flags().IntVar(&o.High, "sessions", loadtest.MaxSessions, "upper end of the slope; the lower end is a third")
	return c
}

func benchFanout() *cobra.Command {
	o := loadtest.FanoutOptions{}
	c := &cobra.Command{
		Use: "fanout", Short: "CPU of a push to a tag that everyone carries, for each delivered message", Args: cobra.NoArgs,
		Long: "Pushes through the HTTP API to a tag that all sessions carry, in turn with a bare epoll server and with a server of two goroutines a\n" +
			"connection that push to as many. A case is a transport and the frames that leave in one write; \"all\" keeps the cipher objects of all sessions.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, "fanout", func(ctx context.Context, r *loadtest.Recorder) error { return loadtest.Fanout(ctx, &o, r) })
		},
	}
	c.Flags().IntVar(&o.Sessions, "sessions", 15_000, "sessions at each server")
	c.Flags().IntVar(&o.Rounds, "rounds", 15, "rounds; figures are their medians")
	c.Flags().IntVar(&o.Writes, "writes", 2, "writes to each session in a round")
	c.Flags().StringSliceVar(&o.Cases, "cases", []string{"tcp 1", "tcp 1 one loop", "tcp 16", "tls 1"}, "what to measure; also: tls 1 all")
	return c
}

func benchLogin() *cobra.Command {
	o := loadtest.LoginOptions{}
	c := &cobra.Command{
		Use: "login", Short: "CPU of a new session: accept, token, tags", Args: cobra.NoArgs,
		Long: "Connects sessions to a server and to a bare epoll server in turn, with HS256 and ES256 tokens over TCP, and over TLS 1.3.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, "login", func(ctx context.Context, r *loadtest.Recorder) error { return loadtest.Login(ctx, &o, r) })
		},
	}
	c.Flags().IntVar(&o.Sessions, "sessions", 15_000, "sessions at each server at the end")
	c.Flags().IntVar(&o.Rounds, "rounds", 7, "rounds; figures are their medians")
	return c
}

func benchHeartbeat() *cobra.Command {
	o := loadtest.HeartbeatOptions{}
	c := &cobra.Command{
		Use: "heartbeat", Short: "CPU of a heartbeat and its answer", Args: cobra.NoArgs,
		Long: "Lets each session send a heartbeat, in turn to a server and to a bare epoll server.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, "heartbeat", func(ctx context.Context, r *loadtest.Recorder) error { return loadtest.Heartbeat(ctx, &o, r) })
		},
	}
	c.Flags().StringSliceVar(&o.Transports, "transports", []string{"tcp", "tls", "wss"}, "of the sessions: tcp, tls, ws, wss")
	c.Flags().IntVar(&o.Sessions, "sessions", 12_000, "sessions at each server")
	c.Flags().IntVar(&o.Rounds, "rounds", 7, "rounds; figures are their medians")
	return c
}

func benchUnicast() *cobra.Command {
	o := loadtest.UnicastOptions{}
	c := &cobra.Command{
		Use: "unicast", Short: "CPU of an acknowledged push to one user", Args: cobra.NoArgs,
		Long: "Pushes to single users through the HTTP API, one a request and in batches, in turn with a hub made of gorilla/websocket and net/http.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, "unicast", func(ctx context.Context, r *loadtest.Recorder) error { return loadtest.Unicast(ctx, &o, r) })
		},
	}
	c.Flags().IntVar(&o.Sessions, "sessions", 15_000, "sessions at each server")
	c.Flags().IntVar(&o.Rounds, "rounds", 7, "rounds; figures are their medians")
	c.Flags().IntVar(&o.Pushes, "pushes", 5_000, "pushes of a round")
	return c
}

func benchPresence() *cobra.Command {
	o := loadtest.PresenceOptions{}
	c := &cobra.Command{
		Use: "presence", Short: "CPU of questions about who is online", Args: cobra.NoArgs,
		Long: "Asks the HTTP API for single users, for a hundred at once, and for the members of a large and a small tag.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return measure(cmd, "presence", func(ctx context.Context, r *loadtest.Recorder) error { return loadtest.Presence(ctx, &o, r) })
		},
	}
	c.Flags().IntVar(&o.Sessions, "sessions", 15_000, "sessions")
	c.Flags().IntVar(&o.Rounds, "rounds", 7, "rounds; figures are their medians")
	c.Flags().IntVar(&o.Queries, "queries", 1_000, "queries of each kind in a round")
	return c
}
