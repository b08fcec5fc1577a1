package tls13

import (
	"bytes"
	"encoding/hex"
	"os"
	"strings"
	"testing"
)

// trace reads testdata: a name on a line, then lines of hexadecimal.
func trace(t *testing.T, path string) map[string][]byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	name := ""
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		switch b, err := hex.DecodeString(strings.ReplaceAll(line, " ", "")); {
		case line == "" || line[0] == '#':
		case err != nil:
			name = line
		default:
			out[name] = append(out[name], b...)
		}
	}
	return out
}

// TestRFC8448Keys derives the traffic keys of section 3 from its secrets.
func TestRFC8448Keys(t *testing.T) {
	tr := trace(t, "testdata/rfc8448-section3.txt")
	var r Record
	if err := r.init(suiteAES128, tr["client_application_traffic_secret_0"], tr["server_application_traffic_secret_0"], 0); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{
		"client_write_key": r.read.key[:16],
		"client_write_iv":  r.read.iv[:],
		"server_write_key": r.write.key[:16],
		"server_write_iv":  r.write.iv[:],
	} {
		if want := tr[name]; len(want) == 0 || !bytes.Equal(got, want) {
			t.Errorf("%s: got %x, want %x", name, got, want)
		}
	}
}

// TestRFC8448Records plays the server of section 3: one ticket was sent, so its data has sequence number 1.
func TestRFC8448Records(t *testing.T) {
	tr := trace(t, "testdata/rfc8448-section3.txt")
	var server Record
	if err := server.init(suiteAES128, tr["client_application_traffic_secret_0"], tr["server_application_traffic_secret_0"], 1); err != nil {
		t.Fatal(err)
	}
	c := NewCache(1)
	ev, got, err := server.Open(c, 1, bytes.Clone(tr["client_application_data_record"]))
	if err != nil || ev != EventData || !bytes.Equal(got, tr["application_data"]) {
		t.Fatalf("client data: event %d, %x, %v", ev, got, err)
	}
	rec, err := server.AppendSeal(c, 1, nil, tr["application_data"])
	if err != nil || !bytes.Equal(rec, tr["server_application_data_record"]) {
		t.Fatalf("server data: %x, %v", rec, err)
	}
	if ev, _, err = server.Open(c, 1, bytes.Clone(tr["client_close_notify_record"])); err != nil || ev != EventCloseNotify {
		t.Fatalf("client close_notify: event %d, %v", ev, err)
	}
	rec, err = server.AppendCloseNotify(c, 1, nil)
	if err != nil || !bytes.Equal(rec, tr["server_close_notify_record"]) {
		t.Fatalf("server close_notify: %x, %v", rec, err)
	}
}

// TestRFC8448Ticket seals the NewSessionTicket of section 3 again: sequence number 0 under the application key, as crypto/tls sends it.
func TestRFC8448Ticket(t *testing.T) {
	tr := trace(t, "testdata/rfc8448-section3.txt")
	want := tr["server_new_session_ticket_record"]
	var client, server Record
	secretC, secretS := tr["client_application_traffic_secret_0"], tr["server_application_traffic_secret_0"]
	if err := client.init(suiteAES128, secretS, secretC, 0); err != nil {
		t.Fatal(err)
	}
	if err := server.init(suiteAES128, secretC, secretS, 0); err != nil {
		t.Fatal(err)
	}
	inner := openRaw(t, &client, want)
	if len(inner) < 5 || inner[0] != 4 || inner[len(inner)-1] != typeHandshake {
		t.Fatalf("ticket decrypts to %x", inner)
	}
	got, err := server.sealOne(NewCache(1), 1, nil, typeHandshake, inner[:len(inner)-1])
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("sealed %x, %v", got, err)
	}
}
