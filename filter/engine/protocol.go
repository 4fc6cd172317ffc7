package engine

import (
	"bytes"

	"github.com/meshgate/meshgate/filter/contract"
)

// protocolStep refuses, before any plugin runs, what does not speak the
// protocol of the route. Its headers are among the early ones.
type protocolStep struct {
	webSocket                                 bool
	contentType                               int
	method, upgrade, connection, key, version int
}

// protocolHeaders lists what a protocol is known by.
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

// handshake recognises the opening handshake of RFC 6455 section 4.1. Over
// HTTP/2 (RFC 8441) the proxy shows the extended CONNECT as the same GET, without
// a key, which that does not use.
func (s *protocolStep) handshake(req *Request) bool {
	return string(req.Headers[s.method]) == "GET" &&
		foldsTo(req.Headers[s.upgrade], "websocket") &&
		listsUpgrade(req.Headers[s.connection]) &&
		string(req.Headers[s.version]) == "13" &&
		(req.HTTP2 && req.Headers[s.key] == nil || nonce(req.Headers[s.key]))
}

// listsUpgrade looks for the word in a comma-separated list.
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

// IsGRPC recognises a content type of gRPC: application/grpc, alone or followed by + or ;. Source: the
// gRPC project's protocol over HTTP/2, "Requests". It is what the proxy takes
// for gRPC when it answers.
func IsGRPC(contentType []byte) bool {
	const t = "application/grpc"
	if len(contentType) < len(t) || string(contentType[:len(t)]) != t {
		return false
	}
	return len(contentType) == len(t) || contentType[len(t)] == '+' || contentType[len(t)] == ';'
}
