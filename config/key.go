package config

import (
	"bytes"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Key is one entry of the configuration.
type Key struct {
	Path    string // fe.listen; also the flag's name
	Env     string // KLINK_FE_LISTEN
	Doc     string
	Default string // as it is written in YAML
	Type    string // for help: string, int, bool, duration, size, list
	Reload  bool   // SIGHUP takes a change
	Secret  bool

	index    []int
	min, max string
	oneof    []string
}

// Keys is the table of all keys, in the order of the default file.
func Keys() []Key { return walk(reflect.TypeFor[Config](), "", nil) }

func walk(t reflect.Type, prefix string, index []int) []Key {
	var keys []Key
	for i := range t.NumField() {
		f := t.Field(i)
		path := prefix + f.Tag.Get("yaml")
		at := append(slices.Clone(index), i)
		if _, leaf := f.Tag.Lookup("doc"); !leaf {
			keys = append(keys, walk(f.Type, path+".", at)...)
			continue
		}
		k := Key{
			Path: path, Env: "KLINK_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_")), Doc: f.Tag.Get("doc"),
			Default: f.Tag.Get("def"), Type: typeName(f.Type), Reload: f.Tag.Get("reload") == "true", Secret: f.Tag.Get("secret") == "true",
			index: at, min: f.Tag.Get("min"), max: f.Tag.Get("max"),
		}
		if o := f.Tag.Get("oneof"); o != "" {
			k.oneof = strings.Split(o, ",")
		}
		keys = append(keys, k)
	}
	return keys
}

func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[Duration]():
		return "duration"
	case t == reflect.TypeFor[Size]():
		return "size"
	case t.Kind() == reflect.Slice:
		return "list"
	case t.Kind() == reflect.Float64:
		return "number"
	default:
		return t.Kind().String()
	}
}

func (k *Key) field(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.index) }

// set gives the key a value as it is written in a flag, a variable or the default.
func (k *Key) set(c *Config, text string) error {
	f := k.field(c)
	if u, ok := f.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch f.Kind() {
	case reflect.String:
		f.SetString(text)
	case reflect.Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
		f.SetBool(v)
	case reflect.Int:
		v, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
		f.SetInt(int64(v))
	case reflect.Float64:
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		f.SetFloat(v)
	case reflect.Slice:
		return k.setList(f, text)
	default:
		panic("config: no way to set a " + f.Kind().String()) // the table's own fault, met by the first test
	}
	return nil
}

// setList reads YAML; a list of strings may also be written with commas.
func (k *Key) setList(f reflect.Value, text string) error {
	if f.Type().Elem().Kind() == reflect.String && !strings.HasPrefix(strings.TrimSpace(text), "[") {
		f.SetZero()
		for s := range strings.SplitSeq(text, ",") {
			if s = strings.TrimSpace(s); s != "" {
				f.Set(reflect.Append(f, reflect.ValueOf(s)))
			}
		}
		return nil
	}
	return decodeList(f, []byte(text))
}

// decodeList replaces the list by what the YAML says; a field that its records do not have is an error.
func decodeList(f reflect.Value, text []byte) error {
	f.SetZero()
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(f.Addr().Interface()); err != nil {
		return fmt.Errorf("not such a list: %w", err)
	}
	return nil
}

// check holds the value against the table's bounds.
func (k *Key) check(c *Config) error {
	f := k.field(c)
	if k.oneof != nil && !slices.Contains(k.oneof, f.String()) {
		return fmt.Errorf("%s: %q is not one of %s", k.Path, f.String(), strings.Join(k.oneof, ", "))
	}
	var v float64
	switch f.Kind() {
	case reflect.Int:
		v = float64(f.Int())
	case reflect.Float64:
		v = f.Float()
	default:
		return nil
	}
	if lo, err := strconv.ParseFloat(k.min, 64); err == nil && v < lo {
		return fmt.Errorf("%s: %v is below %s", k.Path, v, k.min)
	}
	if hi, err := strconv.ParseFloat(k.max, 64); err == nil && v > hi {
		return fmt.Errorf("%s: %v is above %s", k.Path, v, k.max)
	}
	return nil
}

// text is the value as the file would say it.
func (k *Key) text(c *Config) string {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	var n yaml.Node
	if err := n.Encode(k.field(c).Interface()); err != nil {
		return "?"
	}
	n.Style = yaml.FlowStyle
	if err := enc.Encode(&n); err != nil {
		return "?"
	}
	return strings.TrimSpace(b.String())
}

// Equal reports whether two configurations say the same for the key.
func (k *Key) Equal(a, b *Config) bool {
	return reflect.DeepEqual(k.field(a).Interface(), k.field(b).Interface())
}

// Copy gives the key the value that another configuration has, sharing its lists.
func (k *Key) Copy(to, from *Config) { k.field(to).Set(k.field(from)) }
