package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// maxPushFile bounds what is read from --file; the server's own limit is lower and says so.
const maxPushFile = 1 << 20

// pushBody is the request of POST /v1/push.
type pushBody struct {
	To struct {
		Users   []string     `json:"users,omitempty"`
		Devices []deviceBody `json:"devices,omitempty"`
		Tags    []string     `json:"tags,omitempty"`
		Expr    string       `json:"expr,omitempty"`
		All     bool         `json:"all,omitempty"`
	} `json:"to"`
	Data        json.RawMessage `json:"data,omitempty"`
	Text        *string         `json:"text,omitempty"`
	Base64      *string         `json:"data_base64,omitempty"`
	CollapseKey string          `json:"collapse_key,omitempty"`
	Droppable   bool            `json:"droppable,omitempty"`
	TTL         string          `json:"ttl,omitempty"`
}

type deviceBody struct {
	User   string `json:"user"`
	Device string `json:"device"`
}

// pushed is the answer.
type pushed struct {
	Push                               string
	Matched, Enqueued, Queued, Offline int
	Dropped                            map[string]int
	Unreached                          []struct {
		FrontEnd string `json:"front_end"`
		Detail   string
	}
}

// payloadFlags are the flags that say what to push.
type payloadFlags struct {
	devices []string
	text    bool
	file    string
	ttl     time.Duration
	ttlFlag *pflag.Flag
}

func pushCommand() *cobra.Command {
	var b backend
	var body pushBody
	var f payloadFlags
	c := &cobra.Command{
		Use: "push [flags] [DATA]", Short: "Push to users, devices, tags or everyone", GroupID: "backend", Args: cobra.MaximumNArgs(1),
		Long: "Pushes DATA, one JSON value, or with --text a text. The parts of a target add up; each session gets one copy.\n" +
			"That nobody was reached is an answer, not an error.",
		Example: "  klink push --tag room:1 '{\"hi\":1}'\n  klink push --user bob --text 'your order is ready'\n  klink push --expr 'room:1 && !vip' '\"hello\"'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.fill(&body, args, cmd.InOrStdin()); err != nil {
				return err
			}
			answer, err := b.call(cmd.Context(), http.MethodPost, "/v1/push", nil, &body)
			if err != nil {
				return err
			}
			var p pushed
			return b.print(cmd.OutOrStdout(), answer, &p, p.show)
		},
	}
	fs := c.Flags()
	fs.StringArrayVar(&body.To.Users, "user", nil, "user id; may be given again")
	fs.StringArrayVar(&f.devices, "device", nil, "USER/DEVICE; may be given again")
	fs.StringArrayVar(&body.To.Tags, "tag", nil, "tag; may be given again")
	fs.StringVar(&body.To.Expr, "expr", "", "tag expression such as 'room:1 && !vip'")
	fs.BoolVar(&body.To.All, "all", false, "every session of the app")
	fs.BoolVar(&f.text, "text", false, "DATA is text, not JSON")
	fs.StringVar(&f.file, "file", "", "read the payload from a file, - for standard input: JSON or text if it is, else bytes")
	fs.StringVar(&body.CollapseKey, "collapse-key", "", "while queued for a slow reader, keep only the newest of this key")
	fs.BoolVar(&body.Droppable, "droppable", false, "may be dropped for a slow reader")
	fs.DurationVar(&f.ttl, "ttl", 0, "drop it when it is still queued after this time")
	f.ttlFlag = fs.Lookup("ttl")
	c.MarkFlagsOneRequired("user", "device", "tag", "expr", "all")
	b.flags(c)
	return c
}

// fill makes the request of the flags.
func (f *payloadFlags) fill(body *pushBody, args []string, stdin io.Reader) error {
	for _, d := range f.devices {
		user, device, ok := strings.Cut(d, "/")
		if !ok {
			return usagef("--device %q is not USER/DEVICE", d)
		}
		body.To.Devices = append(body.To.Devices, deviceBody{user, device})
	}
	if f.ttlFlag.Changed {
		if f.ttl <= 0 {
			return usagef("--ttl %v is not above 0", f.ttl)
		}
		body.TTL = f.ttl.String()
	}
	switch {
	case f.file != "" && len(args) > 0:
		return usagef("give DATA or --file, not both")
	case f.file != "":
		data, err := readPayload(f.file, stdin)
		if err != nil {
			return err
		}
		f.fillFile(body, data)
	case len(args) == 0:
		return usagef("give DATA or --file")
	case f.text:
		body.Text = &args[0]
	case !json.Valid([]byte(args[0])):
		return usagef("DATA is not JSON: quote it for the shell, or say --text")
	default:
		body.Data = json.RawMessage(args[0])
	}
	return nil
}

// fillFile takes a file's content for what it is.
func (f *payloadFlags) fillFile(body *pushBody, data []byte) {
	text := string(data)
	switch {
	case !f.text && json.Valid(data):
		body.Data = bytes.TrimSpace(data)
	case utf8.ValidString(text):
		body.Text = &text
	default:
		b64 := base64.StdEncoding.EncodeToString(data)
		body.Base64 = &b64
	}
}

func readPayload(file string, stdin io.Reader) ([]byte, error) {
	r := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read the payload: %w", err)
		}
		defer f.Close()
		r = f
	}
	data, err := io.ReadAll(io.LimitReader(r, maxPushFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	if len(data) > maxPushFile {
		return nil, fmt.Errorf("the payload is larger than %d bytes", maxPushFile)
	}
	return data, nil
}

func (p *pushed) show(w io.Writer) error {
	fmt.Fprintf(w, "push %s: matched %d, enqueued %d", printable(p.Push), p.Matched, p.Enqueued)
	if p.Queued > 0 {
		fmt.Fprintf(w, " (%d behind slow readers)", p.Queued)
	}
	if p.Offline > 0 {
		fmt.Fprintf(w, ", offline %d", p.Offline)
	}
	for _, reason := range slices.Sorted(maps.Keys(p.Dropped)) {
		fmt.Fprintf(w, ", dropped %d (%s)", p.Dropped[reason], printable(reason))
	}
	for _, u := range p.Unreached {
		fmt.Fprintf(w, ", not reached: %s (%s)", printable(u.FrontEnd), printable(u.Detail))
	}
	_, err := fmt.Fprintln(w)
	return err
}
