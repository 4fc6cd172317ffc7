// Command authz is the smallest ext_authz server that does the filter's job, for
// comparison: a known bearer token gets five headers, any other a 401. It listens on the socket
// whose path it is given, as the service of meshgate does.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
)

type entry struct{ vals [5]string }

var keys = [5]string{"x-consumer-id", "x-consumer-custom-id", "x-consumer-username", "x-authenticated-scope", "x-credential-identifier"}
var table = map[string]*entry{}

type srv struct {
	authv3.UnimplementedAuthorizationServer
}

func (srv) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	h := r.GetAttributes().GetRequest().GetHttp().GetHeaders()["authorization"]
	var e *entry
	if len(h) > 7 && h[:7] == "Bearer " {
		e = table[h[7:]]
	}
	if e == nil {
		return &authv3.CheckResponse{Status: &status.Status{Code: 16},
			HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
				Status: &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized}}}}, nil
	}
	hs := make([]*corev3.HeaderValueOption, 5)
	for i := range hs {
		hs[i] = &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: keys[i], Value: e.vals[i]},
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD}
	}
	return &authv3.CheckResponse{Status: &status.Status{Code: 0},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{Headers: hs}}}, nil
}

func main() {
	for i := 0; i < 10000; i++ {
		table[fmt.Sprintf("%032d", i)] = &entry{[5]string{"6b6e2c1a-8d7b-4a6e-9a55-0c6f8e1d2f3a", "custom-4711", "user-4711", "email profile phone", "7f0a55f0-cd11-4f08-92e3-8a0f1c2d3e4f"}}
	}
	l, err := net.Listen("unix", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	g := grpc.NewServer()
	authv3.RegisterAuthorizationServer(g, srv{})
	if err := g.Serve(l); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
