package engine

import (
	"bytes"
	"mime"
	"net/textproto"
	"strings"
)

// maxPartHeader bounds the header section of a part in bytes.
const maxPartHeader = 4 << 10

// eachPart visits the parts of a multipart body (RFC 2046 section 5.1.1, RFC 7578). It
// passes the name of a plain field, or "" for any other part, the content, and the place of
// the part with the delimiter before it. It reports whether the body is well-formed, in the
// narrow form that clients send: no preamble, no epilogue, lines that end in CR LF. If not,
// the visits so far mean nothing.
func eachPart(body []byte, boundary string, visit func(name string, content []byte, from, to int)) bool {
	delimiter := []byte("\r\n--" + boundary)
	if boundary == "" || !bytes.HasPrefix(body, delimiter[2:]) {
		return false
	}
	from, at := 0, len(delimiter)-2
	for parts := 0; parts <= maxPairs; parts++ {
		rest := body[at:]
		if bytes.HasPrefix(rest, []byte("--")) {
			tail := rest[2:]
			return len(tail) == 0 || string(tail) == "\r\n"
		}
		if !bytes.HasPrefix(rest, []byte("\r\n")) {
			return false
		}
		at += 2
		end := bytes.Index(body[at:], delimiter)
		if end < 0 {
			return false
		}
		name, content, ok := readPart(body[at : at+end])
		if !ok {
			return false
		}
		at += end
		visit(name, content, from, at+2)
		from = at + 2
		at += len(delimiter)
	}
	return false
}

// readPart splits a part into the name of its field and its content.
func readPart(part []byte) (name string, content []byte, ok bool) {
	n := bytes.Index(part, []byte("\r\n\r\n"))
	if n < 0 || n > maxPartHeader {
		return "", nil, false
	}
	content = part[n+4:]
	disposition, plain := "", true
	for _, line := range strings.Split(string(part[:n]), "\r\n") {
		key, value, found := strings.Cut(line, ":")
		if !found || !validName(strings.ToLower(key)) || !validValue(strings.Trim(value, " \t")) {
			return "", nil, false
		}
		switch textproto.CanonicalMIMEHeaderKey(key) {
		case "Content-Disposition":
			if disposition != "" {
				return "", nil, false
			}
			disposition = strings.TrimSpace(value)
		case "Content-Transfer-Encoding":
			plain = false // the content is encoded
		}
	}
	if name, ok = fieldName(disposition); !ok || !plain {
		return "", content, ok
	}
	return name, content, true
}

// fieldName returns the name of a field that is not a file.
func fieldName(disposition string) (string, bool) {
	if disposition == "" {
		return "", true
	}
	// Parsers differ about escapes and encodings.
	if strings.ContainsAny(disposition, `\*`) {
		return "", false
	}
	kind, params, err := mime.ParseMediaType(disposition)
	if err != nil {
		return "", false
	}
	if _, file := params["filename"]; file || kind != "form-data" {
		return "", true
	}
	return params["name"], true
}
