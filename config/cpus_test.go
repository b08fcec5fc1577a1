package config

import (
	"slices"
	"testing"
)

func TestCPUList(t *testing.T) {
	tests := []struct {
		in   string
		want []int
		bad  bool
	}{
		{in: ""},
		{in: "3", want: []int{3}},
		{in: "0-2, 8", want: []int{0, 1, 2, 8}},
		{in: "2-1", bad: true},
		{in: "-1", bad: true},
		{in: "a", bad: true},
		{in: "0-99999999", bad: true},
		{in: "0-1023,0-1023", bad: true},
	}
	for _, tc := range tests {
		r := Runtime{CPUs: tc.in}
		got, err := r.CPUList()
		if (err != nil) != tc.bad || !tc.bad && !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %v, %v, want %v, bad %v", tc.in, got, err, tc.want, tc.bad)
		}
	}
	if _, err := Parse("f", []byte("runtime: {cpus: x}")); err == nil {
		t.Error("a list that can't be read is valid")
	}
}
