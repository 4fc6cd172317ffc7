package extauthz

import (
	"bytes"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// edits are the changes of a request. Envoy removes headers after it sets others, so a
// header that is set must not be removed as well.
type edits struct {
	set    []*corev3.HeaderValueOption
	names  map[string]bool // names of the headers in set
	remove []string
}

// put sets a header and replaces all its values. An empty value removes the header.
func (e *edits) put(name, value string) {
	if value == "" {
		e.remove = append(e.remove, name)
		return
	}
	e.set = append(e.set, option(name, value))
	if e.names == nil {
		e.names = map[string]bool{}
	}
	e.names[name] = true
}

func option(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// pass lets a request go on, upstream or to the OAuth server, as a verdict says.
func (m *message) pass(p *engine.Program, v *engine.Verdict, buf []byte) *authv3.CheckResponse {
	var e edits
	if v.HideQuery != 0 {
		path, _ := p.Rewrite(v, bytes.Clone(m.first(":path")), nil, nil)
		e.put(":path", string(path))
	}
	if v.Action == engine.Issue {
		for _, h := range p.HandOver(v, m.scheme(), m.source) {
			e.put(h.Name, h.Value)
		}
	} else {
		for i, s := range v.Headers {
			e.put(contract.IdentityHeaders[i], string(buf[s.Off:s.Off+s.Len]))
		}
	}
	for name := range m.headers {
		if contract.IsReserved([]byte(name), v.Action == engine.Issue) && !e.names[name] {
			e.remove = append(e.remove, name)
		}
	}
	for i, name := range p.Headers() {
		if v.Remove>>i&1 != 0 {
			e.remove = append(e.remove, name)
		}
	}
	r := &authv3.CheckResponse{
		Status:       &status.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{Headers: e.set, HeadersToRemove: e.remove}},
	}
	if v.Action == engine.Issue {
		m.noteIssued(r)
	} else {
		m.server.decisions.allowed.Add(1)
		r.DynamicMetadata = said("") // tells it from a request without an answer
	}
	return r
}

// refuse answers in place of the upstream. v is the verdict with its buffer, or nil.
func (m *message) refuse(r *engine.Refusal, v *engine.Verdict, buf []byte) *authv3.CheckResponse {
	denied := &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(r.Status)}, Body: r.Body} //nolint:gosec // an HTTP status
	for _, h := range r.Headers {
		denied.Headers = append(denied.Headers, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: h[0], Value: h[1]}, AppendAction: corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD,
		})
	}
	if engine.IsGRPC(m.first("content-type")) {
		denied.Body = ""
		denied.Headers = append(denied.Headers, option("grpc-status", strconv.Itoa(r.GRPCStatus)), option("grpc-message", r.GRPCMessage()))
	}
	answer := &authv3.CheckResponse{
		Status:       &status.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: denied},
	}
	m.noteRefused(answer, r.Reason, v, buf)
	return answer
}
