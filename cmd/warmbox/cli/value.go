package cli

import (
	"encoding"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// set parses a setting's value: from a flag, the environment, or its default.
func set(to any, text string) (err error) {
	switch p := to.(type) {
	case *string:
		*p = text
	case *[]string:
		*p = list(text)
	case *bool:
		if *p, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is not true or false", text)
		}
	case *int:
		*p, err = strconv.Atoi(text)
	case *int64:
		*p, err = strconv.ParseInt(text, 10, 64)
	case *float64:
		*p, err = strconv.ParseFloat(text, 64)
	case *map[string]string, *map[string][]string, *[]mountSetting:
		return fmt.Errorf("%q is not a table; set it in the configuration file", text)
	case encoding.TextUnmarshaler:
		return p.UnmarshalText([]byte(text))
	default:
		panic(fmt.Sprintf("a setting of type %T", to))
	}
	if err != nil {
		return fmt.Errorf("%q is not a valid number", text)
	}
	return nil
}

// list splits "go test, ls" at its commas. Empty items are ignored.
func list(text string) []string {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// placeholder returns what represents a value in the help.
func placeholder(to any) string {
	switch to.(type) {
	case *bool:
		return ""
	case *duration:
		return "DURATION"
	case *size:
		return "SIZE"
	case *[]string:
		return "LIST"
	}
	return "N"
}

// A duration is written "45s" or "1h30m". A number without a unit is refused: some
// programs read it as seconds and others as milliseconds.
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration; write it with its unit, like 45s, 10m or 1h30m", text)
	}
	*d = duration(v)
	return nil
}

// A size is a number of bytes, written "64MB", "1g" or "512 MiB". A unit is
// 1024 of the one below it, as in the engine's own options.
type size int64

func (s *size) UnmarshalText(text []byte) error {
	written := strings.ToLower(strings.TrimSpace(string(text)))
	unit := strings.TrimLeft(written, "0123456789.")
	v, err := strconv.ParseFloat(written[:len(written)-len(unit)], 64)
	shift, known := unitShift(strings.TrimSpace(unit))
	v *= float64(int64(1) << shift)
	if !known || err != nil || v >= math.MaxInt64 {
		return fmt.Errorf("%q is not a size; write it like 512m, 2g or 64MB", text)
	}
	*s = size(v)
	return nil
}

func unitShift(unit string) (shift int, known bool) {
	switch unit {
	case "", "b":
		return 0, true
	case "k", "kb", "kib":
		return 10, true
	case "m", "mb", "mib":
		return 20, true
	case "g", "gb", "gib":
		return 30, true
	case "t", "tb", "tib":
		return 40, true
	}
	return 0, false
}

// String writes a size in the largest unit of which it is a multiple.
func (s size) String() string {
	unit := 0
	for s != 0 && s%1024 == 0 && unit < 4 {
		s, unit = s/1024, unit+1
	}
	return strconv.FormatInt(int64(s), 10) + [...]string{"", "k", "m", "g", "t"}[unit]
}
