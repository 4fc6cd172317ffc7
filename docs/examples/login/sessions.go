package main

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"sync"
	"time"
)

const (
	sessionLife = 30 * time.Minute
	// maxSessions bounds memory; the oldest ends when one more begins.
	maxSessions = 10_000
)

// session is a user who has logged in.
type session struct {
	user string // the id
	// csrf is in every form of the session: a page of somebody else does not
	// know it.
	csrf  string
	until time.Time
}

// sessions are kept in memory: they end with the process.
type sessions struct {
	secure bool
	now    func() time.Time
	mu     sync.Mutex
	byID   map[string]session
	order  []string
}

// cookie is a cookie that scripts cannot read. Over TLS its name binds it to
// this host.
func (s *sessions) cookie(name, value string, same http.SameSite) *http.Cookie {
	if s.secure {
		name = "__Host-" + name
	}
	//nolint:gosec // not Secure on loopback without TLS, where a browser would not send it back; the callers choose SameSite
	return &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: same}
}

// read returns the value of one of our cookies, or "".
func (s *sessions) read(r *http.Request, name string) string {
	c, err := r.Cookie(s.cookie(name, "", 0).Name)
	if err != nil {
		return ""
	}
	return c.Value
}

// begin starts a session under a new id, which nobody can have planted. The
// cookie is Lax, not Strict, so that a user who comes from the client
// application is still logged in.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request, user string) {
	s.end(r)
	id := rand.Text()
	s.mu.Lock()
	if len(s.order) == maxSessions {
		delete(s.byID, s.order[0])
		s.order = s.order[1:]
	}
	s.byID[id] = session{user, rand.Text(), s.now().Add(sessionLife)}
	s.order = append(s.order, id)
	s.mu.Unlock()
	http.SetCookie(w, s.cookie("session", id, http.SameSiteLaxMode))
}

// of returns the session of a request.
func (s *sessions) of(r *http.Request) (session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.byID[s.read(r, "session")]
	return found, ok && s.now().Before(found.until)
}

// end forgets the session of a request, if it has one.
func (s *sessions) end(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byID, s.read(r, "session"))
}

// same compares two secrets; nothing is the same as an empty one.
func same(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
