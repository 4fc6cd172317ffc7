package main

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/meshgate/meshgate/e2e/ports"
)

func TestArguments(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "use -serve or -call"},
		{"-call localhost:1 -ca nowhere.pem", "no such file"},
		{"-call localhost:1 -ca main.go", "holds no certificate"},
		{"-nothing", "flag provided but not defined"},
	} {
		err := run(t.Context(), strings.Fields(c.args), strings.NewReader(""), t.Output())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestServeEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if err := serve(t.Context(), ln.Addr().String()); err == nil {
		t.Error("two servers at one address")
	}
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address, ended := fmt.Sprintf("127.0.0.1:%d", free[0]), make(chan error, 1)
	go func() { ended <- serve(ctx, address) }()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	limited, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if _, err := healthpb.NewHealthClient(conn).Check(limited, &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
