package attacker_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"golang.org/x/net/http2/hpack"
)

// field is a header line or field.
type field struct{ name, value string }

// attack is one request, and what the oracle knows of it.
type attack struct {
	*rand.Rand
	id     string
	door   *door
	target *target
	http2  bool
	secure bool

	method, path string
	fields       []field
	// lines are header lines of HTTP/1 as they are, terminator included.
	lines   string
	body    string
	trailer []field

	expectation
	// client says that the secret of an application was sent.
	client bool
	// exact says that the path is spelled as the route is.
	exact bool
	// sane says that no parser can object, so that the connection goes on;
	// complete, that the gateway waits for nothing.
	sane, complete bool
}

// pick is one of some.
func pick[T any](a *attack, of ...T) T { return of[a.IntN(len(of))] }

// chance is true in so many of a hundred cases.
func (a *attack) chance(percent int) bool { return a.IntN(100) < percent }

// newAttack makes the attack with a number of a run.
func newAttack(at *door, seed, n uint64) *attack {
	a := &attack{Rand: rand.New(rand.NewPCG(seed, n)), door: at, id: fmt.Sprintf("%s-%d", at.name, n), sane: true, complete: true, exact: true}
	if n <= at.honest() {
		a.behave(int(n - 1))
		return a
	}
	a.target = pick(a, at.targets...)
	a.http2, a.secure = a.chance(40), a.chance(40)
	a.http2 = a.http2 && !at.http1
	a.method = pick(a, "GET", "GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "PROPFIND", "TRACE", "get")
	a.path = "/" + a.target.name + "/" + pick(a, "x", "a/b", "", "x/")
	// The mark comes first: what a later line does to its neighbours spares it.
	a.add(mark, a.id)
	if at.documents && a.chance(60) {
		a.operate()
	} else {
		a.disguise()
	}
	a.secure = at.encrypts(a.secure)
	if a.http2 {
		a.frame2()
	} else {
		a.frame1()
	}
	return a
}

// disguise asks for what others may have, in ways that some parser may read differently.
func (a *attack) disguise() {
	credentials := a.IntN(3)
	if a.chance(20) {
		a.issuing()
		credentials = max(0, credentials-1)
	}
	for range credentials {
		a.credential()
	}
	if a.chance(50) {
		a.spoof()
	}
	if a.chance(35) {
		a.respell()
	}
	if a.chance(15) {
		a.malform()
	}
}

// honest is how many attacks on a door, its first ones, are requests of somebody who
// behaves: what they show must not depend on luck.
func (d *door) honest() uint64 {
	if d.documents {
		return 0 // a request that follows is, see next
	}
	n := uint64(len(d.targets))
	if d.issues {
		n++
	}
	return n
}

// behave makes a request that a target lets pass, if it lets anything pass; after
// the last one it asks for a token.
func (a *attack) behave(n int) {
	a.method, a.secure, a.lines = "GET", a.door.encrypts(false), "Host: "+a.door.host+"\r\n"
	a.add(mark, a.id)
	if n == len(a.door.targets) {
		a.target = named("guarded")
		a.method, a.path, a.secure, a.client = "POST", "/guarded/x/oauth2/token", true, true
		a.add("Content-Type", "application/x-www-form-urlencoded")
		a.body = "grant_type=client_credentials&client_id=" + alice.application + "&client_secret=" + alice.clientSecret
		a.lines += fmt.Sprintf("Content-Length: %d\r\n", len(a.body))
		return
	}
	a.target = a.door.targets[n]
	a.path = "/" + a.target.name + "/x"
	for _, s := range []*secret{opening(a.target, token), opening(a.target, key)} {
		switch {
		case s == nil:
		case s.kind == key:
			a.place(s, keyNames[0], true)
			a.add(keyNames[0], s.text)
		default:
			a.place(s, a.target.tokenHeader(), true)
			a.add(a.target.tokenHeader(), "Bearer "+s.text)
		}
	}
}

// opening is a secret of a kind that is good at a target; nil if there is none.
func opening(t *target, k kind) *secret {
	for _, s := range secrets {
		if s.kind == k && s.opens(t) {
			return s
		}
	}
	return nil
}

func (a *attack) add(name, value string) { a.fields = append(a.fields, field{name, value}) }

// query adds a parameter to the path.
func (a *attack) query(parameter string) {
	sep := "?"
	if strings.Contains(a.path, "?") {
		sep = "&"
	}
	a.path += sep + parameter
}

// form adds a parameter to a form in the body.
func (a *attack) form(parameter string) {
	if a.body != "" {
		a.body += "&"
	}
	a.body += parameter
}

// followUp is a request that must be served: whoever sends it has done nothing
// wrong.
func (a *attack) followUp() []field {
	fields := []field{{mark, a.id + "f"}}
	if s := opening(a.door.behind, token); s != nil {
		fields = append(fields, field{"Authorization", "Bearer " + s.text})
	}
	return fields
}

// raw is the attack over HTTP/1, and how many answers there are at most.
func (a *attack) raw() (text string, methods []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\n", a.method, a.path)
	for _, f := range a.fields {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	b.WriteString(a.lines)
	b.WriteString("\r\n")
	b.WriteString(a.body)
	if !a.sane {
		return b.String(), []string{a.method, "GET", "GET"}
	}
	fmt.Fprintf(&b, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n", a.door.next, a.door.host)
	for _, f := range a.followUp() {
		fmt.Fprintf(&b, "%s: %s\r\n", f.name, f.value)
	}
	b.WriteString("\r\n")
	return b.String(), []string{a.method, "GET"}
}

// streams is the attack over HTTP/2, and a request that follows it.
func (a *attack) streams() []stream {
	head := func(method, path string, fields []field) []hpack.HeaderField {
		scheme := map[bool]string{false: "http", true: "https"}[a.secure]
		out := []hpack.HeaderField{{Name: ":method", Value: method}, {Name: ":scheme", Value: scheme}, {Name: ":authority", Value: a.door.host}, {Name: ":path", Value: path}}
		for _, f := range fields {
			out = append(out, lower(f.name, f.value))
		}
		return out
	}
	first := stream{header: head(a.method, a.path, a.fields), body: a.body}
	for _, f := range a.trailer {
		first.trailer = append(first.trailer, lower(f.name, f.value))
	}
	return []stream{first, {header: head("GET", a.door.next, a.followUp())}}
}

// send sends the attack and returns the answers.
func (a *attack) send() ([]answer, error) {
	sent.Store(a.id, a.expectation)
	sent.Store(a.id+"f", expectation{placed: []placement{{opening(named("guarded"), token), "authorization"}}})
	if a.http2 && a.complete {
		return overHTTP2(a.door, a.secure, a.streams(), patience)
	}
	if a.http2 {
		return overHTTP2(a.door, a.secure, a.streams(), shortness)
	}
	text, methods := a.raw()
	switch {
	case a.sane:
		return overHTTP1(a.door, a.secure, text, methods, patience, patience)
	case a.complete:
		return overHTTP1(a.door, a.secure, text, methods, patience, shortness)
	}
	return overHTTP1(a.door, a.secure, text, methods, shortness, shortness)
}

// String shows the attack.
func (a *attack) String() string {
	limit := func(s string) string { return s[:min(len(s), 3000)] }
	where := map[bool]string{false: "plain TCP", true: "TLS"}[a.secure]
	if a.http2 {
		return fmt.Sprintf("attack %s over HTTP/2 on %s: %s", a.id, where, limit(fmt.Sprintf("%s %q %q %q %q", a.method, a.path, a.fields, a.body, a.trailer)))
	}
	text, _ := a.raw()
	return fmt.Sprintf("attack %s over HTTP/1 on %s: %s", a.id, where, limit(fmt.Sprintf("%q", text)))
}
