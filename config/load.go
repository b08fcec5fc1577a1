package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Source says where a value came from.
type Source string

// The sources, lowest first.
const (
	FromDefault Source = "default"
	FromFile    Source = "file"
	FromEnv     Source = "env"
	FromFlag    Source = "flag"
)

// Loaded is a configuration with the source of each value, by path.
type Loaded struct {
	Config  Config
	Sources map[string]Source
}

// Load reads the configuration: file (empty: none), environment as of os.Environ, flags by path. The error names every key
// that is wrong, with its line in the file.
func Load(file string, environ []string, flags map[string]string) (*Loaded, error) {
	var text []byte
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
	}
	return load(file, text, environ, flags)
}

// Parse reads a file's text over the defaults, without environment and flags.
func Parse(name string, text []byte) (*Loaded, error) { return load(name, text, nil, nil) }

func load(name string, text []byte, environ []string, flags map[string]string) (*Loaded, error) {
	l := &Loaded{Sources: make(map[string]Source)}
	keys := Keys()
	for i := range keys {
		if err := keys[i].set(&l.Config, keys[i].Default); err != nil {
			return nil, fmt.Errorf("default of %s: %w", keys[i].Path, err)
		}
		l.Sources[keys[i].Path] = FromDefault
	}
	errs := l.file(name, text, keys)
	errs = append(errs, l.env(environ, keys)...)
	errs = append(errs, l.flags(flags, keys)...)
	for i := range keys {
		if err := keys[i].check(&l.Config); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		errs = append(errs, l.Config.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Loaded) file(name string, text []byte, keys []Key) (errs []error) {
	var doc yaml.Node
	dec := yaml.NewDecoder(strings.NewReader(string(text)))
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // nothing but comments
		}
		return []error{fmt.Errorf("%s: %w", name, err)}
	}
	if dec.Decode(new(yaml.Node)) == nil {
		return []error{fmt.Errorf("%s: more than one document", name)}
	}
	byPath := make(map[string]*Key, len(keys))
	for i := range keys {
		byPath[keys[i].Path] = &keys[i]
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil
	}
	return l.mapping(name, doc.Content[0], "", byPath)
}

// mapping takes one level of the file.
func (l *Loaded) mapping(name string, n *yaml.Node, prefix string, keys map[string]*Key) (errs []error) {
	if n.Kind != yaml.MappingNode {
		return []error{fmt.Errorf("%s:%d: %s must hold keys", name, n.Line, or(strings.TrimSuffix(prefix, "."), "the file"))}
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		at, val := n.Content[i], n.Content[i+1]
		path := prefix + at.Value
		if seen[path] {
			errs = append(errs, fmt.Errorf("%s:%d: %s is there twice", name, at.Line, path))
			continue
		}
		seen[path] = true
		k, leaf := keys[path]
		switch {
		case leaf:
			if err := k.decode(&l.Config, val); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %s: %w", name, val.Line, path, err))
			}
			l.Sources[path] = FromFile
		case isSection(path, keys):
			errs = append(errs, l.mapping(name, val, path+".", keys)...)
		default:
			errs = append(errs, fmt.Errorf("%s:%d: unknown key %s%s", name, at.Line, path, meant(path, keys)))
		}
	}
	return errs
}

func (k *Key) decode(c *Config, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" && k.Type != "list" {
		return k.set(c, n.Value)
	}
	if k.Type != "list" {
		return fmt.Errorf("want a %s", k.Type)
	}
	if n.Kind != yaml.SequenceNode {
		return errors.New("want a list")
	}
	// Through text, because only the decoder of text refuses unknown fields.
	b, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	return decodeList(k.field(c), b)
}

func (l *Loaded) env(environ []string, keys []Key) (errs []error) {
	byEnv := make(map[string]*Key, len(keys))
	for i := range keys {
		byEnv[keys[i].Env] = &keys[i]
	}
	for _, e := range environ {
		name, val, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "KLINK_") {
			continue
		}
		k, ok := byEnv[name]
		if !ok {
			if !notKeys[name] {
				errs = append(errs, fmt.Errorf("environment: unknown variable %s", name))
			}
			continue
		}
		if err := k.set(&l.Config, val); err != nil {
			errs = append(errs, fmt.Errorf("environment: %s: %w", name, err))
		}
		l.Sources[k.Path] = FromEnv
	}
	return errs
}

// notKeys are variables of the commands, not of the configuration.
var notKeys = map[string]bool{"KLINK_ADDR": true, "KLINK_API": true, "KLINK_API_KEY": true, "KLINK_TOKEN": true, "KLINK_CONFIG": true}

func (l *Loaded) flags(flags map[string]string, keys []Key) (errs []error) {
	for i := range keys {
		k := &keys[i]
		val, ok := flags[k.Path]
		if !ok {
			continue
		}
		if err := k.set(&l.Config, val); err != nil {
			errs = append(errs, fmt.Errorf("flag --%s: %w", k.Path, err))
		}
		l.Sources[k.Path] = FromFlag
	}
	return errs
}

func isSection(path string, keys map[string]*Key) bool {
	for p := range keys {
		if strings.HasPrefix(p, path+".") {
			return true
		}
	}
	return false
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
