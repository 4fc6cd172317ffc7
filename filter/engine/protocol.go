package engine

import (
	"bytes"

	"github.com/meshgate/meshgate/filter/contract"
)

// protocolStep runs before all plugins and refuses requests that do not use the protocol of
// the route. Its headers are among the early ones.
type protocolStep struct {
	webSocket                                 bool
	contentType                               int
	method, upgrade, connection, key, version int
}

// protocolHeaders lists the headers by which a protocol is recognised.
func protocolHeaders(p contract.Protocol) []string {
	switch p {
	case contract.ProtocolGRPC:
		return []string{typeHeader}
	case contract.ProtocolWebSocket:
		return []string{methodHeader, upgradeHeader, connectionHeader, wsKeyHeader, wsVersionHeader}
	default:
		return nil
	}
}

func newProtocol(p contract.Protocol, l *headerList) *protocolStep {
	if p == "" {
		return nil
	}
	return &protocolStep{
		webSocket: p == contract.ProtocolWebSocket, contentType: l.index(typeHeader), method: l.index(methodHeader),
		upgrade: l.index(upgradeHeader), connection: l.index(connectionHeader),
		key: l.index(wsKeyHeader), version: l.index(wsVersionHeader),
	}
}

// run reports done if the request is refused.
func (s *protocolStep) run(req *Request, v *Verdict) (done bool) {
	switch {
	case s.webSocket && !s.handshake(req):
		return refuse(v, refuseNotWebSocket)
	case s.webSocket:
		return false
	case !IsGRPC(req.Headers[s.contentType]):
		return refuse(v, refuseNotGRPC)
	case !req.HTTP2:
		return refuse(v, refuseOldHTTP)
	}
	return false
}

// handshake recognises the opening handshake of RFC 6455 section 4.1. Over HTTP/2 (RFC 8441)
// the proxy shows the extended CONNECT as the same GET, but without a key, because HTTP/2
// does not use one.
func (s *protocolStep) handshake(req *Request) bool {
	return string(req.Headers[s.method]) == "GET" &&
		foldsTo(req.Headers[s.upgrade], "websocket") &&
		listsUpgrade(req.Headers[s.connection]) &&
		string(req.Headers[s.version]) == "13" &&
		(req.HTTP2 && req.Headers[s.key] == nil || nonce(req.Headers[s.key]))
}

// listsUpgrade reports whether a comma-separated list contains the word "upgrade".
func listsUpgrade(list []byte) bool {
	for len(list) > 0 {
		item := list
		if n := bytes.IndexByte(list, ','); n >= 0 {
			item, list = list[:n], list[n+1:]
		} else {
			list = nil
		}
		if foldsTo(bytes.Trim(item, " \t"), "upgrade") {
			return true
		}
	}
	return false
}

// nonce recognises 16 bytes in base64.
func nonce(key []byte) bool {
	if len(key) != 24 || key[22] != '=' || key[23] != '=' {
		return false
	}
	for _, c := range key[:22] {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/':
		default:
			return false
		}
	}
	return true
}

// IsGRPC recognises a content type of gRPC: application/grpc, alone or followed by + or ;.
// The proxy uses the same rule when it answers. Source: the gRPC project's protocol over
// HTTP/2, "Requests".
func IsGRPC(contentType []byte) bool {
	const t = "application/grpc"
	if len(contentType) < len(t) || string(contentType[:len(t)]) != t {
		return false
	}
	return len(contentType) == len(t) || contentType[len(t)] == '+' || contentType[len(t)] == ';'
}
