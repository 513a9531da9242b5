package policy

import (
	"path"
	"strings"

	"github.com/distribution/reference"
)

// Image reports whether the image that ref names is on the list. An entry of
// the list is a glob in the manner of path.Match over the name as people write
// it: "golang:*" allows every tag of golang, "ghcr.io/acme/*" every image of
// that registry's acme with any tag, "debian" that name with any tag. A name
// that is no valid reference is never allowed.
//
// A name with a digest is allowed by an entry with that digest, or by one
// without a tag: with one, a call that may have golang:1.26 could have whatever
// golang ever was.
func Image(list []string, ref string) bool {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return false
	}
	name := reference.FamiliarName(named)
	full := reference.FamiliarString(reference.TagNameOnly(named))
	for _, entry := range list {
		if match(entry, name, full) {
			return true
		}
	}
	return false
}

// Pin returns the name that an allowed image is to be found by. An entry with a
// tag and a digest, "golang:1.26@sha256:…", allows that tag, and pins it: what
// runs is what the digest names, whatever the tag has come to mean. A pin goes
// before every other entry.
func Pin(list []string, ref string) (name string, allowed bool) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", false
	}
	full := reference.FamiliarString(reference.TagNameOnly(named))
	for _, entry := range list {
		pinned, err := reference.ParseNormalizedNamed(entry)
		digested, ok := pinned.(reference.Canonical)
		if err != nil || !ok {
			continue
		}
		if tagged, ok := pinned.(reference.Tagged); ok && reference.FamiliarName(pinned)+":"+tagged.Tag() == full {
			return reference.FamiliarName(pinned) + "@" + digested.Digest().String(), true
		}
	}
	return ref, Image(list, ref)
}

// match compares an entry without a tag with the name, so that it allows any
// tag, and one with a tag or a digest with both.
func match(entry, name, full string) bool {
	if named, err := reference.ParseNormalizedNamed(entry); err == nil {
		entry = reference.FamiliarString(named)
	}
	last := entry[strings.LastIndexByte(entry, '/')+1:]
	if strings.ContainsAny(last, ":@") {
		name = full
	}
	if strings.Contains(name, "@") && !strings.Contains(last, "@") {
		return false
	}
	ok, err := path.Match(entry, name)
	return ok && err == nil
}

// ValidGlob reports whether an entry of a list can be read at all, so that a
// typing error is found at start and not when an image is denied.
func ValidGlob(entry string) bool {
	_, err := path.Match(entry, "")
	return err == nil && entry != ""
}
