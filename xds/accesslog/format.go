package accesslog

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxFormat bounds a format in bytes.
const maxFormat = 16 << 10

// maxDepth bounds how many objects may lie within each other: Envoy reads no message of
// which the parts lie too deep, and a listener with such a log serves nobody.
const maxDepth = 8

// operator is one of Envoy's command operators, with its arguments and the length
// that it is cut at, or a sign that stands for itself.
var operator = regexp.MustCompile(`%(?:%|([A-Z0-9_]+)(?:\(([^()]*)\))?(:[0-9]{1,5})?%)`)

// plain are the operators without arguments that show no credential. The list is one
// of what is allowed: an operator that a later Envoy adds shows nothing until
// somebody has looked at it.
var plain = []string{
	"BYTES_RECEIVED", "BYTES_SENT", "CONNECTION_ID", "CONNECTION_TERMINATION_DETAILS", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
	"DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_HEADER_BYTES_RECEIVED", "DOWNSTREAM_HEADER_BYTES_SENT",
	"DOWNSTREAM_LOCAL_ADDRESS", "DOWNSTREAM_LOCAL_PORT", "DOWNSTREAM_REMOTE_ADDRESS", "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
	"DOWNSTREAM_REMOTE_PORT", "DOWNSTREAM_TLS_CIPHER", "DOWNSTREAM_TLS_VERSION", "DOWNSTREAM_WIRE_BYTES_RECEIVED",
	"DOWNSTREAM_WIRE_BYTES_SENT", "DURATION", "GRPC_STATUS", "GRPC_STATUS_NUMBER", "HOSTNAME", "PROTOCOL", "REQUESTED_SERVER_NAME",
	"REQUEST_DURATION", "REQUEST_TX_DURATION", "RESPONSE_CODE", "RESPONSE_CODE_DETAILS", "RESPONSE_DURATION", "RESPONSE_FLAGS",
	"RESPONSE_FLAGS_LONG", "RESPONSE_TX_DURATION", "ROUTE_NAME", "STREAM_ID", "TRACE_ID", "UPSTREAM_CLUSTER", "UPSTREAM_HOST",
	"UPSTREAM_LOCAL_ADDRESS", "UPSTREAM_PROTOCOL", "UPSTREAM_REMOTE_ADDRESS", "UPSTREAM_REQUEST_ATTEMPT_COUNT",
	"UPSTREAM_TLS_VERSION", "UPSTREAM_TRANSPORT_FAILURE_REASON", "VIRTUAL_CLUSTER_NAME", "START_TIME",
}

var (
	timeFormat = regexp.MustCompile(`^[A-Za-z0-9%:/ .,+-]{1,64}$`)
	headerName = regexp.MustCompile(`^:?[a-z0-9][a-z0-9_-]{0,63}$`)
	// secretive are words in the names of headers whose values are none of a log's
	// business: credentials, or paths and addresses that may have some in them.
	secretive = []string{
		"auth", "token", "key", "secret", "cookie", "password", "passwd", "credential", "session", "signature", "assertion",
		"jwt", "bearer", "otp", "dpop", "csrf", "saml", "location", "referer", "referrer", "refresh", "redirect", "url", "uri", "path", "query",
		"sec-websocket-protocol", "x-meshgate", "client-cert",
	}
	// innocent have such a word in them all the same.
	innocent = []string{
		":authority", contract.IdentityHeaders[contract.HeaderCredentialIdentifier], contract.IdentityHeaders[contract.HeaderAuthenticatedUserID],
		contract.IdentityHeaders[contract.HeaderAuthenticatedScope], "www-authenticate",
	}
	// identities name who asks, which clients may say of themselves until the filter
	// has looked: %MESHGATE(...)% reads them where they are true.
	identities = contract.IdentityHeaders[:]
)

// Format is a format that was checked. It does not change: listeners share it.
type Format struct{ fields map[string]any }

// part is a piece of a text: one of our own words, or else what Envoy reads as it is.
type part struct{ text, word, length string }

// Parse reads a format: a JSON object whose values are texts with command operators
// of Envoy, or such objects. An error says what is wrong with it; a format that
// could show a credential is wrong.
func Parse(text string) (*Format, error) {
	if len(text) > maxFormat {
		return nil, fmt.Errorf("is longer than %d bytes", maxFormat)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(text), &fields); err != nil || fields == nil {
		return nil, errors.New("is not one JSON object")
	}
	if err := check("", fields, 1); err != nil {
		return nil, err
	}
	return &Format{divided(fields)}, nil
}

// divided are checked fields with the parts of each text: every port of every proxy has
// words of its own, and searching the texts for them again costs more than the rest of
// a listener.
func divided(fields map[string]any) map[string]any {
	out := make(map[string]any, len(fields))
	for name, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			out[name] = divided(inner)
			continue
		}
		text, _ := value.(string)
		out[name] = partsOf(text)
	}
	return out
}

func partsOf(text string) (out []part) {
	done := 0
	for _, at := range operator.FindAllStringSubmatchIndex(text, -1) {
		m := operator.FindStringSubmatch(text[at[0]:at[1]])
		if m[1] != "MESHGATE" {
			continue
		}
		out = append(out, part{text: text[done:at[0]]}, part{word: m[2], length: m[3]})
		done = at[1]
	}
	return append(out, part{text: text[done:]})
}

func check(path string, fields map[string]any, depth int) error {
	switch {
	case len(fields) == 0:
		return errors.New("has an object without fields")
	case depth > maxDepth:
		return fmt.Errorf("has more than %d objects within each other", maxDepth)
	}
	for name, value := range fields {
		at := strings.TrimPrefix(path+"."+name, ".")
		var err error
		switch v := value.(type) {
		case map[string]any:
			err = check(at, v, depth+1)
		case string:
			if err = checkText(v); err != nil {
				err = fmt.Errorf("%s: %w", at, err)
			}
		default:
			err = fmt.Errorf("%s: must be a text or an object", at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkText(text string) error {
	for _, m := range operator.FindAllStringSubmatch(text, -1) {
		if m[0] == "%%" {
			continue
		}
		if err := checkOperator(m[1], m[2], m[3]); err != nil {
			return err
		}
	}
	if rest := operator.ReplaceAllString(text, ""); strings.Contains(rest, "%") {
		return fmt.Errorf("%q has a %% that begins no operator; %%%% stands for the sign itself", text)
	}
	return nil
}

func checkOperator(name, argument, length string) error {
	switch {
	case name == "MESHGATE":
		if _, ok := words[argument]; !ok {
			return fmt.Errorf("%%MESHGATE(%s)%% is none of %s", argument, strings.Join(Words(), ", "))
		}
		return nil
	case name == "REQ" || name == "RESP" || name == "TRAILER":
		return checkHeaders(name, argument)
	case !slices.Contains(plain, name):
		return fmt.Errorf("%%%s%% is not among the operators that show no credential", name)
	case length != "":
		return fmt.Errorf("%%%s%s%% has a length, which Envoy takes of headers and words alone", name, length)
	case argument != "" && (name != "START_TIME" || !timeFormat.MatchString(argument)):
		return fmt.Errorf("%%%s(%s)%% has an argument that it cannot have", name, argument)
	}
	return nil
}

// checkHeaders checks NAME or NAME?OTHER.
func checkHeaders(operator, argument string) error {
	names := strings.Split(strings.ToLower(argument), "?")
	if len(names) > 2 {
		return fmt.Errorf("%%%s(%s)%% names more than two headers", operator, argument)
	}
	for _, name := range names {
		spelt := strings.ReplaceAll(name, "_", "-")
		switch {
		case !headerName.MatchString(name):
			return fmt.Errorf("%%%s(%s)%% names no header", operator, argument)
		case slices.Contains(identities, spelt):
			return fmt.Errorf("%%%s(%s)%%: clients may send this header; %%MESHGATE(...)%% says who asks", operator, argument)
		case name == ":path":
			return fmt.Errorf("%%%s(%s)%%: queries may hold credentials; %%MESHGATE(path)%% is the path without", operator, argument)
		case slices.Contains(innocent, spelt):
		case slices.ContainsFunc(secretive, func(w string) bool { return strings.Contains(spelt, w) }):
			return fmt.Errorf("%%%s(%s)%%: this header may hold a credential", operator, argument)
		}
	}
	return nil
}

// fieldsOf are the fields as Envoy is told them for one ending.
func (f *Format) fieldsOf(e ending, m contract.Mode) map[string]any {
	return translated(f.fields, func(word, length string) string { return shortened(operatorOf(word, e, m), length) })
}

// translated are the fields of a format with each of our own words as say has it, cut at
// a length that is empty or ":" and a number.
func translated(fields map[string]any, say func(word, length string) string) map[string]any {
	out := make(map[string]any, len(fields))
	for name, value := range fields {
		if inner, ok := value.(map[string]any); ok {
			out[name] = translated(inner, say)
			continue
		}
		parts, _ := value.([]part)
		var text strings.Builder
		for _, p := range parts {
			if p.word == "" {
				text.WriteString(p.text)
			} else {
				text.WriteString(say(p.word, p.length))
			}
		}
		out[name] = text.String()
	}
	return out
}

// lengthOf is the end of an operator, with the length that it is cut at.
var lengthOf = regexp.MustCompile(`(:[0-9]+)?%$`)

// cuttable are the operators that Envoy takes a length of.
var cuttable = regexp.MustCompile(`^%(?:REQ|REQ_WITHOUT_QUERY|PATH|METADATA|DYNAMIC_METADATA|CEL)\(`)

// shortened is an operator that is cut at another length, if one is given and Envoy takes
// it. The others are short: words of Envoy's own, and names in a certificate.
func shortened(op, length string) string {
	if length == "" || !cuttable.MatchString(op) {
		return op
	}
	return lengthOf.ReplaceAllString(op, length+"%")
}
