package frame_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/klinkio/klink/proto/frame"
	klinkv1 "github.com/klinkio/klink/proto/klink/v1"
)

// testdata/vectors.json is for writers of clients: what bytes and text each frame is. It is made from the table in
// vectors_table_test.go with `go test -run Vectors -update`, and checked here against both implementations.
var update = flag.Bool("update", false, "write testdata/vectors.json")

const vectorsFile = "testdata/vectors.json"

// vector is one frame: its binary form and its JSON form.
type vector struct {
	Name string `json:"name"`
	From string `json:"from"` // client or server
	Hex  string `json:"hex"`  // the body
	JSON string `json:"json,omitempty"`
	Note string `json:"note,omitempty"`
}

func (v *vector) body(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.Hex)
	if err != nil {
		t.Fatalf("%s: %v", v.Name, err)
	}
	return b
}

// prefix is how a stream gives a length, or fails to.
type prefix struct {
	Name   string `json:"name"`
	Hex    string `json:"hex"`
	Limit  int    `json:"limit"`
	Length int    `json:"length"`
	Error  string `json:"error,omitempty"`
}

type vectors struct {
	Lengths  []prefix `json:"lengths"`  // on a byte stream
	Frames   []vector `json:"frames"`   // read and written exactly so; the JSON text may have other spaces and order
	Variants []vector `json:"variants"` // other bytes that mean the JSON
	Refused  []vector `json:"refused"`  // not frames
}

func readVectors(t testing.TB) *vectors {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(vectorsFile))
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return &v
}

// compact is protojson without its random spaces.
func compact(t testing.TB, m proto.Message) string {
	t.Helper()
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// inOrder encodes m with its fields in the order of their numbers. The generated code means the same but puts members of a oneof last.
func inOrder(t testing.TB, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := m.(*klinkv1.ClientFrame); ok {
		var c frame.Client
		if err := c.Decode(b); err != nil {
			t.Fatal(err)
		}
		b = appendClient(nil, &c)
	} else {
		var s frame.Server
		if err := s.Decode(b); err != nil {
			t.Fatal(err)
		}
		b = appendServer(nil, &s)
	}
	again := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(b, again); err != nil || !proto.Equal(again, m) {
		t.Fatalf("%x reads as %v (%v), want %v", b, again, err, m)
	}
	return b
}

func TestVectorsFile(t *testing.T) {
	want := vectors{Lengths: lengthTable, Refused: refusedTable}
	for _, f := range frameTable {
		from := "client"
		if _, ok := f.m.(*klinkv1.ServerFrame); ok {
			from = "server"
		}
		body := inOrder(t, f.m)
		want.Frames = append(want.Frames, vector{Name: f.name, From: from, Hex: hex.EncodeToString(body), JSON: compact(t, f.m), Note: f.note})
	}
	want.Variants = variantTable
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(&want); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(filepath.FromSlash(vectorsFile), b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(filepath.FromSlash(vectorsFile))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Error("testdata/vectors.json is not what the table says; run go test -run Vectors -update ./proto/frame")
	}
}

func TestVectorsFrames(t *testing.T) {
	var c frame.Client
	var s frame.Server
	for _, v := range readVectors(t).Frames {
		t.Run(v.From+"/"+v.Name, func(t *testing.T) {
			body := v.body(t)
			if v.From == "client" {
				if err := c.Decode(body); err != nil {
					t.Fatal(err)
				}
				if got := appendClient(nil, &c); !bytes.Equal(got, body) {
					t.Errorf("encoded: %x, want %x", got, body)
				}
				binary := clientProto(t, &c)
				if err := c.DecodeJSON([]byte(v.JSON)); err != nil {
					t.Fatal(err)
				}
				if got := clientProto(t, &c); !sameMeaning(got, binary) {
					t.Errorf("from JSON: %v, from binary: %v", got, binary)
				}
				return
			}
			if err := s.Decode(body); err != nil {
				t.Fatal(err)
			}
			if got := appendServer(nil, &s); !bytes.Equal(got, body) {
				t.Errorf("encoded: %x, want %x", got, body)
			}
			if got := string(frame.ServerJSON(body)); got != v.JSON {
				t.Errorf("JSON:\n got %s\nwant %s", got, v.JSON)
			}
		})
	}
}

func TestVectorsVariants(t *testing.T) {
	for _, v := range readVectors(t).Variants {
		t.Run(v.From+"/"+v.Name, func(t *testing.T) {
			var got, want, generated proto.Message
			if v.From == "client" {
				var c, j frame.Client
				if err := c.Decode(v.body(t)); err != nil {
					t.Fatal(err)
				}
				if err := j.DecodeJSON([]byte(v.JSON)); err != nil {
					t.Fatal(err)
				}
				got, want, generated = clientProto(t, &c), clientProto(t, &j), &klinkv1.ClientFrame{}
			} else {
				var s frame.Server
				if err := s.Decode(v.body(t)); err != nil {
					t.Fatal(err)
				}
				w := &klinkv1.ServerFrame{}
				if err := protojson.Unmarshal([]byte(v.JSON), w); err != nil {
					t.Fatal(err)
				}
				got, want, generated = serverProto(t, &s), w, &klinkv1.ServerFrame{}
			}
			if !sameMeaning(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			if err := proto.Unmarshal(v.body(t), generated); err != nil || !sameMeaning(generated, want) {
				t.Errorf("the generated code reads %v (%v), want %v", generated, err, want)
			}
		})
	}
}

func TestVectorsRefused(t *testing.T) {
	for _, v := range readVectors(t).Refused {
		t.Run(v.From+"/"+v.Name, func(t *testing.T) {
			if v.From == "client" {
				var c frame.Client
				if err := c.Decode(v.body(t)); err == nil {
					t.Errorf("taken as %v", c.Kind)
				}
				return
			}
			var s frame.Server
			if err := s.Decode(v.body(t)); err == nil {
				t.Errorf("taken as %v", s.Kind)
			}
			if got := string(frame.ServerJSON(v.body(t))); got != `{"error":{"code":"INTERNAL","text":"a frame of the server could not be read"}}` {
				t.Errorf("JSON: %s", got)
			}
		})
	}
}

func TestVectorsLengths(t *testing.T) {
	for _, v := range readVectors(t).Lengths {
		t.Run(v.Name, func(t *testing.T) {
			in, err := hex.DecodeString(v.Hex)
			if err != nil {
				t.Fatal(err)
			}
			n, hdr, err := frame.Length(in, v.Limit)
			if v.Error != "" {
				if err == nil || err.Error() != v.Error {
					t.Errorf("%d, %d, %v; want the error %q", n, hdr, err, v.Error)
				}
				return
			}
			if err != nil || n != v.Length || (hdr == 0) != (n < 0) || (hdr > 0 && hdr != len(in)) {
				t.Errorf("%d, %d, %v; want %d", n, hdr, err, v.Length)
			}
		})
	}
}

// Every kind of frame and every field of the protocol has to be in a vector.
func TestVectorsCoverTheProtocol(t *testing.T) {
	seen := make(map[protoreflect.FullName]bool)
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			seen[fd.FullName()] = true
			switch {
			case fd.Message() == nil:
			case fd.IsList():
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			default:
				walk(v.Message())
			}
			return true
		})
	}
	for _, f := range frameTable {
		walk(f.m.ProtoReflect())
	}
	var missing []string
	msgs := klinkv1.File_klink_v1_client_proto.Messages()
	for i := range msgs.Len() {
		fds := msgs.Get(i).Fields()
		for j := range fds.Len() {
			if name := fds.Get(j).FullName(); !seen[name] {
				missing = append(missing, string(name))
			}
		}
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		t.Errorf("no vector has %v", missing)
	}
}
