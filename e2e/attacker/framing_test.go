package attacker_test

import (
	"fmt"
	"strings"
)

// malform adds a line that parsers read differently, or that none should read.
func (a *attack) malform() {
	a.sane = false
	s := pick(a, secrets...)
	a.place(s, "authorization", true) // some of these are headers for a lenient parser
	a.secret = ""
	bearer := "Authorization: Bearer " + s.text
	if a.http2 {
		a.add(pick(a, ":path", ":authority", ":x", "x-a: b", "x-a\r\nx-consumer-id", "transfer-encoding", "connection", "te", "content-length", "host", "upgrade", ""),
			pick(a, "/open/x", "chunked", "close", "0", "9999", "gateway.example", "a\r\nx-consumer-id: spoofed", "a\x00", "websocket"))
		return
	}
	if a.chance(10) {
		a.complete = false // an upstream may wait for what comes after the upgrade
		a.lines += pick(a,
			"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
			"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
		)
		return
	}
	a.lines += pick(a,
		"X-A: a\n"+bearer+"\r\n",
		"X-A: a\r"+bearer+"\r\n",
		"X-A: a\r\n "+bearer+"\r\n",
		"X-A: a\r\n\tX-Consumer-ID: spoofed\r\n",
		"X-A: a\nX-Consumer-ID: spoofed\r\n",
		"Authorization : Bearer "+s.text+"\r\n",
		"Authorization: Bearer\r\n "+s.text+"\r\n",
		" "+bearer+"\r\n",
		"X-Consumer-ID\r\n",
		"X-A: \x00\r\n",
		"X-A: "+strings.Repeat("a", 100<<10)+"\r\n",
		strings.Repeat("X-A: a\r\n", 200),
		"Host: open\r\n",
		"Expect: 100-continue\r\n",
		"\r\n",
		"\n",
		"X-A: a\v\fX-Consumer-ID: spoofed\r\n",
	)
	if a.chance(10) {
		a.method = pick(a, "CONNECT", "GET /open/x HTTP/1.1\r\nX-A:", "G\x00T", "", "PRI", strings.Repeat("A", 1000))
	}
}

// frame1 announces the body of a request of HTTP/1, rightly or not.
func (a *attack) frame1() {
	a.lines += "Host: " + a.door.host + "\r\n"
	if a.chance(15) {
		a.smuggle()
		return
	}
	if a.chance(1) {
		a.body = strings.Repeat("x", 1<<20+a.IntN(1<<20))
		a.sane = false // it may be refused before it has been sent
	}
	switch {
	case a.body == "" && a.trailer == nil:
		if a.method != "GET" && a.method != "HEAD" {
			a.lines += "Content-Length: 0\r\n"
		}
	case a.trailer != nil || a.chance(30):
		a.lines += "Transfer-Encoding: chunked\r\n"
		cut := 0
		if a.body != "" {
			cut = a.IntN(len(a.body))
		}
		a.body = chunk(a.body[:cut]) + chunk(a.body[cut:]) + "0\r\n"
		for _, f := range a.trailer {
			a.body += fmt.Sprintf("%s: %s\r\n", f.name, f.value)
		}
		a.body += "\r\n"
	default:
		a.lines += fmt.Sprintf("Content-Length: %d\r\n", len(a.body))
	}
}

// chunk is one chunk; none for nothing, which would be the last.
func chunk(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%x\r\n%s\r\n", len(text), text)
}

// smuggle ends the body where not every parser sees its end, with a request
// behind it that has no credential.
func (a *attack) smuggle() {
	a.sane, a.complete = false, false
	if a.method == "GET" {
		a.method = "POST"
	}
	inner := fmt.Sprintf("GET /%s/smuggled HTTP/1.1\r\nHost: %s\r\n%s: %ss\r\n\r\n", a.target.name, a.door.host, mark, a.id)
	long := fmt.Sprintf("Content-Length: %d\r\n", 5+len(inner))
	type smuggling struct{ lines, body string }
	s := pick(a,
		smuggling{long + "Transfer-Encoding: chunked\r\n", "0\r\n\r\n" + inner},
		smuggling{"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n" + inner},
		smuggling{long + "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n" + inner},
		smuggling{long + "Transfer-Encoding : chunked\r\n", "0\r\n\r\n" + inner},
		smuggling{long + "Transfer-Encoding:\tchunked\r\n", "0\r\n\r\n" + inner},
		smuggling{long + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "0\r\n\r\n" + inner},
		smuggling{long + "transfer_encoding: chunked\r\n", "0\r\n\r\n" + inner},
		smuggling{"Content-Length: 0\r\n" + long, inner},
		smuggling{"Content-Length: 0, 5\r\n", inner},
		smuggling{"Content-Length: +5\r\n", "hello" + inner},
		smuggling{"Content-Length: 0x5\r\n", "hello" + inner},
		smuggling{"Content-Length: 0\r\n", inner}, // honest: two requests
		smuggling{"Transfer-Encoding: chunked\r\n", "5;ext=\"\r\n\"\r\nhello\r\n0\r\n\r\n" + inner},
		smuggling{"Transfer-Encoding: chunked\r\n", "zz\r\n" + inner},
		smuggling{"Transfer-Encoding: chunked\r\n", "ffffffffffffffff1\r\n" + inner},
		smuggling{"Transfer-Encoding: chunked\r\n", "0\r\nX-Consumer-ID: spoofed\r\n\r\n" + inner},
		smuggling{"Content-Length: 9999\r\n", inner}, // never ends
		smuggling{"", inner},
	)
	a.lines, a.body = a.lines+s.lines, s.body
}

// frame2 announces the body of a stream, where it does that at all.
func (a *attack) frame2() {
	if a.chance(1) {
		a.body = strings.Repeat("x", 40<<10)
	}
	if a.body != "" && a.chance(30) {
		a.add("content-length", fmt.Sprint(len(a.body)))
	}
	if a.chance(3) {
		a.add("content-length", pick(a, "0", "1", "99999"))
		a.sane = false
	}
	// Envoy closes a connection a second after an error. To wait for that every
	// time would leave no time for attacks.
	a.complete = a.sane || a.chance(10)
}
