package wsframe

import "unicode/utf8"

// text is the UTF-8 check of one text message across its fragments: the bytes of a rune that the last fragment cut.
type text struct {
	cut  uint8 // bytes in pend, 0 to 3
	pend [3]byte
}

// add checks the next fragment and reports whether the message may still be UTF-8, after the last fragment whether it is. What can't
// become valid any more is found in the fragment that it stands in, even when the rune is cut.
func (t *text) add(p []byte, last bool) bool {
	if t.cut > 0 {
		var ok bool
		if p, ok = t.finish(p); !ok {
			return false
		}
	}
	if last {
		return t.cut == 0 && utf8.Valid(p)
	}
	return utf8.Valid(t.keep(p))
}

// finish completes the cut rune with the first bytes of p, as far as they go, and returns the rest of p: none when the rune is still cut.
func (t *text) finish(p []byte) (rest []byte, ok bool) {
	var buf [utf8.UTFMax]byte
	n := copy(buf[:], t.pend[:t.cut])
	for len(p) > 0 && !utf8.FullRune(buf[:n]) {
		buf[n] = p[0]
		n++
		p = p[1:]
	}
	if !utf8.FullRune(buf[:n]) {
		t.cut = uint8(copy(t.pend[:], buf[:n]))
		return nil, true
	}
	t.cut = 0
	_, size := utf8.DecodeRune(buf[:n]) // of a malformed rune it is 1, and n is at least 2
	return p, size == n
}

// keep puts aside a rune that the end of p cuts and returns p without it.
func (t *text) keep(p []byte) []byte {
	for back := 1; back <= min(len(t.pend), len(p)); back++ {
		tail := p[len(p)-back:]
		if !utf8.RuneStart(tail[0]) {
			continue
		}
		if !utf8.FullRune(tail) {
			t.cut = uint8(copy(t.pend[:], tail))
			return p[:len(p)-back]
		}
		break
	}
	return p
}
