package mesh

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// These are the placeholders of the mesh in formats of access logs. Envoy does not know them.
const (
	LogMesh             = "MESH_NAME"
	LogSource           = "MESH_SOURCE_SERVICE"
	LogDestination      = "MESH_DESTINATION_SERVICE"
	LogSourceAddress    = "MESH_SOURCE_ADDRESS"
	LogSourceHost       = "MESH_SOURCE_ADDRESS_WITHOUT_PORT"
	LogTrafficDirection = "MESH_TRAFFIC_DIRECTION"
)

// maxLogFormat bounds a format in bytes: every outbound of every proxy has its own copy.
const maxLogFormat = 4 << 10

// Headers come from strangers and may have 60 KiB each. So a line has at most MaxLogHeaders of
// them in all, and no more of each than logHeaderLength, unless the format says how much.
const (
	MaxLogHeaders   = 32
	maxLogHeader    = 4096
	logHeaderLength = ":4096"
)

func isLogHeader(operator string) bool {
	return operator == "REQ" || operator == "RESP" || operator == "TRAILER"
}

// logOperators are Envoy's command operators without arguments (Envoy, access log format
// strings). An operator that is not here is refused, because Envoy refuses a listener with one
// that it does not know, and because some operators read files or variables of the proxy's
// machine.
var logOperators = []string{
	"BYTES_RECEIVED", "BYTES_SENT", "CONNECTION_ID", "CONNECTION_TERMINATION_DETAILS", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS",
	"DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_HEADER_BYTES_RECEIVED", "DOWNSTREAM_HEADER_BYTES_SENT",
	"DOWNSTREAM_LOCAL_ADDRESS", "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_LOCAL_PORT", "DOWNSTREAM_LOCAL_URI_SAN",
	"DOWNSTREAM_PEER_URI_SAN", "DOWNSTREAM_REMOTE_ADDRESS", "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_REMOTE_PORT",
	"DOWNSTREAM_TLS_CIPHER", "DOWNSTREAM_TLS_VERSION", "DOWNSTREAM_TRANSPORT_FAILURE_REASON", "DOWNSTREAM_WIRE_BYTES_RECEIVED",
	"DOWNSTREAM_WIRE_BYTES_SENT", "DURATION", "GRPC_STATUS", "GRPC_STATUS_NUMBER", "HOSTNAME", "PROTOCOL", "REQUESTED_SERVER_NAME",
	"REQUEST_DURATION", "REQUEST_TX_DURATION", "RESPONSE_CODE", "RESPONSE_CODE_DETAILS", "RESPONSE_DURATION", "RESPONSE_FLAGS",
	"RESPONSE_FLAGS_LONG", "RESPONSE_TX_DURATION", "ROUTE_NAME", "START_TIME", "STREAM_ID", "TRACE_ID", "UPSTREAM_CLUSTER",
	"UPSTREAM_HEADER_BYTES_RECEIVED", "UPSTREAM_HEADER_BYTES_SENT", "UPSTREAM_HOST", "UPSTREAM_LOCAL_ADDRESS",
	"UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT", "UPSTREAM_LOCAL_PORT", "UPSTREAM_PEER_URI_SAN", "UPSTREAM_PROTOCOL", "UPSTREAM_REMOTE_ADDRESS",
	"UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "UPSTREAM_REMOTE_PORT", "UPSTREAM_REQUEST_ATTEMPT_COUNT", "UPSTREAM_TLS_CIPHER",
	"UPSTREAM_TLS_VERSION", "UPSTREAM_TRANSPORT_FAILURE_REASON", "UPSTREAM_WIRE_BYTES_RECEIVED", "UPSTREAM_WIRE_BYTES_SENT",
	"VIRTUAL_CLUSTER_NAME",
}

var (
	logOperator   = regexp.MustCompile(`%(?:%|([A-Z0-9_]+)(?:\(([^()]*)\))?(:[0-9]{1,5})?%)`)
	logHeader     = regexp.MustCompile(`^:?[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	logTimeFormat = regexp.MustCompile(`^[A-Za-z0-9%:/ .,+-]{1,64}$`)
)

// LogPiece is a part of a format: text for Envoy, or one of the placeholders of the mesh.
type LogPiece struct{ Text, Placeholder string }

// ParseLogFormat divides a format of access logs at the placeholders of the mesh. wrong says what
// is wrong with the format, and is empty if nothing is.
func ParseLogFormat(format string) (pieces []LogPiece, wrong string) {
	switch {
	case len(format) > maxLogFormat:
		return nil, fmt.Sprintf("must not be longer than %d bytes", maxLogFormat)
	case !utf8.ValidString(format):
		return nil, "must be UTF-8"
	case strings.ContainsFunc(format, func(r rune) bool { return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' }):
		return nil, "must have no control characters, such as line ends: each line gets its own"
	}
	done, text, headers := 0, "", 0
	for _, at := range logOperator.FindAllStringSubmatchIndex(format, -1) {
		before := format[done:at[0]]
		if strings.Contains(before, "%") {
			return nil, lonely(before)
		}
		text += before
		done = at[1]
		op := format[at[0]:at[1]]
		m := logOperator.FindStringSubmatch(op)
		placeholder := m[1]
		if own := strings.HasPrefix(placeholder, "MESH_") && m[2] == "" && m[3] == ""; own && slices.Contains(logPlaceholders, placeholder) {
			pieces = append(pieces, LogPiece{Text: text}, LogPiece{Placeholder: placeholder})
			text = ""
			continue
		}
		if wrong := logOperation(m[1], m[2], m[3], strings.Contains(op, "(")); op != "%%" && wrong != "" {
			return nil, wrong
		}
		if isLogHeader(m[1]) {
			if headers++; headers > MaxLogHeaders {
				return nil, fmt.Sprintf("must not have more than %d headers", MaxLogHeaders)
			}
			if m[3] == "" {
				op = strings.TrimSuffix(op, "%") + logHeaderLength + "%"
			}
		}
		text += op
	}
	if rest := format[done:]; strings.Contains(rest, "%") {
		return nil, lonely(rest)
	}
	pieces = append(pieces, LogPiece{Text: text + format[done:]})
	return slices.DeleteFunc(pieces, func(p LogPiece) bool { return p == LogPiece{} }), ""
}

// LogHeaders counts the headers in a format that [ParseLogFormat] accepts.
func LogHeaders(format string) (n int) {
	for _, m := range logOperator.FindAllStringSubmatch(format, -1) {
		if isLogHeader(m[1]) {
			n++
		}
	}
	return n
}

var logPlaceholders = []string{LogMesh, LogSource, LogDestination, LogSourceAddress, LogSourceHost, LogTrafficDirection}

func lonely(text string) string {
	return fmt.Sprintf("%q has a %% that begins no operator; %%%% stands for the sign itself", text)
}

// logOperation says what is wrong with one operator of Envoy.
func logOperation(name, argument, length string, called bool) string {
	switch {
	case isLogHeader(name):
		names := strings.Split(argument, "?")
		if len(names) > 2 || slices.ContainsFunc(names, func(n string) bool { return !logHeader.MatchString(n) }) {
			return fmt.Sprintf("%%%s(%s)%% must name a header, or two with a ? between them", name, argument)
		}
		if n, err := strconv.Atoi(strings.TrimPrefix(length, ":")); length != "" && (err != nil || n > maxLogHeader) {
			return fmt.Sprintf("%%%s(%s)%s%% is longer than %d", name, argument, length, maxLogHeader)
		}
		return ""
	case !slices.Contains(logOperators, name):
		return fmt.Sprintf("%%%s%% is no operator that access logs may use", name)
	case length != "":
		return fmt.Sprintf("%%%s%s%% has a length, which only headers may have", name, length)
	case called && (name != "START_TIME" || !logTimeFormat.MatchString(argument)):
		return fmt.Sprintf("%%%s(%s)%% has an argument that it cannot have", name, argument)
	}
	return ""
}
