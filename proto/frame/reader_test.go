package frame_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klinkio/klink/proto/frame"
)

// stream is bodies of the given sizes, each filled with its own letter.
func stream(sizes ...int) []byte {
	var b []byte
	for i, n := range sizes {
		b = frame.AppendStream(b, bytes.Repeat([]byte{byte('a' + i)}, n))
	}
	return b
}

func TestReader(t *testing.T) {
	sizes := []int{0, 1, 127, 128, 4095, 4096, 4097, 0, 65536, 3, 20000, 65536, 0}
	in := stream(sizes...)
	readers := map[string]io.Reader{
		"at once":              bytes.NewReader(in),
		"byte by byte":         iotest.OneByteReader(bytes.NewReader(in)),
		"half":                 iotest.HalfReader(bytes.NewReader(in)),
		"data with the end":    iotest.DataErrReader(bytes.NewReader(in)),
		"end in empty reading": &stutter{r: bytes.NewReader(in)},
	}
	for name, src := range readers {
		t.Run(name, func(t *testing.T) {
			r := frame.NewReader(src, frame.MaxBody)
			for i, n := range sizes {
				body, err := r.Next()
				if err != nil || len(body) != n || strings.Trim(string(body), string(rune('a'+i))) != "" {
					t.Fatalf("body %d: %d bytes, %v; want %d", i, len(body), err, n)
				}
			}
			for range 2 {
				if body, err := r.Next(); !errors.Is(err, io.EOF) {
					t.Fatalf("after the end: %q, %v", body, err)
				}
			}
		})
	}
}

// stutter returns nothing every other time.
type stutter struct {
	r    io.Reader
	idle bool
}

func (s *stutter) Read(p []byte) (int, error) {
	if s.idle = !s.idle; s.idle {
		return 0, nil
	}
	return s.r.Read(p)
}

type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

func TestReaderErrors(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name  string
		r     io.Reader
		limit int
		check func(error) bool
	}{
		{"nothing", strings.NewReader(""), 10, func(err error) bool { return errors.Is(err, io.EOF) }},
		{"ends in a length", strings.NewReader("\x80"), 1000, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"ends in a body", strings.NewReader("\x03ab"), 10, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"too large", strings.NewReader("\x0bxxxxxxxxxxx"), 10, func(err error) bool {
			large, ok := errors.AsType[*frame.TooLarge](err)
			return ok && large.Size == 11 && large.Max == 10
		}},
		{"not minimal", strings.NewReader("\x80\x00"), 1000, func(err error) bool { return errors.Is(err, frame.ErrPrefix) }},
		{"broken", io.MultiReader(strings.NewReader("\x03ab"), iotest.ErrReader(broken)), 10, func(err error) bool { return errors.Is(err, broken) }},
		{"no progress", silent{}, 10, func(err error) bool { return errors.Is(err, io.ErrNoProgress) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := frame.NewReader(tt.r, tt.limit)
			for range 2 {
				if body, err := r.Next(); !tt.check(err) {
					t.Errorf("%q, %v", body, err)
				}
			}
		})
	}
}

// Frames that fit the buffer are read without allocating, and a large one does not make it grow beyond the limit.
func TestReaderBuffer(t *testing.T) {
	in := stream(100, 100, 100, 100)
	src := bytes.NewReader(in)
	r := frame.NewReader(&rewind{src, in}, frame.MaxBody)
	var s sink
	if n := testing.AllocsPerRun(1000, func() { s.b, s.err = r.Next() }); n != 0 || s.err != nil {
		t.Errorf("%v allocations, error %v", n, s.err)
	}
	const limit = 70000
	r = frame.NewReader(bytes.NewReader(stream(limit, 1, limit, limit-1)), limit)
	for range 4 {
		body, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if cap(body) != len(body) {
			t.Error("a body has room behind it")
		}
	}
	if got := frame.BufferOf(r); got > limit+5 {
		t.Errorf("the buffer has %d bytes for a limit of %d", got, limit)
	}
}

// rewind gives the same bytes for ever.
type rewind struct {
	r  *bytes.Reader
	in []byte
}

func (w *rewind) Read(p []byte) (int, error) {
	if w.r.Len() == 0 {
		w.r.Reset(w.in)
	}
	return w.r.Read(p)
}

func TestReaderOnSocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sizes := []int{0, 5, 65536, 1000, 0}
	sent := make(chan error, 1) // the test may end before it is read
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, err = c.Write(stream(sizes...))
			err = errors.Join(err, c.Close())
		}
		sent <- err
	}()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := frame.NewReader(c, frame.MaxBody)
	for _, n := range sizes {
		if body, err := r.Next(); err != nil || len(body) != n {
			t.Fatalf("%d bytes, %v; want %d", len(body), err, n)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(stream(0, 3, 200), uint8(1))
	f.Add([]byte("\x80\x00"), uint8(2))
	f.Add([]byte("\xff\xff\xff"), uint8(7))
	f.Fuzz(func(t *testing.T, in []byte, chunk uint8) {
		const limit = 300
		r := frame.NewReader(&chunks{in, int(chunk)%9 + 1}, limit)
		rest := in
		for {
			n, hdr, want := frame.Length(rest, limit)
			body, err := r.Next()
			switch {
			case want != nil:
				if err == nil || err.Error() != want.Error() {
					t.Fatalf("%x: %v, want %v", in, err, want)
				}
				return
			case hdr == 0 || len(rest) < hdr+n:
				if (len(rest) == 0) != errors.Is(err, io.EOF) || (len(rest) > 0) != errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatalf("%x: %v with %d bytes left", in, err, len(rest))
				}
				return
			case err != nil || !bytes.Equal(body, rest[hdr:hdr+n]):
				t.Fatalf("%x: %x, %v; want %x", in, body, err, rest[hdr:hdr+n])
			}
			rest = rest[hdr+n:]
		}
	})
}

// chunks reads n bytes at a time.
type chunks struct {
	in []byte
	n  int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.in[:min(c.n, len(c.in))])
	c.in = c.in[n:]
	return n, nil
}
