package crux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
)

// A journal file is a header and frames. A frame is one batch of entries: magic, length of the entries, CRC, entries.
// The CRC covers the file's generation and the frame's offset too, so bytes of another file or place never pass.
// A frame is on disk before the next one is written: so at most the last frame can be unfinished, and a broken frame
// with a good one behind it is damage.
const (
	headerMagic = "klink crux v1\x00\r\n"
	headerBytes = len(headerMagic) + 8 + 4
	frameMagic  = 0x00c7b10f // no text contains it: it has a zero byte
	frameHead   = 12
	batchBytes  = 256 << 10 // a batch takes no further entry above this
	maxFrame    = 512 << 10 // a batch and the largest entry (256 tags of 128 bytes) are below
)

// CorruptError says that a file of the store is damaged in a way that no interrupted write explains.
type CorruptError struct {
	File   string
	Offset int64
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("crux: %s is damaged at offset %d: %s", e.File, e.Offset, e.Reason)
}

func appendHeader(dst []byte, gen uint64) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, headerMagic...), gen)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst, crc32.MakeTable(crc32.Castagnoli)))
}

func frameSum(gen uint64, offset int64, entries []byte) uint32 {
	var place [16]byte
	binary.LittleEndian.PutUint64(place[:8], gen)
	binary.LittleEndian.PutUint64(place[8:], uint64(offset))
	t := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(place[:], t), t, entries)
}

// sealFrame fills in the head of a frame whose entries follow frameHead bytes of room.
func sealFrame(frame []byte, gen uint64, offset int64) {
	entries := frame[frameHead:]
	binary.LittleEndian.PutUint32(frame, frameMagic)
	binary.LittleEndian.PutUint32(frame[4:], uint32(len(entries)))
	binary.LittleEndian.PutUint32(frame[8:], frameSum(gen, offset, entries))
}

// frameAt is the entries of the frame at offset of a file's bytes, or nil and why it is none.
func frameAt(data []byte, gen uint64, offset int64) (entries []byte, reason string) {
	p := data[offset:]
	if len(p) < frameHead {
		return nil, "frame head is cut short"
	}
	if binary.LittleEndian.Uint32(p) != frameMagic {
		return nil, "no frame begins here"
	}
	n := int64(binary.LittleEndian.Uint32(p[4:]))
	switch {
	case n == 0 || n > maxFrame:
		return nil, "frame length is out of range"
	case n > int64(len(p)-frameHead):
		return nil, "frame is cut short"
	}
	entries = p[frameHead : frameHead+n]
	if frameSum(gen, offset, entries) != binary.LittleEndian.Uint32(p[8:]) {
		return nil, "checksum mismatch"
	}
	return entries, ""
}

// readFrames gives the entries of a file's bytes to apply, in order. It returns where the last good frame ends. What
// follows is an unfinished write if torn is true; else there is nothing, or the error.
func readFrames(name string, data []byte, gen uint64, apply func(*entry) error) (end int64, torn bool, err error) {
	if head := appendHeader(nil, gen); len(data) < len(head) || string(data[:len(head)]) != string(head) {
		return 0, false, &CorruptError{name, 0, "file header is not that of generation " + strconv.FormatUint(gen, 10)}
	}
	end = int64(headerBytes)
	for end < int64(len(data)) {
		entries, reason := frameAt(data, gen, end)
		if reason != "" {
			if unfinished(data, gen, end) {
				return end, true, nil
			}
			return end, false, &CorruptError{name, end, reason}
		}
		next := end + frameHead + int64(len(entries))
		for len(entries) > 0 {
			var e entry
			if e, entries, err = readEntry(entries); err == nil {
				err = apply(&e)
			}
			if err != nil {
				return end, false, &CorruptError{name, end, err.Error()}
			}
		}
		end = next
	}
	return end, false, nil
}

// unfinished reports whether the bad bytes from offset on can be one interrupted write: there are not more than one
// frame has, and no good frame comes after.
func unfinished(data []byte, gen uint64, offset int64) bool {
	if int64(len(data))-offset > frameHead+maxFrame {
		return false
	}
	for o := offset + 1; o < int64(len(data)); o++ {
		if _, reason := frameAt(data, gen, o); reason == "" {
			return false
		}
	}
	return true
}

// newFile makes a file with only a header, on disk.
func newFile(path string, gen uint64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(appendHeader(nil, gen), 0); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}
