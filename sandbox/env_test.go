package sandbox

import (
	"strings"
	"testing"
)

func TestVariablesAreBoundedAsJSON(t *testing.T) {
	for name, test := range map[string]struct {
		env  map[string]string
		want string // in the error, "" where there is none
	}{
		"none":             {nil, ""},
		"small":            {map[string]string{"A": "1"}, ""},
		"as much as fits":  {map[string]string{"A": strings.Repeat("x", 100-len(`{"A":""}`))}, ""},
		"one byte more":    {map[string]string{"A": strings.Repeat("x", 101-len(`{"A":""}`))}, "env has 101 bytes, more than the 100 allowed"},
		"escapes count":    {map[string]string{"A": strings.Repeat("\n", 50)}, "env has 108 bytes"},
		"controls count":   {map[string]string{"A": strings.Repeat("\x01", 16)}, "env has 104 bytes"},
		"no name":          {map[string]string{"": "x"}, `env has an invalid variable ""`},
		"= in the name":    {map[string]string{"A=B": "x"}, `env has an invalid variable "A=B"`},
		"NUL in the value": {map[string]string{"A": "\x00"}, `env has an invalid variable "A"`},
	} {
		err := checkEnv(test.env, 100)
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
