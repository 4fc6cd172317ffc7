package engine

import (
	"bytes"
	"mime"

	"github.com/meshgate/meshgate/filter/contract"
)

// media is a type of body in which credentials are searched.
type media uint8

const (
	mediaNone media = iota
	mediaForm
	mediaJSON
	mediaMultipart
)

// mediaOf recognises the type of a body. It ignores the parameters and the case.
func mediaOf(contentType []byte) media {
	if n := bytes.IndexByte(contentType, ';'); n >= 0 {
		contentType = contentType[:n]
	}
	contentType = bytes.Trim(contentType, " \t")
	switch {
	case foldsToType(contentType, "application/x-www-form-urlencoded"):
		return mediaForm
	case foldsToType(contentType, "application/json"):
		return mediaJSON
	case foldsToType(contentType, "multipart/form-data"):
		return mediaMultipart
	default:
		return mediaNone
	}
}

func foldsToType(b []byte, lowered string) bool {
	p := param{name: lowered, fold: true}
	return p.is(b)
}

// boundaryOf returns the boundary of a multipart body, or "" if there is none.
func boundaryOf(contentType []byte) string {
	_, params, err := mime.ParseMediaType(string(contentType))
	if err != nil || len(params["boundary"]) > 70 {
		return ""
	}
	return params["boundary"]
}

// maxParams bounds the number of credential names of one program.
const maxParams = 1 + contract.MaxCredentialNames

// bodyParams holds what a body contains under the names of credentials.
type bodyParams struct {
	found  [maxParams]kind
	values [maxParams][]byte
}

// note records one occurrence of a name. It copies the value, which belongs to the caller.
func (b *bodyParams) note(i int, found kind, value []byte) {
	switch {
	case b.found[i] != absent || found == repeated:
		b.found[i] = repeated
	case found == text && len(value) > contract.MaxCredential:
		b.found[i] = long
	default:
		b.found[i], b.values[i] = found, bytes.Clone(value)
	}
}

// readBody searches a body for every name. A malformed body counts as empty.
func readBody(contentType, body []byte, params []param) *bodyParams {
	out := &bodyParams{}
	scratch := make([]byte, contract.MaxCredential)
	ok := true
	switch mediaOf(contentType) {
	case mediaForm:
		for i := range params {
			found, value := findPair(body, &params[i], scratch)
			out.found[i], out.values[i] = found, bytes.Clone(value)
		}
	case mediaJSON:
		ok = eachMember(body, func(name, value []byte, _, _ int) {
			if i := memberIndex(name, params); i >= 0 {
				found, decoded := jsonText(value, scratch)
				out.note(i, found, decoded)
			}
		})
	case mediaMultipart:
		ok = eachPart(body, boundaryOf(contentType), func(name string, content []byte, _, _ int) {
			if i := paramIndex([]byte(name), params); i >= 0 {
				out.note(i, text, content)
			}
		})
	case mediaNone:
	}
	if !ok {
		return &bodyParams{}
	}
	return out
}

// jsonText decodes a JSON string. A list counts as several values.
func jsonText(value, scratch []byte) (kind, []byte) {
	switch value[0] {
	case '"':
		if decoded, fits := unescape(value[1:len(value)-1], scratch); fits {
			return text, decoded
		}
		return long, nil
	case '[':
		return repeated, nil
	default:
		return other, nil
	}
}

// memberIndex returns the index of the parameter that a member name in JSON, still escaped,
// stands for, or -1 if there is none.
func memberIndex(name []byte, params []param) int {
	if bytes.IndexByte(name, '\\') >= 0 {
		var scratch [256]byte
		decoded, fits := unescape(name, scratch[:])
		if !fits {
			return -1
		}
		name = decoded
	}
	return paramIndex(name, params)
}

func paramIndex(name []byte, params []param) int {
	for i := range params {
		if params[i].is(name) {
			return i
		}
	}
	return -1
}
