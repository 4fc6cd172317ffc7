// Command grpc is the two ends of a gRPC call through the gateway: the standard
// health service, and a client that sends a bearer token with each call.
//
//	grpc -serve 127.0.0.1:9003
//	grpc -call localhost:8443 -ca .state/ca.pem <token-file
//
// Source: requirement "gRPC".
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "grpc:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("grpc", flag.ContinueOnError)
	address := flags.String("serve", "", "serve at this address")
	target := flags.String("call", "", "call the gateway at this address, with the token that is read from the standard input")
	ca := flags.String("ca", "", "file with the authority of the gateway's certificate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *address != "":
		return serve(ctx, *address)
	case *target != "":
		token, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		return call(ctx, *target, *ca, strings.TrimSpace(string(token)), out)
	}
	return errors.New("use -serve or -call")
}

// serve answers health checks until ctx ends.
func serve(ctx context.Context, address string) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	healthpb.RegisterHealthServer(s, health.NewServer())
	defer context.AfterFunc(ctx, s.Stop)()
	return s.Serve(ln)
}

// call asks once. Without a token it is refused with the code Unauthenticated.
func call(ctx context.Context, target, ca, token string, out io.Writer) error {
	pem, err := os.ReadFile(ca) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s holds no certificate", ca)
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12})))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "bearer "+token)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, answer.GetStatus())
	return err
}
