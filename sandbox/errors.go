package sandbox

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The codes that a failure can bear. Clients branch on them, so they never
// change their meaning.
const (
	ExecValidation    = "EXEC_VALIDATION"    // the command is not one that may run
	ImageDenied       = "IMAGE_DENIED"       // the image is not on the list
	ImageNotFound     = "IMAGE_NOT_FOUND"    // neither here nor to be pulled
	DockerUnavailable = "DOCKER_UNAVAILABLE" // no engine answers
	BoxNotFound       = "BOX_NOT_FOUND"      // never was, or belongs to another owner
	BoxGone           = "BOX_GONE"           // was there and has ended
	ExecNotFound      = "EXEC_NOT_FOUND"
	ExecEnded         = "EXEC_ENDED"     // ran here and has ended
	WorkspaceGone     = "WORKSPACE_GONE" // the directory that boxes share with the host was there and is not any more
	LimitReached      = "LIMIT_REACHED"
	InvalidArgument   = "INVALID_ARGUMENT"
	Internal          = "INTERNAL"
)

// An Error is a failure that the caller can act on: a sentence that says what
// and where, a code to branch on, and a hint what to try.
type Error struct {
	Code string
	Text string
	Hint string // may be empty
	Err  error  // the cause, where it adds nothing to Text but may be asked for
}

func (e *Error) Error() string { return e.Text }
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an *Error with a code, a hint and a formatted text. A %w
// among the arguments becomes its cause.
func Errorf(code, hint, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Text: err.Error(), Hint: hint, Err: errors.Unwrap(err)}
}

// NoWorkspace says that the workspace which the user named is gone. The server has
// seen it at its start.
func NoWorkspace(dir string) *Error {
	return Errorf(WorkspaceGone, "Have the directory put back, or created again, and try again. A running container keeps the directory it started with.",
		"the workspace %s is gone: it was moved or deleted", dir)
}

func itoa(n int) string { return strconv.Itoa(n) }

// QuotePath renders the name of a file, which is hostile text, inside a sentence: as it
// is where it cannot be mistaken for anything else, or else quoted, and not all of a
// long one.
func QuotePath(name string) string {
	const most = 200
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@+"
	end := ""
	if len(name) > most {
		name, end = strings.ToValidUTF8(name[:most], ""), "…"
	}
	if strings.Trim(name, plain) != "" {
		name = strconv.QuoteToGraphic(name)
	}
	return name + end
}

// quoteTail renders text of a box inside a sentence: quoted, so that nothing in it is
// mistaken for the host's text, and its end rather than its start.
func quoteTail(s string) string {
	const most = 2000
	if len(s) > most {
		s = "…" + s[len(s)-most:]
	}
	return strconv.Quote(s)
}
