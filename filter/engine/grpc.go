package engine

import "net/http"

// Status codes of gRPC. Source: the gRPC project's statuscodes document.
const (
	grpcOK                 = 0
	grpcCancelled          = 1
	grpcInvalidArgument    = 3
	grpcDeadlineExceeded   = 4
	grpcNotFound           = 5
	grpcAlreadyExists      = 6
	grpcPermissionDenied   = 7
	grpcResourceExhausted  = 8
	grpcUnimplemented      = 12
	grpcInternal           = 13
	grpcUnavailable        = 14
	grpcUnauthenticated    = 16
	statusClientClosed     = 499
	firstServerErrorStatus = 500
)

// grpcStatus is what a gRPC client is told instead of an HTTP status. It must be
// sent: left to itself, Envoy answers a refused gRPC call with status 0.
func grpcStatus(status int) int {
	switch status {
	case http.StatusOK:
		return grpcOK
	case http.StatusBadRequest:
		return grpcInvalidArgument
	case http.StatusUnauthorized:
		return grpcUnauthenticated
	case http.StatusForbidden:
		return grpcPermissionDenied
	case http.StatusNotFound:
		return grpcNotFound
	case http.StatusConflict:
		return grpcAlreadyExists
	case http.StatusTooManyRequests:
		return grpcResourceExhausted
	case statusClientClosed:
		return grpcCancelled
	case http.StatusNotImplemented:
		return grpcUnimplemented
	case http.StatusServiceUnavailable:
		return grpcUnavailable
	case http.StatusGatewayTimeout:
		return grpcDeadlineExceeded
	}
	if status >= firstServerErrorStatus {
		return grpcInternal
	}
	return grpcInvalidArgument
}

// GRPCMessage is the grpc-message of a refusal. A gRPC client gets no body.
func (r *Refusal) GRPCMessage() string {
	switch r.GRPCStatus {
	case grpcUnauthenticated:
		return "Unauthenticated"
	case grpcPermissionDenied:
		return "PermissionDenied"
	case grpcUnavailable:
		return "Unavailable"
	case grpcResourceExhausted:
		return "ResourceExhausted"
	case grpcInvalidArgument:
		return "InvalidArgument"
	default:
		return "Internal"
	}
}
