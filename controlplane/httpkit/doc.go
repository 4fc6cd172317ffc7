// Package httpkit is what the HTTP APIs of the control plane share: servers with limits and
// an owner, a request log, recovery, decoding of bodies, a router over one list of endpoints
// that enforces their declarations, protection against browsers on loopback, and the
// splitter that serves gRPC and HTTP on one TLS port. It knows nothing about resources.
package httpkit
