package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

func traceCommand() *cobra.Command {
	c := &cobra.Command{Use: "trace", Short: "Say what became of a push", GroupID: "backend", Args: cobra.NoArgs, RunE: helpOnly}
	c.AddCommand(tracePush(), traceList())
	return c
}

// reached is a report in answers about pushes.
type reached struct {
	Matched, Enqueued, Queued, Offline int
	Dropped                            map[string]int
}

func (r *reached) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "matched %d, enqueued %d, queued %d, offline %d", r.Matched, r.Enqueued, r.Queued, r.Offline)
	for _, reason := range slices.Sorted(maps.Keys(r.Dropped)) {
		fmt.Fprintf(&b, ", dropped %d (%s)", r.Dropped[reason], reason)
	}
	return b.String()
}

// pushTrace is the answer of GET /v1/trace/push/{id}.
type pushTrace struct {
	Push string
	From string
	To   struct {
		Users   []string
		Devices []struct{ User, Device string }
		Tags    []string
		Expr    string
		All     bool
	}
	Accepted time.Time
	Bytes    int `json:"payload_bytes"`
	Ended    bool
	Report   reached
	Parts    []struct {
		FrontEnd string `json:"front_end"`
		Sessions int
		Broad    bool
		Ended    bool
		Error    string
		Report   reached
	} `json:"front_ends"`
	Outcomes []struct {
		FrontEnd                      string `json:"front_end"`
		User, Device, Session, Result string
		At                            time.Time
		Late                          bool
	}
	User *struct {
		User, Verdict, Text string
		Sessions            []struct {
			FrontEnd              string `json:"front_end"`
			Device, Verdict, Text string
		}
	}
}

func tracePush() *cobra.Command {
	var b backend
	var user string
	c := &cobra.Command{
		Use: "push ID", Short: "Where a push went, and why a user did or did not get it", Args: cobra.ExactArgs(1),
		Example: "  klink trace push 0191f3c2 --user alice",
		RunE: func(cmd *cobra.Command, args []string) error {
			q := url.Values{}
			if user != "" {
				q.Set("user", user)
			}
			answer, err := b.call(cmd.Context(), http.MethodGet, "/v1/trace/push/"+url.PathEscape(args[0]), q, nil)
			if err != nil {
				return err
			}
			var t pushTrace
			return b.print(cmd.OutOrStdout(), answer, &t, t.show)
		},
	}
	c.Flags().StringVar(&user, "user", "", "explain what became of it at this user")
	b.flags(c)
	return c
}

// target is to whom the push went, in a few words.
func (t *pushTrace) target() string {
	var parts []string
	add := func(what string, n int, first func() string) {
		switch {
		case n == 1:
			parts = append(parts, what+" "+first())
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n, what))
		}
	}
	add("user", len(t.To.Users), func() string { return t.To.Users[0] })
	add("device", len(t.To.Devices), func() string { return t.To.Devices[0].User + "/" + t.To.Devices[0].Device })
	add("tag", len(t.To.Tags), func() string { return t.To.Tags[0] })
	if t.To.Expr != "" {
		parts = append(parts, t.To.Expr)
	}
	if t.To.All {
		parts = append(parts, "everyone")
	}
	return strings.Join(parts, ", ")
}

func (t *pushTrace) show(w io.Writer) error {
	from := "a back end"
	if t.From != "" {
		from = t.From
	}
	fmt.Fprintf(w, "push %s from %s to %s, %d bytes, %s\n", printable(t.Push), printable(from), printable(t.target()), t.Bytes, stamp(t.Accepted))
	state := ""
	if !t.Ended {
		state = " so far"
	}
	fmt.Fprintf(w, "all%s: %s\n", state, &t.Report)
	for _, p := range t.Parts {
		fmt.Fprintf(w, "front end %s: %s", printable(p.FrontEnd), &p.Report)
		if p.Error != "" {
			fmt.Fprintf(w, " (%s)", printable(p.Error))
		}
		fmt.Fprintln(w)
	}
	if len(t.Outcomes) > 0 {
		rows := [][]string{{"USER", "DEVICE", "FRONT END", "RESULT", "AT"}}
		for _, o := range t.Outcomes {
			rows = append(rows, []string{o.User, o.Device, o.FrontEnd, o.Result, stamp(o.At)})
		}
		if err := table(w, rows...); err != nil {
			return err
		}
	}
	if t.User == nil {
		return nil
	}
	_, err := fmt.Fprintf(w, "%s: %s. %s\n", printable(t.User.User), printable(t.User.Verdict), printable(t.User.Text))
	for _, s := range t.User.Sessions {
		_, err = fmt.Fprintf(w, "  %s on %s: %s. %s\n", printable(s.Device), printable(s.FrontEnd), printable(s.Verdict), printable(s.Text))
	}
	return err
}

func traceList() *cobra.Command {
	var b backend
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "The last pushes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			answer, err := b.call(cmd.Context(), http.MethodGet, "/v1/trace", url.Values{"limit": {strconv.Itoa(limit)}}, nil)
			if err != nil {
				return err
			}
			var l struct{ Pushes []pushTrace }
			return b.print(cmd.OutOrStdout(), answer, &l, func(w io.Writer) error {
				rows := [][]string{{"PUSH", "AT", "TO", "REACHED"}}
				for i := range l.Pushes {
					p := &l.Pushes[i]
					rows = append(rows, []string{p.Push, stamp(p.Accepted), p.target(), p.Report.String()})
				}
				return table(w, rows...)
			})
		},
	}
	c.Flags().IntVar(&limit, "limit", 20, "how many")
	b.flags(c)
	return c
}
