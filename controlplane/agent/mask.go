package agent

import "strings"

// masked replaces what must not appear in a log.
const masked = "[masked]"

// plainHeaders are the headers whose values may be logged. All others are masked, because
// clients may send credentials in headers that are configured elsewhere and may change.
var plainHeaders = map[string]bool{
	":method": true, ":authority": true, ":scheme": true, ":status": true, ":protocol": true, "host": true, "accept": true,
	"accept-encoding": true, "accept-language": true, "allow": true, "cache-control": true, "connection": true, "content-encoding": true,
	"content-length": true, "content-type": true, "date": true, "expect": true, "grpc-status": true, "grpc-message": true, "grpc-timeout": true,
	"keep-alive": true, "pragma": true, "retry-after": true, "server": true, "te": true, "trailer": true, "transfer-encoding": true,
	"upgrade": true, "user-agent": true, "vary": true, "via": true, "www-authenticate": true, "x-anonymous-consumer": true,
	"x-consumer-id": true, "x-consumer-username": true, "x-envoy-expected-rq-timeout-ms": true, "x-envoy-upstream-service-time": true,
	"x-forwarded-for": true, "x-forwarded-host": true, "x-forwarded-port": true, "x-forwarded-proto": true, "x-real-ip": true, "x-request-id": true,
}

// pathHeaders contain a path, which is logged without its query.
var pathHeaders = map[string]bool{":path": true, "x-forwarded-path": true, "x-forwarded-prefix": true, "x-envoy-original-path": true}

// schemes are words that precede a credential directly. secrets are names that precede a
// credential with a sign in between. A name also counts as the end of a longer name, such
// as client_secret or x-token.
var (
	schemes = []string{"bearer", "basic", "token", "negotiate", "digest"}
	secrets = []string{
		"authorization", "auth", "apikey", "api-key", "api_key", "-key", "_key", "assertion", "cookie", "code_verifier", "secret", "password", "passwd", "token",
	}
	// begins tells, by the first two letters in any case, whether one of these words may
	// start.
	begins = func() (out [1 << 10]bool) {
		for _, w := range append(schemes[:len(schemes):len(schemes)], secrets...) {
			out[pair(w[0], w[1])] = true
		}
		return out
	}()
)

func pair(a, b byte) int { return int(a&31)<<5 | int(b&31) }

// Texts by which Envoy's codecs log a header.
const (
	completed = "completed header: key="
	onHeader  = "OnHeaderForStream("
)

// mask removes credentials from a line of Envoy's log. At log levels that show requests,
// Envoy logs all headers, and paths with their queries. The replacement may be longer than
// the original, so the result is cut to maxLogLine as well.
func mask(line string) string {
	switch {
	case strings.HasPrefix(line, "'"):
		line = maskHeader(line)
	case strings.Contains(line, completed):
		line = maskCompleted(line)
	default:
		line = maskText(line)
	}
	if before, _, ok := strings.Cut(line, onHeader); ok {
		line = before + onHeader + masked
	}
	return line[:min(len(line), maxLogLine)]
}

// maskHeader masks a line of a list of headers: 'name', 'value'.
func maskHeader(line string) string {
	name, value, ok := strings.Cut(line[1:], "', '")
	switch lower := strings.ToLower(name); {
	case !ok || name == "" || strings.ContainsAny(name, " \t"):
		return maskText(line)
	case plainHeaders[lower], pathHeaders[lower]:
		return "'" + name + "', '" + maskText(value)
	}
	return "'" + name + "', '" + masked + "'"
}

// maskCompleted masks a header that a codec has read.
func maskCompleted(line string) string {
	before, rest, _ := strings.Cut(line, completed)
	name, value, ok := strings.Cut(rest, " value=")
	if ok && plainHeaders[strings.ToLower(name)] {
		return maskText(before) + completed + name + " value=" + maskText(value)
	}
	return maskText(before) + completed + maskText(name) + " value=" + masked
}

// maskText masks what looks like a credential.
func maskText(text string) string {
	var out strings.Builder
	done := 0
	for i := 0; i+1 < len(text); {
		if text[i] != '?' && !begins[pair(text[i], text[i+1])] {
			i++
			continue
		}
		start, end := credential(text, i)
		if end <= start {
			i++
			continue
		}
		end = extended(text, start, end)
		out.WriteString(text[done:start])
		out.WriteString(masked)
		done, i = end, end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// credential finds the credential after a word at i. It returns an empty range if there is
// none.
func credential(text string, i int) (start, end int) {
	if text[i] == '?' {
		return queryAt(text, i+1)
	}
	for _, s := range schemes {
		if !foldedAt(text, i, s) {
			continue
		}
		if start = behindScheme(text, i+len(s)); start > 0 {
			return start, valueEnd(text, start)
		}
	}
	for _, n := range secrets {
		if !foldedAt(text, i, n) {
			continue
		}
		switch start, quoted := behindName(text, i+len(n)); {
		case start > 0 && quoted:
			return start, start + quotedEnd(text[start:])
		case start > 0:
			return start, valueEnd(text, start)
		}
	}
	return 0, 0
}

// maxWord is longer than any word together with what may stand before its credential.
const maxWord = 32

// extended adds to a credential another credential that its end announces.
func extended(text string, start, end int) int {
	for p := max(start, end-maxWord); p < end; p++ {
		if p+1 >= len(text) || !begins[pair(text[p], text[p+1])] {
			continue
		}
		if _, e := credential(text, p); e > end {
			end = e
			p = max(start, end-maxWord)
		}
	}
	return end
}

// queryAt finds the rest of a URL if its query contains a value.
func queryAt(text string, i int) (start, end int) {
	end = i
	for end < len(text) && !isBlank(text[end]) && text[end] != '\'' && text[end] != '"' {
		end++
	}
	if !strings.Contains(text[i:end], "=") {
		return 0, 0
	}
	return i, end
}

// behindScheme returns where the credential begins, 0 if there is none.
func behindScheme(text string, i int) int {
	switch {
	case i < len(text) && text[i] == '+':
		i++
	case strings.HasPrefix(text[min(i, len(text)):], "%20"):
		i += len("%20")
	default:
		from := i
		for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
			i++
		}
		if i == from {
			return 0
		}
	}
	if i >= len(text) || endsValue(text[i]) {
		return 0
	}
	return i
}

// behindName returns where the value begins, 0 if there is none, and whether it is quoted.
func behindName(text string, i int) (start int, quoted bool) {
	at := func(set string) bool { return i < len(text) && strings.IndexByte(set, text[i]) >= 0 }
	signs := "=:"
	if at(`'"`) {
		i, signs = i+1, "=:,"
	}
	for at(" \t") {
		i++
	}
	if !at(signs) {
		return 0, false
	}
	i++
	for at(" \t") {
		i++
	}
	if at(`'"`) {
		i, quoted = i+1, true
	}
	if i >= len(text) || !quoted && endsValue(text[i]) {
		return 0, false
	}
	return i, quoted
}

func valueEnd(text string, i int) int {
	for i < len(text) && !endsValue(text[i]) {
		i++
	}
	return i
}

func quotedEnd(text string) int {
	if n := strings.IndexAny(text, `'"`); n >= 0 {
		return n
	}
	return len(text)
}

func endsValue(c byte) bool { return isBlank(c) || strings.IndexByte(`'"&,;)]}`, c) >= 0 }

func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// foldedAt reports whether a lower-case word stands at i, in any case.
func foldedAt(text string, i int, word string) bool {
	if len(text)-i < len(word) {
		return false
	}
	for j := range len(word) {
		c := text[i+j]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != word[j] {
			return false
		}
	}
	return true
}
