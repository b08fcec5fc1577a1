package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

// kickBody is the request of POST /v1/disconnect.
type kickBody struct {
	User    string `json:"user"`
	Device  string `json:"device,omitempty"`
	Session string `json:"session,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func kickCommand() *cobra.Command {
	var b backend
	var body kickBody
	c := &cobra.Command{
		Use: "kick USER", Short: "End the sessions of a user", GroupID: "backend", Args: cobra.ExactArgs(1),
		Long: "Ends all sessions of USER, or those that the flags name. The clients are told and do not come back by themselves.",
		RunE: func(cmd *cobra.Command, args []string) error {
			body.User = args[0]
			answer, err := b.call(cmd.Context(), http.MethodPost, "/v1/disconnect", nil, &body)
			if err != nil {
				return err
			}
			var a struct{ Disconnected int }
			return b.print(cmd.OutOrStdout(), answer, &a, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "%s: %d sessions end\n", printable(args[0]), a.Disconnected)
				return err
			})
		},
	}
	c.Flags().StringVar(&body.Device, "device", "", "only the session of this device")
	c.Flags().StringVar(&body.Session, "session", "", "only this session, named as in klink presence --output json")
	c.Flags().StringVar(&body.Reason, "reason", "", "told to the client")
	b.flags(c)
	return c
}
