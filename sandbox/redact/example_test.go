package redact_test

import (
	"fmt"

	"github.com/warmbox/warmbox/sandbox/redact"
)

func ExampleRedactor_Text() {
	r := &redact.Redactor{Values: []string{"correct&horse"}}
	fmt.Println(r.Text("connect to postgres://app:hunter2@db:5432/x"))
	fmt.Println(r.Text(`{"passphrase": "correct&horse", "max_tokens": 4096}`))
	fmt.Println(r.Text("GET /?q=correct%26horse"))
	// Output:
	// connect to postgres://app:‹password›@db:5432/x
	// {"passphrase": "‹secret›", "max_tokens": 4096}
	// GET /?q=‹secret›
}

// Within masks a secret that crosses the border of the part.
func ExampleRedactor_Within() {
	r := &redact.Redactor{Values: []string{"correct&horse"}}
	text := []byte("key correct&horse ok")
	fmt.Printf("%s\n", r.Within(text, 0, 8))
	// Output: key ‹secret›
}
