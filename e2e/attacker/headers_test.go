package attacker_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// credential puts a secret somewhere: where the gateway looks for it, or where
// it must not.
func (a *attack) credential() {
	s := pick(a, secrets...)
	if a.chance(50) { // something that opens this target, if anything does
		open := slices.DeleteFunc(slices.Clone(secrets), func(s *secret) bool { return !s.opens(a.target) })
		if len(open) > 0 {
			s = pick(a, open...)
		}
	}
	text, exact := s.text, true
	if a.chance(15) {
		text = a.nearly(s.text)
		exact = text == s.text // not every way changes every text
		a.sane = a.sane && !strings.Contains(text, "\x00")
	}
	switch n := a.IntN(20); {
	case n < 11:
		a.inHeader(s, text, exact)
	case n < 14:
		a.place(s, "", exact)
		a.query(pick(a, parameter(s), parameter(s), "access%5Ftoken", "api%6bey") + "=" + pick(a, escape(text), everyByte(text)))
	case n < 17:
		a.place(s, "", exact)
		a.inBody(s, text)
	default:
		a.decoy(s)
	}
}

// place notes a secret that the gateway may find.
func (a *attack) place(s *secret, header string, exact bool) {
	if !exact {
		return
	}
	a.placed = append(a.placed, placement{s, header})
}

// inHeader puts a secret into a header.
func (a *attack) inHeader(s *secret, text string, exact bool) {
	if s.kind == key {
		name := pick(a, "apikey", "X-API-Key", "APIKEY", "ApiKey")
		a.place(s, strings.ToLower(name), exact)
		a.add(name, text)
		return
	}
	name := pick(a, "Authorization", "Authorization", "authorization", "AUTHORIZATION", "X-Token")
	if a.target.tokenHeader() == "x-token" && a.chance(60) {
		name = "x-token"
	}
	scheme := pick(a, "Bearer ", "Bearer ", "Bearer ", "bearer ", "BEARER ", "token ", "", "Bearer  ", "Bearer\t", "Digest ", "Bearer,", "Bearer Bearer ")
	if a.secret == "" && strings.EqualFold(scheme, "bearer ") && len(a.placed) == 0 {
		a.secret = text
	} else {
		a.secret = ""
	}
	a.place(s, strings.ToLower(name), exact)
	a.add(name, scheme+text)
	if a.chance(15) { // a second one, of whatever kind
		a.secret = ""
		name, other := pick(a, name, "authorization"), pick(a, secrets...)
		a.place(other, strings.ToLower(name), true)
		a.add(name, "Bearer "+other.text)
		a.add(name, pick(a, "Bearer "+text, "Bearer never-issued", alice.basic(), "", "Negotiate x"))
		a.place(s, strings.ToLower(name), exact)
	}
}

// inBody puts a secret into a body of one of the shapes that can carry it.
func (a *attack) inBody(s *secret, text string) {
	if a.method == "GET" || a.method == "HEAD" {
		a.method = pick(a, "POST", "PUT", "PATCH", "DELETE")
	}
	switch a.IntN(4) {
	case 0:
		a.add("Content-Type", "application/json")
		doc, _ := json.Marshal(map[string]any{parameter(s): pick[any](a, text, text, []string{text}, map[string]string{"a": text})})
		a.body = string(doc)
	case 1:
		a.add("Content-Type", "multipart/form-data; boundary=b")
		a.body = fmt.Sprintf("--b\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n--b--\r\n", parameter(s), text)
	default:
		a.add("Content-Type", pick(a, "application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=utf-8", "text/plain"))
		a.form(parameter(s) + "=" + escape(text))
		if a.chance(20) {
			a.form(parameter(s) + "=other")
		}
	}
}

// decoy puts a secret where nobody may look for it.
func (a *attack) decoy(s *secret) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte(s.text+":"))
	a.fields = append(a.fields, pick(a,
		field{"Cookie", "access_token=" + s.text + "; apikey=" + s.text},
		field{"Proxy-Authorization", "Bearer " + s.text},
		field{"X-Access-Token", s.text},
		field{"access_token", s.text},
		field{"api_key", s.text},
		field{"x_token", "Bearer " + s.text},
		field{"x_api_key", s.text},
		field{"Sec-WebSocket-Protocol", "bearer, " + s.text},
		field{"X-Forwarded-Authorization", "Bearer " + s.text},
		field{"X-Original-URL", "/x?access_token=" + s.text},
		field{"Referer", "https://gateway.example/x?access_token=" + s.text + "&apikey=" + s.text},
		field{"X-Basic", basic},
	))
	if s.kind == token && a.chance(30) {
		a.secret = ""
		a.add("Authorization", basic)
	}
	if a.chance(30) { // where a form is expected too late
		a.trailer = append(a.trailer, field{"authorization", "Bearer " + s.text}, field{"apikey", s.text}, field{"x-consumer-id", "spoofed"})
	}
}

// nearly is a text that is not the secret.
func (a *attack) nearly(text string) string {
	return pick(a, strings.ToUpper(text), text+"x", text[1:], text[:len(text)-1], "%"+text, "\""+text+"\"", text+",", text+"\x00", text+"%00", "\xef\xbb\xbf"+text, text+"*", "*", "", text+"\xc2\xa0", strings.Replace(text, "-", "_", 1))
}

// spoof claims what only the gateway may say.
func (a *attack) spoof() {
	names := append([]string{
		"x-meshgate-oauth", "x-meshgate-service", "x-meshgate-scheme", "x-meshgate-client", "x-meshgate-proto", "x-meshgate-anything",
		"x-envoy-original-path", "x-envoy-internal", "x-envoy-upstream-alt-stat-name", "x-forwarded-proto", "x-forwarded-for", "x-original-url", "x-rewrite-url",
		"x-consumer-groups", "x-credential-username", "x-authenticated-groups",
	}, identityNames...)
	for range 1 + a.IntN(5) {
		name := pick(a, names...)
		name = pick(a, name, strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.Replace(name, "-", "_", 1), name+" ", "connection")
		value := pick(a, "spoofed", "true", "", alice.id, "https", "127.0.0.1", "/open/x", targets[0].service, nobody)
		switch {
		case strings.HasSuffix(name, " "):
			a.sane = false
		case name == "connection":
			value = pick(a, "x-consumer-id", "authorization, close", "apikey", "x-meshgate-oauth")
			a.sane = false
		}
		a.add(name, value)
	}
}

// parameter is the name under which a secret is a parameter.
func parameter(s *secret) string {
	return map[kind]string{token: "access_token", key: "apikey"}[s.kind]
}

// escape percent-encodes what would end a parameter.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`%&+#"=;,`, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// everyByte percent-encodes all of a text.
func everyByte(text string) string {
	var b strings.Builder
	for i := range len(text) {
		fmt.Fprintf(&b, "%%%02x", text[i])
	}
	return b.String()
}
