package serve

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/server/auth"
)

// Option is one setting: how it is named and explained, and where Settings keeps it.
type Option struct {
	// Name is the flag without dashes and the key in the config file; the environment variable is derived from it.
	Name     string
	Fallback string // the value where none is given; see defaultDataDir for --data-dir
	Usage    string
	field    reflect.StructField // Index begins at Settings
}

// Options are the settings of `coordd serve`, in the order of its help; ClusterOptions are those of a cluster.
var (
	Options        = optionsOf(reflect.TypeFor[Settings](), nil)
	ClusterOptions = slices.DeleteFunc(slices.Clone(Options), func(o Option) bool {
		return reflect.TypeFor[Settings]().Field(o.field.Index[0]).Name != "Cluster"
	})
)

// optionsOf lists the settings among the fields of a struct that stands at an index of Settings.
func optionsOf(of reflect.Type, at []int) (options []Option) {
	for i := range of.NumField() {
		field := of.Field(i)
		field.Index = append(slices.Clone(at), i)
		if name, named := field.Tag.Lookup("name"); named {
			options = append(options, Option{name, field.Tag.Get("default"), usages[name], field})
		} else {
			options = append(options, optionsOf(field.Type, field.Index)...)
		}
	}
	return options
}

// OptionsNamed returns the settings of `coordd serve` with these names.
func OptionsNamed(names ...string) []Option {
	var found []Option
	for _, name := range names {
		at := slices.IndexFunc(Options, func(o Option) bool { return o.Name == name })
		found = append(found, Options[at])
	}
	return found
}

// Each calls do for each setting of type T that has a value, in the order of Options.
func Each[T ~string](s Settings, do func(name string, value T)) {
	for _, o := range Options {
		if value, ok := reflect.ValueOf(s).FieldByIndex(o.field.Index).Interface().(T); ok && value != "" {
			do(o.Name, value)
		}
	}
}

// isSwitch reports whether a flag without a value sets the setting.
func (o Option) isSwitch() bool { return o.field.Type == reflect.TypeFor[bool]() }

// placeholder stands for the value in help texts.
func (o Option) placeholder() string {
	if o.isSwitch() {
		return "bool"
	}
	return cmp.Or(o.field.Tag.Get("value"), strings.ReplaceAll(o.field.Tag.Get("words"), ",", "|"))
}

// Set checks a value and stores it. Its error lists the allowed values.
func (o Option) Set(s *Settings, value string) error {
	words := strings.Split(o.field.Tag.Get("words"), ",")
	if last := len(words) - 1; last > 0 && !slices.Contains(words, value) {
		return fmt.Errorf("want %s or %s", strings.Join(words[:last], ", "), words[last])
	}
	switch to := reflect.ValueOf(s).Elem().FieldByIndex(o.field.Index).Addr().Interface().(type) {
	case *Listener:
		return to.set(o.field.Tag, value)
	case *string:
		*to = value
	case *bool:
		return setBool(to, value)
	case *int:
		return setCount(to, value)
	case *time.Duration:
		return setLifetime(to, value)
	case *slog.Level:
		return to.UnmarshalText([]byte(value))
	case encoding.TextUnmarshaler:
		return to.UnmarshalText([]byte(value))
	}
	return nil
}

func setBool(to *bool, value string) error {
	switch value {
	case "true", "1", "false", "0":
		*to = value == "true" || value == "1"
		return nil
	}
	return errors.New("want true or false")
}

// maxCount is the largest number that may be set for a limit.
const maxCount = 1 << 30

func setCount(to *int, value string) error {
	number, err := strconv.Atoi(value)
	if err != nil || number < 1 || number > maxCount {
		return fmt.Errorf("want a number from 1 to %d", maxCount)
	}
	*to = number
	return nil
}

func setLifetime(to *time.Duration, value string) error {
	lifetime, err := time.ParseDuration(value)
	if err != nil || lifetime < auth.MinLoginLifetime || lifetime > auth.MaxLoginLifetime {
		return fmt.Errorf("want a time from %s to %s, such as 90m or 12h",
			DurationText(auth.MinLoginLifetime), DurationText(auth.MaxLoginLifetime))
	}
	*to = lifetime
	return nil
}

// DurationText writes a duration without the zeros that Go's own form ends with.
func DurationText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
