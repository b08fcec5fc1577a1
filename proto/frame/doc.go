// Package frame reads and writes klink/1 frames.
package frame
