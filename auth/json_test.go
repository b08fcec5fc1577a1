package auth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// members reads an object with encoding/json: the names in their order, and the text of the values. ok: it is one object.
func members(s string) (names []string, values map[string]json.RawMessage, ok bool) {
	if !json.Valid([]byte(s)) || json.Unmarshal([]byte(s), &values) != nil || values == nil {
		return nil, nil, false
	}
	dec := json.NewDecoder(strings.NewReader(s))
	for depth := 0; ; {
		isName := depth == 1
		tok, err := dec.Token()
		if err != nil {
			return names, values, true
		}
		switch tok := tok.(type) {
		case json.Delim:
			if tok == '{' || tok == '[' {
				depth++
			} else {
				depth--
			}
		case string:
			if !isName {
				break
			}
			names = append(names, tok)
			var skip json.RawMessage
			if dec.Decode(&skip) != nil {
				return nil, nil, false
			}
		}
	}
}

// The scanner reads exactly the objects that encoding/json reads, and the same in them, but for what it says that it refuses.
func FuzzScanner(f *testing.F) {
	f.Add(`{"sub":"a","exp":1,"tags":["x"],"aud":["a","b"],"join":[],"n":{"a":[1,2,{"b":null}]}}`)
	f.Add(`{"sub":"\u00e4\"\\","exp":1.5e3}`)
	f.Add(` { } `)
	f.Add(`{"a":1"x"}`)
	f.Add(`{"a":tru,"b":-}`)
	f.Add(`{"a":"\ud83d\ude00","b":"\ud800"}`)
	f.Add(`{"a":1,"\u0061":2}`)
	f.Add("{\"a\":\"\xff\"}")
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, s string) {
		var names []string
		got := make(map[string][]byte)
		sc := scanner{b: []byte(s)}
		err := sc.object(func(name, value []byte) error {
			names = append(names, string(name))
			got[string(name)] = value
			return nil
		})
		wantNames, want, ok := members(s)
		if err != nil {
			lower := strings.ToLower(s)
			distinct := slices.Compact(slices.Sorted(slices.Values(wantNames)))
			stricter := !utf8.ValidString(s) || strings.Contains(lower, `\ud`) || strings.Contains(lower, `\ufffd`) ||
				strings.Contains(s, "\ufffd") && strings.Contains(s, `\`) || len(distinct) < len(wantNames) || len(wantNames) > maxMembers
			if ok && !stricter {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		if !ok {
			t.Fatal("accepted what is not one JSON object")
		}
		if !slices.Equal(names, wantNames) {
			t.Fatalf("names %q, want %q", names, wantNames)
		}
		for name, value := range want {
			if !bytes.Equal(got[name], value) {
				t.Fatalf("%q is %q, want %q", name, got[name], value)
			}
		}
	})
}

// The readers of values agree with encoding/json.
func FuzzValues(f *testing.F) {
	f.Add(`["a","\u0062",""]`)
	f.Add(`"a"`)
	f.Add(`12.5`)
	f.Add(`1800000000`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, s string) {
		v := []byte(s)
		if !json.Valid(v) || s != strings.TrimSpace(s) {
			return // values come from the scanner, which has seen to that
		}
		if list, err := textsOf(v, false); err == nil {
			var want []string
			if err := json.Unmarshal(v, &want); err != nil || !slices.Equal(list, want) {
				t.Fatalf("list %q, want %q, %v", list, want, err)
			}
		}
		if text, err := textOf(v); err == nil {
			var want string
			if err := json.Unmarshal(v, &want); err != nil || string(text) != want {
				t.Fatalf("text %q, want %q, %v", text, want, err)
			}
		}
		if date, err := dateOf(v); err == nil {
			var want float64
			if err := json.Unmarshal(v, &want); err != nil || date != want {
				t.Fatalf("date %v, want %v, %v", date, want, err)
			}
		}
	})
}

func TestObjectIsBounded(t *testing.T) {
	object := func(n int) []byte {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(`"m%d":%d`, i, i))
		}
		return []byte("{" + strings.Join(parts, ",") + "}")
	}
	for n, want := range map[int]error{0: nil, maxMembers: nil, maxMembers + 1: errJSON, 1000: errJSON} {
		s := scanner{b: object(n)}
		if err := s.object(func(_, _ []byte) error { return nil }); err != want {
			t.Errorf("%d members: %v, want %v", n, err, want)
		}
	}
}

func TestStrictText(t *testing.T) {
	for in, want := range map[string]string{
		`"a"`: "a", `"\u00e4"`: "ä", `"\ud83d\ude00"`: "😀", "\"\ufffd\"": "\ufffd",
		`"\ud800"`: "", `"\ud800x"`: "", `"\ude00\ud83d"`: "", `"\ufffd"`: "", "\"\xff\"": "", "\"\xff\\n\"": "", "\"\n\"": "", `"`: "", `"\`: "", `"\"`: "", `"\x"`: "", `"a"b`: "", ``: "",
	} {
		got, err := textOf([]byte(in))
		if (err != nil) != (want == "") || string(got) != want && err == nil {
			t.Errorf("%q reads as %q, %v, want %q", in, got, err, want)
		}
	}
}
