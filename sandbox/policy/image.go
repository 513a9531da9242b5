package policy

import (
	"path"
	"strings"

	"github.com/distribution/reference"
)

// Image reports whether the allowlist allows the image that ref names. An entry is a
// pattern of path.Match for the short form of the name: "golang:*" allows every tag
// of golang, "ghcr.io/acme/*" every image of acme in that registry with any tag, and
// "debian" that name with any tag. An invalid reference is never allowed.
//
// A name with a digest is allowed by an entry with that digest, or by one without a
// tag. An entry with a tag does not allow it: a call that may use golang:1.26 could
// otherwise use any golang image ever published.
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

// Pin returns the name by which to look up an allowed image. An entry with a tag and
// a digest, "golang:1.26@sha256:…", allows the tag and pins it: the box uses the
// image of the digest, even if the tag has moved. A pin takes precedence over every
// other entry.
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

// match compares an entry without a tag with the name only, so that it allows any
// tag. It compares an entry with a tag or digest with the full reference.
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

// ValidGlob reports whether an entry is a valid pattern, so that a typing error is
// found at start and not when an image is denied.
func ValidGlob(entry string) bool {
	_, err := path.Match(entry, "")
	return err == nil && entry != ""
}
