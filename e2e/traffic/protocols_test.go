package traffic_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// startGRPC starts a gRPC server with the health service and returns it with
// host:port.
func startGRPC(options ...grpc.ServerOption) (*health.Server, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	s, h := grpc.NewServer(options...), health.NewServer()
	grpc_health_v1.RegisterHealthServer(s, h)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	DeferCleanup(func() {
		s.Stop()
		Expect(<-done).To(Succeed())
	})
	return h, l.Addr().String()
}

var _ = Describe("gRPC", func() {
	// call asks a server behind the gateway for its health, once and as a stream.
	call := func(authority string, transport credentials.TransportCredentials, port int) {
		conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port), grpc.WithTransportCredentials(transport), grpc.WithAuthority(authority))
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		client := grpc_health_v1.NewHealthClient(conn)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		got, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		ExpectWithOffset(1, got.Status).To(Equal(grpc_health_v1.HealthCheckResponse_SERVING))
		_, err = client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: "unknown"})
		ExpectWithOffset(1, err).To(MatchError(ContainSubstring("unknown service")), "trailers arrive")
		stream, err := client.Watch(ctx, &grpc_health_v1.HealthCheckRequest{})
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		got, err = stream.Recv()
		ExpectWithOffset(1, err).NotTo(HaveOccurred())
		ExpectWithOffset(1, got.Status).To(Equal(grpc_health_v1.HealthCheckResponse_SERVING))
	}
	route := func(name string) {
		api.Must(201, http.MethodPost, "/services/"+name+"/routes", document{
			"hosts": []string{name + ".test"}, "paths": []string{"/grpc.health.v1.Health"}, "strip_path": false,
		})
		api.Converged()
	}
	secure := func() credentials.TransportCredentials {
		return credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	}

	It("passes in cleartext and in TLS", func() {
		_, address := startGRPC()
		api.Must(201, http.MethodPost, "/services", document{"name": "calls", "url": "grpc://" + address})
		route("calls")
		call("calls.test", insecure.NewCredentials(), c.HTTP)
		call("calls.test", secure(), c.HTTPS)
	})

	It("passes to a server that speaks TLS, which is probed by its own protocol", func() {
		ca := newAuthority("grpc")
		h, address := startGRPC(grpc.Creds(credentials.NewServerTLSFromCert(pointer(ca.issue(false, "server", "rpc.test").pair()))))
		authority := id(api.Must(201, http.MethodPost, "/ca_certificates", document{"cert": ca.text}))
		api.Must(201, http.MethodPost, "/upstreams", document{"name": "rpc.test", "healthchecks": document{"active": document{
			"type": "grpcs", "https_sni": "rpc.test", "healthy": document{"interval": 0.2, "successes": 1}, "unhealthy": document{"interval": 0.2, "http_failures": 1},
		}}})
		api.Must(201, http.MethodPost, "/upstreams/rpc.test/targets", document{"target": address})
		api.Must(201, http.MethodPost, "/services", document{"name": "rpcs", "protocol": "grpcs", "host": "rpc.test", "port": 443, "ca_certificates": []string{authority}})
		route("rpcs")
		// The first probe is under way when the cluster serves.
		status := func() string {
			r := probe(http.MethodPost, "rpcs.test", "/grpc.health.v1.Health/Check", "application/grpc")
			return r
		}
		Eventually(status, patience).ShouldNot(ContainSubstring("no healthy upstream"))
		call("rpcs.test", insecure.NewCredentials(), c.HTTP)
		h.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		Eventually(status, patience).Should(ContainSubstring("no healthy upstream"))
		h.SetServingStatus("", grpc_health_v1.HealthCheckResponse_SERVING)
		Eventually(status, patience).ShouldNot(ContainSubstring("no healthy upstream"))
		call("rpcs.test", secure(), c.HTTPS)
	})

	It("has services without a path", func() {
		api.Must(400, http.MethodPost, "/services", document{"name": "path", "protocol": "grpc", "host": "x.test", "path": "/x"})
		api.Must(400, http.MethodPost, "/services", document{"name": "verify", "protocol": "grpc", "host": "x.test", "tls_verify": true})
		r := api.Must(400, http.MethodPost, "/services", document{"name": "tcp", "protocol": "tcp", "host": "x.test"})
		Expect(r.Body).To(ContainSubstring("not supported: tcp"))
	})
})

func pointer[T any](v T) *T { return &v }

// probe sends a request with a host and a content type, and tells what came back.
func probe(method, host, path, contentType string) string {
	req, err := http.NewRequest(method, plain(path), http.NoBody) //nolint:noctx // a test
	Expect(err).NotTo(HaveOccurred())
	req.Host = host
	req.Header.Set("Content-Type", contentType)
	r, err := api.HTTP.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = r.Body.Close() }()
	text, err := io.ReadAll(r.Body)
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprint(r.StatusCode, " ", string(text), " ", r.Header.Get("Grpc-Message"))
}

var _ = Describe("a WebSocket service", func() {
	for _, secure := range []bool{false, true} {
		It(fmt.Sprintf("is upgraded and echoes, TLS %t", secure), func() {
			server := httptest.NewUnstartedServer(http.HandlerFunc(echoUpgrade))
			protocol := "ws"
			if secure {
				server.StartTLS()
				protocol = "wss"
			} else {
				server.Start()
			}
			DeferCleanup(server.Close)
			name := "echo-" + protocol
			fields := document{"url": protocol + "://" + server.Listener.Addr().String()}
			if secure {
				fields["tls_verify"] = false
			}
			expose(name, fields)
			api.Converged()
			conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", c.HTTP), patience)
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func() { _ = conn.Close() }) // the gateway may have been first
			Expect(conn.SetDeadline(time.Now().Add(patience))).To(Succeed())
			_, err = fmt.Fprintf(conn, "GET /%s/chat HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n", name)
			Expect(err).NotTo(HaveOccurred())
			r := bufio.NewReader(conn)
			answer, err := http.ReadResponse(r, nil)
			Expect(err).NotTo(HaveOccurred())
			Expect(answer.StatusCode).To(Equal(http.StatusSwitchingProtocols))
			_, err = fmt.Fprint(conn, "hello\n")
			Expect(err).NotTo(HaveOccurred())
			line, err := r.ReadString('\n')
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.TrimSpace(line)).To(Equal("hello"))
		})
	}
})

// echoUpgrade switches protocols and sends back what comes.
func echoUpgrade(w http.ResponseWriter, _ *http.Request) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	_, _ = fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n") // a failure ends the copy too
	_, _ = io.Copy(conn, buffered)
}
