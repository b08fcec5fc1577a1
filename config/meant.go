package config

import (
	"strings"
)

// meant proposes the key whose spelling is nearest to a wrong one.
func meant(path string, keys map[string]*Key) string {
	best, dist := "", 4
	for p := range keys {
		d := distance(path, p)
		if last := p[strings.LastIndexByte(p, '.')+1:]; last == path[strings.LastIndexByte(path, '.')+1:] {
			d = min(d, 3) // the right name in the wrong place
		}
		if d < dist || (d == dist && p < best) {
			best, dist = p, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		prev := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			prev, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, prev+cost)
		}
	}
	return row[len(b)]
}
