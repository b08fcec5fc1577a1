package sdk

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestFileStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "install.json")
	s := NewFileStore(path)
	if in, err := s.Load(); err != nil || in != (Install{}) {
		t.Errorf("nothing saved: got %+v, %v", in, err)
	}
	for want := range uint64(3) {
		in := Install{Device: "phone", Attempt: want}
		if err := s.Save(in); err != nil {
			t.Fatal(err)
		}
		if got, err := NewFileStore(path).Load(); err != nil || got != in {
			t.Errorf("got %+v, %v, want %+v", got, err, in)
		}
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(files) != 1 {
		t.Errorf("left behind %v, %v", files, err)
	}
}

// What can't be read must not be replaced by a new device.
func TestFileStoreRefusesWhatItDoesNotKnow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "install.json")
	for name, text := range map[string]string{
		"empty": "", "no JSON": "phone", "no device": `{"attempt":1}`, "control character": `{"device":"a\u0000"}`,
		"negative": `{"device":"a","attempt":-1}`, "large": `{"device":"a"}` + strings.Repeat(" ", maxInstall),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if in, err := NewFileStore(path).Load(); err == nil {
			t.Errorf("%s: loaded %+v", name, in)
		}
		if _, err := New(Config{Endpoints: []string{"tcp://a:1"}, Token: staticToken, Store: NewFileStore(path)}); err == nil {
			t.Errorf("%s: a client began as a new install", name)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s: changed to %q, %v", name, got, err)
		}
	}
}

// Readers see a whole file at any moment.
func TestFileStoreIsReplacedAsAWhole(t *testing.T) {
	s := NewFileStore(filepath.Join(t.TempDir(), "install.json"))
	if err := s.Save(Install{Device: "phone"}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for last := uint64(0); ; {
			in, err := s.Load()
			if err != nil || in.Attempt < last {
				t.Errorf("got %+v, %v after attempt %d", in, err, last)
				return
			}
			last = in.Attempt
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for i := range uint64(100) {
		if err := s.Save(Install{Device: "phone", Attempt: i * 1e9}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Endpoints: []string{"tls://h:1"}, Token: staticToken}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(c *Config){
		"no endpoint":     func(c *Config) { c.Endpoints = nil },
		"bad endpoint":    func(c *Config) { c.Endpoints = append(c.Endpoints, "http://h:1") },
		"no token":        func(c *Config) { c.Token = nil },
		"bad tag":         func(c *Config) { c.Tags = []string{""} },
		"bad device":      func(c *Config) { c.Store = NewMemoryStore(strings.Repeat("d", 129)) },
		"bad platform":    func(c *Config) { c.Platform = "\x00" },
		"bad app version": func(c *Config) { c.AppVersion = strings.Repeat("1", 200) },
		"negative":        func(c *Config) { c.MaxFrame = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
