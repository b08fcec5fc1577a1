// Package tagindex is the index of tags, as plain data structures without I/O.
package tagindex
