package main

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// member is a session in answers about users and tags.
type member struct {
	User      string
	Device    string
	Session   string
	FrontEnd  string `json:"front_end"`
	Transport string
	Since     time.Time
	Version   string
}

// presenceAnswer is the answer of POST /v1/presence/query.
type presenceAnswer struct {
	Users []struct {
		User     string
		Online   bool
		Stale    bool
		Version  string
		LastSeen time.Time `json:"last_seen"`
		Tags     []string
		Devices  []member
	}
}

func presenceCommand() *cobra.Command {
	var b backend
	var tag, cursor string
	var limit int
	c := &cobra.Command{
		Use: "presence {USER... | --tag TAG}", Short: "Show who is online", GroupID: "backend",
		Example: "  klink presence bob alice\n  klink presence --tag room:1",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case tag != "" && len(args) > 0:
				return usagef("give users or --tag, not both")
			case tag != "":
				return b.members(cmd, tag, cursor, limit)
			case len(args) == 0:
				return usagef("give users or --tag")
			}
			answer, err := b.call(cmd.Context(), http.MethodPost, "/v1/presence/query", nil, map[string]any{"users": args})
			if err != nil {
				return err
			}
			var p presenceAnswer
			return b.print(cmd.OutOrStdout(), answer, &p, p.show)
		},
	}
	c.Flags().StringVar(&tag, "tag", "", "the sessions that carry a tag")
	c.Flags().IntVar(&limit, "limit", 100, "sessions of a page of --tag")
	c.Flags().StringVar(&cursor, "cursor", "", "begin after this page of --tag")
	b.flags(c)
	return c
}

func (p *presenceAnswer) show(w io.Writer) error {
	rows := [][]string{{"USER", "ONLINE", "DEVICE", "TRANSPORT", "SINCE", "FRONT END", "TAGS"}}
	for _, u := range p.Users {
		online := "yes"
		switch {
		case u.Stale:
			online = "stale"
		case !u.Online:
			online = "no"
		}
		tags := strings.Join(u.Tags, " ")
		if len(u.Devices) == 0 {
			seen := ""
			if !u.LastSeen.IsZero() {
				seen = "last seen " + stamp(u.LastSeen)
			}
			rows = append(rows, []string{u.User, online, "", "", seen, "", tags})
		}
		for _, d := range u.Devices {
			rows = append(rows, []string{u.User, online, d.Device, d.Transport, stamp(d.Since), d.FrontEnd, tags})
		}
	}
	return table(w, rows...)
}

// membersAnswer is the answer of GET /v1/tags/{tag}/members.
type membersAnswer struct {
	Members []member
	Next    string
}

func (b *backend) members(cmd *cobra.Command, tag, cursor string, limit int) error {
	q := url.Values{"limit": {strconv.Itoa(limit)}}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	answer, err := b.call(cmd.Context(), http.MethodGet, "/v1/tags/"+url.PathEscape(tag)+"/members", q, nil)
	if err != nil {
		return err
	}
	var m membersAnswer
	return b.print(cmd.OutOrStdout(), answer, &m, m.show)
}

func (m *membersAnswer) show(w io.Writer) error {
	rows := [][]string{{"USER", "DEVICE", "TRANSPORT", "SINCE", "FRONT END"}}
	for _, d := range m.Members {
		rows = append(rows, []string{d.User, d.Device, d.Transport, stamp(d.Since), d.FrontEnd})
	}
	if err := table(w, rows...); err != nil || m.Next == "" {
		return err
	}
	_, err := fmt.Fprintf(w, "There are more: --cursor %s\n", printable(m.Next))
	return err
}

// stamp is a time for people.
func stamp(t time.Time) string { return t.Local().Format(time.DateTime) }
