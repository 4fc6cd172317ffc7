package engine

import "net/http"

// Status codes of gRPC. Source: the gRPC project's statuscodes document.
const (
	grpcOK                = 0
	grpcCancelled         = 1
	grpcUnknown           = 2
	grpcInvalidArgument   = 3
	grpcDeadlineExceeded  = 4
	grpcNotFound          = 5
	grpcAlreadyExists     = 6
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcUnimplemented     = 12
	grpcInternal          = 13
	grpcUnavailable       = 14
	grpcUnauthenticated   = 16
	statusClientClosed    = 499
)

// grpcStatus translates an HTTP status into the status for a gRPC client. It must be sent,
// because Envoy by itself answers a refused gRPC call with status 0.
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
	switch status / 100 {
	case 2:
		return grpcOK
	case 4:
		return grpcInvalidArgument
	case 5:
		return grpcInternal
	default:
		return grpcUnknown
	}
}

// GRPCMessage is the grpc-message of a refusal. A gRPC client gets no body.
func (r *Refusal) GRPCMessage() string {
	if r.grpcText != "" {
		return r.grpcText
	}
	switch r.GRPCStatus {
	case grpcOK:
		return "OK"
	case grpcCancelled:
		return "Canceled"
	case grpcUnknown:
		return "Unknown"
	case grpcInvalidArgument:
		return "InvalidArgument"
	case grpcDeadlineExceeded:
		return "DeadlineExceeded"
	case grpcNotFound:
		return "NotFound"
	case grpcAlreadyExists:
		return "AlreadyExists"
	case grpcPermissionDenied:
		return "PermissionDenied"
	case grpcResourceExhausted:
		return "ResourceExhausted"
	case grpcUnimplemented:
		return "Unimplemented"
	case grpcUnavailable:
		return "Unavailable"
	case grpcUnauthenticated:
		return "Unauthenticated"
	default:
		return "Internal"
	}
}
