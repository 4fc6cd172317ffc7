package server

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

var errCompressed = status.Error(codes.Unimplemented, "requests must not be compressed")

// plainStream refuses a stream with compressed requests before any request is read. gRPC
// applies its limits to the decompressed size, one message at a time, and sixteen megabytes of
// one letter fit in a few kilobytes. Decompressors are registered for the whole process, so
// any linked package could enable one.
func plainStream(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	// gRPC removes the header grpc-encoding from the metadata. If a version of gRPC does not
	// provide RecvCompress here, every stream is refused, which no test can overlook.
	in, ok := grpc.ServerTransportStreamFromContext(g.Context()).(interface{ RecvCompress() string })
	if !ok {
		return status.Error(codes.Internal, "it cannot be told whether the requests are compressed")
	}
	if e := in.RecvCompress(); e != "" && e != encoding.Identity {
		return errCompressed
	}
	return next(srv, g)
}
