package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func tagsCommand() *cobra.Command {
	c := &cobra.Command{Use: "tags", Short: "Show a tag, or change the tags of a user", GroupID: "backend", Args: cobra.NoArgs, RunE: helpOnly}
	c.AddCommand(tagsShow(), tagsSet())
	return c
}

// tagAnswer is the answer of GET /v1/tags/{tag}.
type tagAnswer struct {
	Tag       string
	Members   int
	Unreached []string
	Recent    struct {
		Pushes, Matched, Enqueued int
		Dropped                   map[string]int
	}
}

func tagsShow() *cobra.Command {
	var b backend
	c := &cobra.Command{
		Use: "show TAG", Short: "Count the sessions that carry a tag, and sum up the last pushes to it", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			answer, err := b.call(cmd.Context(), http.MethodGet, "/v1/tags/"+url.PathEscape(args[0]), nil, nil)
			if err != nil {
				return err
			}
			var t tagAnswer
			return b.print(cmd.OutOrStdout(), answer, &t, t.show)
		},
	}
	b.flags(c)
	return c
}

func (t *tagAnswer) show(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d sessions", printable(t.Tag), t.Members)
	if len(t.Unreached) > 0 {
		fmt.Fprintf(w, ", not counted on %s", printable(strings.Join(t.Unreached, ", ")))
	}
	fmt.Fprintf(w, "; last %d pushes: matched %d, enqueued %d", t.Recent.Pushes, t.Recent.Matched, t.Recent.Enqueued)
	for _, reason := range slices.Sorted(maps.Keys(t.Recent.Dropped)) {
		fmt.Fprintf(w, ", dropped %d (%s)", t.Recent.Dropped[reason], printable(reason))
	}
	_, err := fmt.Fprintln(w)
	return err
}

// userTags is the answer of POST /v1/tags.
type userTags struct {
	User           string
	Tags           []string
	Added, Removed []string
	Sessions       int
}

func tagsSet() *cobra.Command {
	var b backend
	var add, remove []string
	c := &cobra.Command{
		Use: "set USER [--add TAG] [--remove TAG]", Short: "Change the tags that a user carries on every device", Args: cobra.ExactArgs(1),
		Example: "  klink tags set bob --add vip\n  klink tags set bob --remove vip",
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"user": args[0], "add": append([]string{}, add...), "remove": append([]string{}, remove...)}
			answer, err := b.call(cmd.Context(), http.MethodPost, "/v1/tags", nil, body)
			if err != nil {
				return err
			}
			var u userTags
			return b.print(cmd.OutOrStdout(), answer, &u, u.show)
		},
	}
	c.Flags().StringArrayVar(&add, "add", nil, "tag to add; may be given again")
	c.Flags().StringArrayVar(&remove, "remove", nil, "tag to remove; may be given again")
	c.MarkFlagsOneRequired("add", "remove")
	b.flags(c)
	return c
}

func (u *userTags) show(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s: [%s], added %d, removed %d, sessions %d\n", printable(u.User), printable(strings.Join(u.Tags, " ")),
		len(u.Added), len(u.Removed), u.Sessions)
	return err
}
