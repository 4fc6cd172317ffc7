package accesslog

import (
	"fmt"
	"strconv"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"

	"github.com/meshgate/meshgate/filter/contract"
)

// Expressions (CEL) about a handshake. Envoy says why one has failed in words of its own,
// behind which are the names in the certificate: unnamed holds where none of them is one
// of those that are let in.
const (
	failure = "connection.transport_failure_reason"
	mark    = "SAN matcher"
	unnamed = failure + ".contains('" + mark + "')"
	// printable are the words from the mark on that can stand in JSON as they are, until
	// the first sign that cannot: all of ASCII that is printed, but for the double quote
	// and the backslash. Who signs certificates for the mesh from outside decides what is
	// in them.
	printable = mark + "[]-~ !#-[]*"
)

// maxDetails bounds the words of a line: a certificate may have very many names.
const maxDetails = 1000

// Handshakes is the logger of the handshakes of an inbound of TCP that fail for want of a
// permission, none where nothing is logged. It writes a line as [Sidecar] does in its
// default format; a format of a user is not followed.
//
// Envoy has no mark for such a handshake that a filter could look at. What it has of the
// connection is that permissions have noted nothing, which is also so where a client has
// left. So the text tells: each piece of it is nothing unless the handshake failed for
// that reason, and an empty text writes no line. A filter that reads expressions would be
// shorter, and is refused by an agent of the version before (see [Sidecar]).
func Handshakes(s Settings, p Place) ([]*accesslogv3.AccessLog, error) {
	if !s.Enabled {
		return nil, nil
	}
	format := &corev3.SubstitutionFormatString{
		Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: p.unpermitted()},
		}},
		OmitEmptyValues: true,
	}
	logger, err := loggerOf("envoy.access_loggers.stdout", &streamv3.StdoutAccessLog{
		AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{LogFormat: format},
	}, noted(networkPermissions, networkVerdict, true, ""))
	if err != nil {
		return nil, fmt.Errorf("the log of handshakes: %w", err)
	}
	return []*accesslogv3.AccessLog{logger}, nil
}

// unpermitted is the format of a line, or of nothing. Envoy joins no texts in expressions;
// what it extracts, which is nothing where there is nothing to extract, it puts into a
// text.
func (p Place) unpermitted() string {
	head := `","decision":"` + string(contract.Refused) + `","reason":"` + string(contract.ReasonNoPermission) +
		`","mesh":"` + plainly(p.Mesh) + `","direction":"inbound","service":"` + plainly(p.Service) + `","details":"`
	said := func(text string) string { return where("'" + text + "'") }
	return said(`{"time":"`) + where("request.time") +
		"%CEL(re.extract(" + failure + ",'(" + printable + ")','" + head + `\\1')):` + strconv.Itoa(len(head)+maxDetails) + "%" +
		said(`","client":"`) + where("source.address") + said(`"}\n`)
}

// where is a piece of a line.
func where(piece string) string { return "%CEL(" + unnamed + "?" + piece + ":'')%" }

// plainly keeps the signs of names that mean nothing in JSON, expressions and formats,
// which are those that names of meshes and services may have.
func plainly(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(".-_:", r):
			return r
		}
		return '_'
	}, name)
}
