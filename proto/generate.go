//go:build generate

// This file only carries the command of go generate ./proto; no build includes it.

package proto

//go:generate ./generate.sh
