package sdk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klinkio/klink"
)

// Install is what one install of an app keeps for as long as it lives.
type Install struct {
	Device  string `json:"device"`  // chosen once; empty: not yet
	Attempt uint64 `json:"attempt"` // of the last Connect; the server lets the higher one win
}

// Store keeps an [Install] between runs. One Client uses it at a time, from one goroutine at a time. Two running clients with one install
// would throw each other out.
type Store interface {
	// Load returns what was saved, or a zero Install.
	Load() (Install, error)

	// Save is called before every connect attempt.
	Save(in Install) error
}

// MemoryStore is a [Store] that forgets at the end of the process.
type MemoryStore struct {
	mu sync.Mutex
	in Install
}

// NewMemoryStore makes an install with the device id, or if that is empty with a new one. Attempts count from the time of the call in
// milliseconds, so that of two processes with one device id the later one wins.
func NewMemoryStore(device string) *MemoryStore {
	return &MemoryStore{in: Install{Device: device, Attempt: uint64(max(0, time.Now().UnixMilli()))}}
}

// Load implements [Store].
func (m *MemoryStore) Load() (Install, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.in, nil
}

// Save implements [Store].
func (m *MemoryStore) Save(in Install) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.in = in
	return nil
}

// FileStore is a [Store] in one small JSON file that only its owner can read. It is replaced as a whole: after a crash there is the old
// content or the new one. It is on disk before Save returns: an attempt that was forgotten would be superseded by the session it left.
type FileStore struct{ path string }

// maxInstall bounds the file in bytes.
const maxInstall = 4 << 10

// NewFileStore keeps the install at path. The directory must exist.
func NewFileStore(path string) *FileStore { return &FileStore{path: path} }

// Load implements [Store]. A file that does not exist is an empty install; one that can't be read as an install is an error, since a
// new device id in its place would lose the old one.
func (f *FileStore) Load() (Install, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return Install{}, nil
	}
	if err != nil {
		return Install{}, fmt.Errorf("read install: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxInstall+1))
	if err != nil {
		return Install{}, fmt.Errorf("read install: %w", err)
	}
	if len(text) > maxInstall {
		return Install{}, fmt.Errorf("read install: %s is larger than %d bytes", f.path, maxInstall)
	}
	var in Install
	if err := json.Unmarshal(text, &in); err != nil {
		return Install{}, fmt.Errorf("read install %s: %w", f.path, err)
	}
	if err := klink.CheckID("device", in.Device, klink.MaxDeviceLen); err != nil {
		return Install{}, fmt.Errorf("read install %s: %w", f.path, err)
	}
	return in, nil
}

// Save implements [Store].
func (f *FileStore) Save(in Install) error {
	text, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("save install: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".*") // mode 0600
	if err != nil {
		return fmt.Errorf("save install: %w", err)
	}
	_, err = tmp.Write(append(text, '\n'))
	if err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), f.path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the first error is the one to tell
		return fmt.Errorf("save install: %w", err)
	}
	if dir, err := os.Open(filepath.Dir(f.path)); err == nil {
		_ = dir.Sync() // makes the rename last; not every system offers it
		_ = dir.Close()
	}
	return nil
}
