package server

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

var errCompressed = status.Error(codes.Unimplemented, "requests must not be compressed")

// plainStream refuses a stream whose requests may be compressed, before any is read: the
// limits of gRPC count what a message becomes, one message at a time, and sixteen
// megabytes of one letter come in some kilobytes. What can be decompressed is the same for
// a whole process, so any package that is linked in could switch it on.
func plainStream(srv any, g grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	// gRPC keeps the header grpc-encoding from the metadata. A version of it that does not
	// say here what it read lets nobody in, which no test can overlook.
	in, ok := grpc.ServerTransportStreamFromContext(g.Context()).(interface{ RecvCompress() string })
	if !ok {
		return status.Error(codes.Internal, "it cannot be told whether the requests are compressed")
	}
	if e := in.RecvCompress(); e != "" && e != encoding.Identity {
		return errCompressed
	}
	return next(srv, g)
}
