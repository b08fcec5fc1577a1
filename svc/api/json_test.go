package api

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/klinkio/klink"
)

// texts are JSON and what is nearly JSON, for tables and as seeds.
var texts = []string{
	`null`, `true`, `false`, `0`, `-0`, `-`, `01`, `1.5e+10`, `1.`, `.5`, `1e`, `1E-2`, `"a"`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud800"`, `"\uDEAD"`,
	`"\x"`, `"` + "\x01" + `"`, `"` + "\xff" + `"`, `"é"`, `[]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[[[[]]]]`, `{}`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{a:1}`,
	`{"a":{"b":[{},[],{"c":null}]}}`, `[}`, `{]`, `[1}`, ` 1 `, "\t[\n1\r]", `1 2`, ``, ` `, `tru`, `nulll`, `"`, `"\`, `"\u12`, "\x00", `[1]]`,
	`{"to":{"users":["a"],"devices":[{"user":"b","device":"c"}],"tags":["d"],"expr":"e","all":true},"data":[1],"ttl":"1s","droppable":true,"collapse_key":"k"}`,
	`{"to":{"users":["\u0061"]},"text":"x\ny"}`, `{"to":{},"data_base64":"AAEC"}`, `{"t\u006f":{"all":false},"data":{"x":"\/"}}`,
}

// depth is how deep a text nests, good enough for valid ones.
func depth(text []byte) (most int) {
	n, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			n++
			most = max(most, n)
		case c == '}' || c == ']':
			n--
		}
	}
	return most
}

// FuzzRaw compares the grammar with encoding/json.
func FuzzRaw(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)))
	f.Add([]byte(strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1)))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r reader
		r.reset(bytes.Clone(text))
		got := r.raw()
		r.end()
		want := json.Valid(text) && utf8.Valid(text) && depth(text) <= maxDepth
		if (r.err == nil) != want {
			t.Fatalf("%q: error %v, want valid %v", text, r.err, want)
		}
		if r.err == nil && !bytes.Equal(got, bytes.Trim(text, " \t\r\n")) {
			t.Fatalf("%q became %q", text, got)
		}
		if !bytes.Equal(r.buf, text) {
			t.Fatal("the text was changed")
		}
	})
}

// FuzzString compares strings with encoding/json, which forgives half surrogate pairs.
func FuzzString(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r reader
		r.reset(text)
		got := r.str()
		r.end()
		var want string
		err := json.Unmarshal(text, &want)
		if r.err == nil {
			if err != nil || got != want {
				t.Fatalf("%q: got %q, want %q, %v", text, got, want, err)
			}
			return
		}
		null := string(bytes.TrimSpace(text)) == "null"
		if err == nil && !null && utf8.Valid(text) && !strings.Contains(want, "\ufffd") {
			t.Fatalf("%q is %q, but: %v", text, want, r.err)
		}
	})
}

// pushDoc is the shape of a push for encoding/json.
type pushDoc struct {
	To struct {
		Users   []string
		Devices []klink.DeviceRef
		Tags    []string
		Expr    string
		All     bool
	}
	Data       json.RawMessage
	Text       string
	DataBase64 []byte `json:"data_base64"`
}

// FuzzPush feeds whole bodies: what is accepted reads the same with encoding/json, and every error has a place.
func FuzzPush(f *testing.F) {
	for _, s := range texts {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var r reader
		r.reset(text)
		var p klink.Push
		r.push(&p)
		r.end()
		if r.err != nil {
			if r.err.detail == "" || !strings.HasPrefix(r.err.path, "$") || !utf8.ValidString(string(appendString(nil, r.err.detail))) {
				t.Fatalf("%q: %+v", text, r.err)
			}
			return
		}
		if r.depth != 0 || len(r.path) != 0 {
			t.Fatalf("%q: depth %d, path %v at the end", text, r.depth, r.path)
		}
		var want pushDoc
		d := json.NewDecoder(bytes.NewReader(text))
		if err := d.Decode(&want); err != nil {
			t.Fatalf("%q was accepted, but: %v", text, err)
		}
		body := map[klink.DataKind][]byte{klink.DataJSON: want.Data, klink.DataText: []byte(want.Text), klink.DataBinary: want.DataBase64}[p.Payload.Kind]
		if want.Data == nil && p.Payload.Kind == klink.DataJSON { // encoding/json reads null as nothing
			body = []byte("null")
		}
		if !bytes.Equal(p.Payload.Data, body) || p.To.Expr != want.To.Expr || p.To.All != want.To.All ||
			strings.Join(p.To.Users, "\x00") != strings.Join(want.To.Users, "\x00") || len(p.To.Devices) != len(want.To.Devices) {
			t.Fatalf("%q: got %+v, want %+v", text, p, want)
		}
		for i, dev := range p.To.Devices {
			if dev != want.To.Devices[i] {
				t.Fatalf("%q: device %d", text, i)
			}
		}
	})
}

func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\n\t\r\x00\x1f", "é😀", "\xff\xc3", "\u2028"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b := appendString(nil, s)
		var got string
		if err := json.Unmarshal(b, &got); err != nil || got != strings.ToValidUTF8(s, "\ufffd") && got != string([]rune(s)) {
			t.Fatalf("%q became %q, %v", s, b, err)
		}
	})
}

// TestReaderAllocates counts what reading the usual bodies allocates: only what is kept.
func TestReaderAllocates(t *testing.T) {
	push := []byte(`{"to":{"users":["alice"]},"data":{"hi":1,"list":[1,2,3]},"droppable":true}`)
	var r reader
	r.reset(push)
	var p klink.Push
	r.push(&p)
	got := testing.AllocsPerRun(1000, func() {
		r.reset(push)
		p = klink.Push{}
		r.push(&p)
		r.end()
		if r.err != nil {
			t.Fatal(r.err)
		}
	})
	if got != 3 { // the list of users, the user, the payload
		t.Errorf("%v allocations, want 3", got)
	}
	raw := []byte(`{"a":[1,2,{"b":"c\n"}],"d":null}`)
	if got := testing.AllocsPerRun(1000, func() {
		r.reset(raw)
		r.raw()
	}); got != 0 {
		t.Errorf("raw: %v allocations, want 0", got)
	}
}

func BenchmarkReadPush(b *testing.B) {
	body := []byte(`{"to":{"users":["alice"]},"data":{"sent":1764547200123456,"text":"` + strings.Repeat("x", 80) + `"}}`)
	b.Run("reader", func(b *testing.B) {
		var r reader
		b.ReportAllocs()
		for b.Loop() {
			r.reset(body)
			var p klink.Push
			r.push(&p)
			r.end()
		}
	})
	b.Run("encoding", func(b *testing.B) { // without the checks for doubles, paths and names
		b.ReportAllocs()
		for b.Loop() {
			var p pushDoc
			d := json.NewDecoder(bytes.NewReader(body))
			d.DisallowUnknownFields()
			if err := d.Decode(&p); err != nil {
				b.Fatal(err)
			}
		}
	})
}
