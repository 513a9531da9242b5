package server

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/warmbox/warmbox/sandbox"
)

// A principal is who has what outlives a session, and the sessions: boxes that are
// kept belong to one. It is told by what a caller proves and by nothing that somebody
// chose: a name of a token is for people, and may be another's tomorrow. So
//
//	local        is who calls over stdio, or from the process itself
//	token:HASH   is who has a token: the hash of that
//
// and a kind that is still to come, such as the issuer and subject of an OIDC token,
// gets a word of its own before the colon; see sandbox.Owner.

// local is whose calls are that come over stdio, or from the process itself. There is
// only one such client.
const local = "local"

// localOwner is the owner of what that client has: it has one session.
var localOwner = sandbox.Owner{Principal: local}

// ofToken is the principal of who has a token. The hash is another one than that by
// which tokens are compared: this one is written on containers, and grants no access.
func ofToken(token string) string {
	sum := sha256.Sum256([]byte("warmbox principal\x00" + token))
	return "token:" + hex.EncodeToString(sum[:])
}
