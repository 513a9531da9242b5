package server

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/warmbox/warmbox/sandbox"
)

// Persistent boxes belong to a principal, all else to one of its sessions. A credential
// identifies the principal, and no name that an owner chose, which may be another's
// tomorrow. So
//
//	local        calls over stdio, or from the process itself
//	token:HASH   has the token with that hash
//
// and a later kind, such as the issuer and subject of an OIDC token, gets a prefix of its
// own; see sandbox.Owner.

// local is the principal that calls over stdio, or from the process itself. It is one
// client.
const local = "local"

// localOwner is the owner of what that client has: it has one session.
var localOwner = sandbox.Owner{Principal: local}

// A principal is the client of a token over HTTP. Its sessions do not exist for other
// principals, and however many it opens, only its own are closed for them.
type principal struct {
	name     string            // of its token, for people
	token    [sha256.Size]byte // the hash
	sessions *sessions
	rate     *rateLimiter // of its requests
}

// principals are those of all tokens.
type principals []*principal

func (s *Server) principals(h HTTP) (list principals) {
	for name, token := range h.Tokens {
		list = append(list, &principal{
			name:     name,
			token:    sha256.Sum256([]byte(token)),
			sessions: &sessions{principal: principalOf(token), release: s.Manager.Release, all: map[sessionKey]*session{}},
			rate:     newRateLimiter(cmp.Or(h.MaxRate, DefaultMaxRate)),
		})
	}
	return list
}

// inUse reports whether an owner's session has an open request, or had one within a time.
func (list principals) inUse(owner sandbox.Owner, within time.Duration) bool {
	for _, p := range list {
		if p.sessions.principal == owner.Principal {
			return p.sessions.inUse(owner, within)
		}
	}
	return false
}

// principalOf names the principal of a token. The hash differs from the one by which tokens
// are compared: this one is written on containers and grants no access.
func principalOf(token string) string {
	sum := sha256.Sum256([]byte("warmbox principal\x00" + token))
	return "token:" + hex.EncodeToString(sum[:])
}

// authenticate returns the principal whose token a request carries, nil if there is none.
// It compares every token, by hashes of one length, so that its duration tells neither a
// token, nor its length, nor how many tokens there are.
func authenticate(r *http.Request, all []*principal) (found *principal) {
	given := sha256.Sum256([]byte(bearer(r)))
	for _, p := range all {
		if subtle.ConstantTimeCompare(p.token[:], given[:]) == 1 {
			found = p
		}
	}
	return found
}

// bearer returns the token of a request, "" if it has none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
