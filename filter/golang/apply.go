package golang

import (
	"strconv"
	"strings"

	"github.com/envoyproxy/envoy/contrib/golang/common/go/api"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

// detailsPrefix begins the response code details of every refusal.
const detailsPrefix = "meshgate_"

// noGRPC is the gRPC status for an answer without one.
const noGRPC = -1

// apply carries a verdict out. It may run outside the worker. Envoy then makes the edits, in
// their order, before the request goes on.
func (s *stream) apply(v *engine.Verdict) api.StatusType {
	if v.Action != engine.Continue && v.Action != engine.Issue {
		return s.refuse(v.Refusal)
	}
	s.strip()
	if v.HideQuery != 0 || v.HideBody != 0 {
		s.rewrite(v)
	}
	for i, name := range s.program.Headers() {
		if v.Remove>>i&1 != 0 {
			s.headers.Del(name)
		}
	}
	if v.Action == engine.Issue {
		return s.issue(v)
	}
	for i, at := range v.Headers {
		s.set(contract.IdentityHeaders[i], string(s.buf[at.Off:at.Off+at.Len]))
	}
	s.body.held.Release()
	return api.Continue
}

// strip removes the headers that clients may not send, unless the listener has removed them. It
// also removes the headers of the hand-over to the OAuth server: a listener that does not
// remove such headers has not written them either, so they come from the client.
func (s *stream) strip() {
	if s.config.strips {
		return
	}
	for name := range s.sent {
		if contract.IsReserved([]byte(name), false) {
			s.headers.Del(name)
		}
	}
}

// set replaces a header. An empty value removes it.
func (s *stream) set(name, value string) {
	if value != "" {
		s.headers.Set(name, value)
	} else if len(s.sent[name]) > 0 {
		s.headers.Del(name)
	}
}

// rewrite removes hidden credentials from the query and the body.
func (s *stream) rewrite(v *engine.Verdict) {
	path, body := s.program.Rewrite(v, []byte(s.first(":path")), []byte(s.first("content-type")), s.request.Body)
	s.headers.SetPath(string(path))
	if v.HideBody == 0 || len(body) == s.body.size {
		return
	}
	if err := s.body.set(body); err != nil {
		panic(err) // the request is refused where the panic is recovered
	}
	if len(s.sent["content-length"]) > 0 {
		s.headers.Set("content-length", strconv.Itoa(len(body)))
	}
}

// issue hands the request to the OAuth server. If the table has no route to that server, issue
// answers the request itself. Otherwise it would go to a workload, past the plugins of that
// workload and with headers that speak for the gateway.
func (s *stream) issue(v *engine.Verdict) api.StatusType {
	s.host.Hasten() // the issued token will be used next
	info := s.callbacks.StreamInfo()
	for _, h := range s.program.HandOver(v, scheme(info), info.DownstreamRemoteAddress()) {
		s.set(h.Name, strings.Clone(h.Value))
	}
	s.callbacks.RefreshRouteCache()
	cluster, err := s.callbacks.GetProperty("xds.cluster_name")
	if err != nil || cluster != contract.OAuthCluster {
		s.host.Log().Error("request for a token refused: its route leads to no OAuth server", "cluster", cluster)
		return s.refuse(nil)
	}
	s.body.held.Release()
	return api.Continue
}

// scheme returns the scheme of the client's connection, whatever the request itself says.
func scheme(info api.StreamInfo) string {
	if info.DownstreamSslConnection() != nil {
		return "https"
	}
	return "http"
}

// refuse answers in place of the upstream. If r is nil, the answer says that nothing could be
// decided. If answering fails, the request does not go on either.
func (s *stream) refuse(r *engine.Refusal) (status api.StatusType) {
	status = api.LocalReply
	s.body.held.Release()
	defer func() {
		if p := recover(); s.faulty(p) {
			s.host.LogPanic("refuse", p)
		}
	}()
	if r == nil {
		r = engine.Undecided
	}
	headers := map[string][]string{}
	for _, h := range r.Headers {
		headers[h[0]] = append(headers[h[0]], h[1])
	}
	body, code := r.Body, int64(noGRPC)
	if engine.IsGRPC([]byte(s.first("content-type"))) {
		body, code = "", int64(r.GRPCStatus)
		headers["grpc-status"], headers["grpc-message"] = []string{strconv.Itoa(r.GRPCStatus)}, []string{r.GRPCMessage()}
	}
	s.callbacks.DecoderFilterCallbacks().SendLocalReply(r.Status, body, headers, code, detailsPrefix+string(r.Reason))
	return status
}
