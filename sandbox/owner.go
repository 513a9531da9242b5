package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
)

// An Owner is who may use a box, a run and its log: one session of a principal, or with
// no Session all sessions of it. What one owner has does not exist for others.
//
// Boxes belong to a session and end with it; a persistent box belongs to the principal,
// since sessions end with their server. Both names are the caller's choice.
type Owner struct {
	Principal string // who was authenticated, such as "local" or "token:HASH"
	Session   string // of that principal; secret, since it names a session over HTTP
}

// all is the owner that stands for all sessions of o's principal.
func (o Owner) all() Owner { return Owner{Principal: o.Principal} }

// reaches reports whether o may use what another owner has: its own, and what belongs
// to its principal.
func (o Owner) reaches(has Owner) bool { return o == has || o.all() == has }

// mark identifies an owner in logs and in the audit record without naming it: a reader
// who knew a session's name could use the session.
func (o Owner) mark() string {
	name := o.Principal
	if o.Session != "" {
		name += "." + o.Session
	}
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:8])
}
