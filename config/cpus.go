package config

import (
	"fmt"
	"strconv"
	"strings"
)

// maxCPU bounds the numbers of cores, as the kernel's masks do.
const maxCPU = 1023

// CPUList is the cores that cpus names, like 0-3,8, in its order.
func (r *Runtime) CPUList() ([]int, error) {
	var list []int
	for part := range strings.SplitSeq(r.CPUs, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || lo < 0 || hi < lo || hi > maxCPU {
			return nil, fmt.Errorf("%q is not a core or a range such as 0-3, up to %d", part, maxCPU)
		}
		for n := lo; n <= hi; n++ {
			list = append(list, n)
		}
		if len(list) > maxCPU+1 {
			return nil, fmt.Errorf("%q names more than %d cores", r.CPUs, maxCPU+1)
		}
	}
	return list, nil
}
