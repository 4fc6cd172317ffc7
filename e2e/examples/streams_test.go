package examples_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/e2e/framework"
)

// issue gets a token by client credentials at a route of a name.
func issue(url, clientID, secret string) string {
	r, err := framework.Do(f.HTTP, http.MethodPost, url, http.Header{"Content-Type": {"application/json"}},
		fmt.Sprintf(`{"grant_type":"client_credentials","client_id":%q,"client_secret":%q}`, clientID, secret))
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	ExpectWithOffset(1, r.Status).To(Equal(200), r.Body)
	token, _ := r.JSON()["access_token"].(string)
	return token
}

// write writes a document and expects it to be new.
func write(path string, doc map[string]any) { f.Must(201, http.MethodPost, path, doc) }

var _ = Describe("a gRPC client", Ordered, func() {
	var token string

	BeforeAll(func() {
		port := framework.FreePorts(1)[0]
		address := "127.0.0.1:" + strconv.Itoa(port)
		server := framework.Start(nil, build("grpc"), "-serve", address)
		framework.WaitServing(address, server.Output)
		write("/services", map[string]any{"name": "health", "protocol": "grpc", "host": "127.0.0.1", "port": port})
		write("/services/health/routes", map[string]any{"name": "health", "protocols": []string{"grpcs"}, "paths": []string{"/grpc.health.v1.Health/"}})
		write("/services/health/routes", map[string]any{"name": "health-tokens", "protocols": []string{"https"}, "methods": []string{"POST"}, "paths": []string{"/health"}})
		for _, route := range []string{"health", "health-tokens"} {
			write("/routes/"+route+"/plugins", map[string]any{"name": "oauth2", "config": map[string]any{"enable_client_credentials": true}})
		}
		f.Converged()
		token = issue(fmt.Sprintf("https://localhost:%d/health/oauth2/token", c.HTTPS), framework.ClientID, framework.ClientSecret)
	})

	// check calls the service with a value of the metadata authorization, or none.
	check := func(authorization string) error {
		creds, err := credentials.NewClientTLSFromFile(c.CAFile(), "localhost")
		Expect(err).NotTo(HaveOccurred())
		conn, err := grpc.NewClient(fmt.Sprintf("localhost:%d", c.HTTPS), grpc.WithTransportCredentials(creds))
		Expect(err).NotTo(HaveOccurred())
		defer func() { _ = conn.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if authorization != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
		}
		_, err = healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	}

	It("calls with a token of the other route", func() {
		Expect(check("bearer " + token)).To(Succeed())
	})

	It("is refused with Unauthenticated", func() {
		for _, authorization := range []string{"", "bearer unknown", "bearer", "Basic eDp5"} {
			Expect(status.Code(check(authorization))).To(Equal(codes.Unauthenticated), authorization)
		}
		other := f.MustMint(c.HTTPS)
		Expect(status.Code(check("bearer "+other))).To(Equal(codes.Unauthenticated), "a token of another service")
		f.Must(204, http.MethodDelete, "/oauth2_tokens/"+token, nil)
		Expect(status.Code(check("bearer "+token))).To(Equal(codes.Unauthenticated), "a token that was deleted")
	})
})

var _ = Describe("a WebSocket client", Ordered, func() {
	var token string
	const script = "docs/examples/websocket/echo.py"

	BeforeAll(func() {
		port := framework.FreePorts(1)[0]
		address := "127.0.0.1:" + strconv.Itoa(port)
		server := framework.Start(nil, filepath.Join(framework.Root(), ".tools", "clients", "bin", "python"), filepath.Join(framework.Root(), script), "serve", "127.0.0.1", strconv.Itoa(port))
		framework.WaitServing(address, server.Output)
		write("/services", map[string]any{"name": "feed", "host": "127.0.0.1", "port": port})
		write("/services/feed/routes", map[string]any{"name": "feed", "protocols": []string{"wss"}, "hosts": []string{"localhost"}, "paths": []string{"/feed"}})
		write("/services/feed/routes", map[string]any{"name": "feed-tokens", "protocols": []string{"https"}, "methods": []string{"POST"}, "hosts": []string{"localhost"}, "paths": []string{"/feed"}})
		for _, target := range []string{"services/feed", "routes/feed-tokens"} {
			write("/"+target+"/plugins", map[string]any{"name": "oauth2", "config": map[string]any{
				"enable_client_credentials": true, "global_credentials": true, "scopes": []string{"email"},
			}})
		}
		f.Converged()
		token = issue(fmt.Sprintf("https://localhost:%d/feed/oauth2/token", c.HTTPS), framework.ClientID, framework.ClientSecret)
	})

	call := func(query, token string) string {
		env := []string{}
		if token != "" {
			env = append(env, "TOKEN="+token)
		}
		return python(env, script, "call", fmt.Sprintf("wss://localhost:%d/feed%s", c.HTTPS, query), c.CAFile(), "hello")
	}

	It("shakes hands with a token in the header or in the query", func() {
		Expect(call("", token)).To(Equal("hello"))
		Expect(call("?access_token="+token, "")).To(Equal("hello"))
	})

	It("is refused before the upgrade", func() {
		for _, query := range []string{"", "?access_token=unknown", "?access_token="} {
			Expect(call(query, "")).To(Equal("refused: 401"), query)
		}
		Expect(call("", "unknown")).To(Equal("refused: 401"))
	})

	It("cannot get a token where only handshakes are welcome", func() {
		r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("https://localhost:%d/feed/oauth2/token", c.HTTPS), http.Header{"Authorization": {"Bearer " + token}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(400), "no handshake: %s", r.Body)
	})
})
