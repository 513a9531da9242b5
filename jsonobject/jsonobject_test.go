package jsonobject_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/warmbox/warmbox/jsonobject"
)

func ExampleEach() {
	jsonobject.Each([]byte(`{"cmd": "ls", "env": {"A": "1"}}`), func(name string, value json.RawMessage) error {
		fmt.Println(name, string(value))
		return nil
	})
	// Output:
	// cmd "ls"
	// env {"A": "1"}
}

func TestDuplicateIsRefused(t *testing.T) {
	for _, object := range []string{`{"a":1,"a":1}`, `{"a":1,"b":{},"\u0061":2}`, `{"":1,"":2}`} {
		err := jsonobject.Each([]byte(object), func(string, json.RawMessage) error { return nil })
		if _, ok := errors.AsType[*jsonobject.DuplicateError](err); !ok {
			t.Errorf("%s: %v", object, err)
		}
	}
}

// FuzzEach compares Each with encoding/json for every object that has no member twice.
func FuzzEach(f *testing.F) {
	for _, seed := range []string{`{}`, ` { "a" : [1, {"b":"}"}] , "c\"":null,"d":"\\" } `, `{"a":-1e5,"a":true}`, `{"\ud800":"x"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, object []byte) {
		var want map[string]json.RawMessage
		if !json.Valid(object) || json.Unmarshal(object, &want) != nil || want == nil {
			return
		}
		got := map[string]json.RawMessage{}
		err := jsonobject.Each(object, func(name string, value json.RawMessage) error {
			got[name] = value
			return nil
		})
		if err != nil {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d members, want %d", object, len(got), len(want))
		}
		for name, value := range want {
			if string(got[name]) != string(value) {
				t.Errorf("%s: %q is %s, want %s", object, name, got[name], value)
			}
		}
	})
}
