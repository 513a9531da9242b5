package cli

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// A misfit is a value in the file that has another type than its setting.
type misfit struct {
	key  toml.Key
	want string // "a whole number such as 16"
	has  string // "text"
}

// sentence says what the type must be. It does not repeat the value, which may be a secret.
func (m *misfit) sentence() string { return fmt.Sprintf("%s must be %s, not %s", m.key, m.want, m.has) }

// checkTypes compares the type of each value in the file with that of its setting. The decoder
// ignores any value for a table that is not one, and names types of Go in its errors.
func (s *settings) checkTypes(file map[string]any) *misfit {
	for _, s := range s.table() {
		key := toml.Key(strings.Split(s.key, "."))
		value, given, bad := lookup(file, key)
		if bad == nil && given {
			bad = s.checkType(key, reflect.TypeOf(s.to).Elem(), value)
		}
		if bad != nil {
			return bad
		}
	}
	return nil
}

// lookup returns the value of a key, or the misfit that a section is.
func lookup(file map[string]any, key toml.Key) (value any, given bool, bad *misfit) {
	section := file
	if len(key) == 2 {
		value, given = file[key[0]]
		if section, _ = value.(map[string]any); given && section == nil {
			return nil, false, &misfit{key[:1], fmt.Sprintf("a section, headed [%s] on a line of its own", key[0]), typeName(value)}
		}
	}
	value, given = section[key[len(key)-1]]
	return value, given, nil
}

// checkType compares a value with the type of a setting or of a part of it.
func (s setting) checkType(key toml.Key, t reflect.Type, value any) *misfit {
	bad := &misfit{key, s.wanted(key, t), typeName(value)}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		if value = scalar(value); value == nil {
			return bad
		}
		return nil // which says itself what it does not accept
	}
	switch t.Kind() {
	case reflect.Map:
		table, ok := value.(map[string]any)
		if !ok {
			return bad
		}
		return s.checkTable(key, table, func(string) reflect.Type { return t.Elem() })
	case reflect.Slice:
		return s.checkItems(bad, t.Elem(), value)
	case reflect.Float64:
		if _, whole := value.(int64); whole {
			return nil
		}
	}
	if value == nil || reflect.TypeOf(value).Kind() != t.Kind() && !(t.Kind() == reflect.Int && bad.has == typeName(int64(0))) {
		return bad
	}
	return nil
}

// checkTable compares the values of a table with the types of its keys, nil for an unknown key.
func (s setting) checkTable(key toml.Key, table map[string]any, of func(name string) reflect.Type) *misfit {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		t := of(name)
		if t == nil {
			continue
		}
		if bad := s.checkType(append(slices.Clip(key), name), t, table[name]); bad != nil {
			return bad
		}
	}
	return nil
}

// checkItems compares the items of a list. bad is the misfit that the list would be.
func (s setting) checkItems(bad *misfit, item reflect.Type, value any) *misfit {
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return bad
	}
	for i := range list.Len() {
		v := list.Index(i).Interface()
		table, isTable := v.(map[string]any)
		if isTable != (item.Kind() == reflect.Struct) || !isTable && s.checkType(bad.key, item, v) != nil {
			bad.has = fmt.Sprintf("a list whose item %d is %s", i+1, typeName(v))
			return bad
		}
		if wrong := s.checkTable(bad.key, table, fieldOf(item)); isTable && wrong != nil {
			return wrong
		}
	}
	return nil
}

// fieldOf returns the types of the keys of a struct in the file.
func fieldOf(t reflect.Type) func(name string) reflect.Type {
	return func(name string) reflect.Type {
		for field := range t.Fields() {
			if field.Tag.Get("toml") == name {
				return field.Type
			}
		}
		return nil
	}
}

// scalar returns a value that can be written as one word, nil for another.
func scalar(value any) any {
	switch value.(type) {
	case string, int64, float64, bool:
		return value
	}
	return nil
}

// wanted describes the values of a type, with an example: that of the setting, or its default.
func (s setting) wanted(key toml.Key, t reflect.Type) string {
	whole := key.String() == s.key // not a part of its table
	example := func(quote string) string {
		switch {
		case whole && s.def != "":
			return " such as " + quote + s.def + quote
		case whole && quote != "":
			return " such as " + quote + s.arg + quote
		}
		return ""
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Map:
		return "a table such as " + s.example
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Struct {
			return fmt.Sprintf("sections, each headed [[%s]], such as [[%[1]s]] and below it %s", key, s.example)
		}
		return `a list such as ["a", "b"]`
	case reflect.Int, reflect.Int64, reflect.Float64:
		if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			break // a duration or a size is text
		}
		if t.Kind() == reflect.Float64 {
			return "a number" + example("")
		}
		return "a whole number" + example("")
	}
	return "text in quotes" + example(`"`)
}

// typeName describes the type of a value in the file.
func typeName(value any) string {
	switch value.(type) {
	case string:
		return "text"
	case int64:
		return "a whole number"
	case float64:
		return "a decimal number"
	case bool:
		return "true or false"
	case time.Time:
		return "a date or a time"
	case map[string]any:
		return "a table"
	case []map[string]any:
		return "sections headed [[…]]"
	}
	return "a list"
}
