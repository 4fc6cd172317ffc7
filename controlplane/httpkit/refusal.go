package httpkit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strconv"
)

// Call is where a request to an administration API comes from.
type Call struct {
	// API is the name of the API; empty for a request to anything else.
	API    string
	Method string
	// Source is the address of the client; see [SourceOf].
	Source    netip.Addr
	UserAgent string
}

// Refusal is a request to an administration API that was answered with 401 or 403, or with 503 because the issuer of
// its token could not be reached; see [Entry.IssuerAway].
type Refusal struct {
	*Entry
	Status int
}

// Administered returns the handler of an administration API. The entries of its requests have a [Call].
// tell, if set, learns of each request that was refused, after its answer; it must not block.
func Administered(api string, tell func(Refusal), next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := EntryOf(r.Context())
		e.Call = Call{API: api, Method: BoundedMethod(r.Method), Source: SourceOf(r), UserAgent: r.UserAgent()}
		e.refused = tell
		next.ServeHTTP(w, r)
	})
}

// tellRefusal tells who wants to know of a refusal.
func (e *Entry) tellRefusal(status int) {
	if e.refused != nil && (status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusServiceUnavailable && e.IssuerAway) {
		e.refused(Refusal{e, status})
	}
}

// SourceOf is the address of the client of a request: behind proxies that are trusted that for which they
// speak (see [Behind]), else that of the connection. It is not valid if the connection has none.
func SourceOf(r *http.Request) netip.Addr {
	if e := EntryOf(r.Context()); e.Client.IsValid() {
		return e.Client
	}
	return connectionOf(r)
}

// connectionOf is the address of the connection of a request; it is not valid if that has none.
func connectionOf(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return plain(at.Addr())
}

// Prefix returns what counts as one address: a whole IPv4 address, or the 64-bit network that one
// subscriber has in IPv6.
func Prefix(at netip.Addr) netip.Prefix {
	at = plain(at)
	bits := 64
	if at.Is4() {
		bits = 32
	}
	p, err := at.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Number is the id of the request as a number in decimal. An id that the client chose itself need not be a
// number; then ok is false, and the number is made from it.
func (e *Entry) Number() (number string, ok bool) {
	raw, err := hex.DecodeString(e.ID)
	if ok = err == nil && len(raw) >= 8; !ok {
		sum := sha256.Sum256([]byte(e.ID))
		raw = sum[:8]
	}
	return strconv.FormatUint(binary.BigEndian.Uint64(raw[len(raw)-8:]), 10), ok
}
