package edge_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// Trailers say as little about a client as its headers may, also on a route without
// plugins. Upstreams that are asked over HTTP/2 get trailers; the route for gRPC has
// a chain that looks at the protocol alone, the other one has none.
var _ = Describe("trailers", Ordered, func() {
	BeforeAll(func() {
		f.Must(201, "POST", "/services", map[string]any{"name": "streams", "host": "127.0.0.1", "port": open.port(), "protocol": "grpc"})
		for _, r := range []map[string]any{
			{"name": "streams-plain", "paths": []string{"/streams/plain"}},
			{"name": "streams-grpc", "paths": []string{"/streams/grpc"}, "protocols": []string{"grpc", "grpcs"}},
		} {
			f.Must(201, "POST", "/services/streams/routes", r)
		}
		f.Converged()
		DeferCleanup(func() {
			for _, path := range []string{"/routes/streams-plain", "/routes/streams-grpc", "/services/streams"} {
				f.Must(204, "DELETE", path, nil)
			}
			f.Converged()
		})
	})

	It("carry no identity, also where nothing is protected", func() {
		forged := claims(map[string]string{
			"x-consumer-id": "forged", "x-authenticated-userid": "forged", "x-credential-identifier": "forged", "x-anonymous-consumer": "true",
			"x-meshgate-oauth": "forged", "x-meshgate-client": "forged", "x-envoy-internal": "true",
			// The gateway's own word stands in headers alone.
			"x-forwarded-for": "forged", "x-forwarded-proto": "https", "x-real-ip": "forged", "x-envoy-external-address": "forged", "forwarded": "for=192.0.2.9",
		})
		for name, client := range clients() {
			paths := []string{"/streams/plain"}
			if strings.HasPrefix(name, "HTTP/2") {
				paths = append(paths, "/streams/grpc")
			}
			for _, path := range paths {
				for _, size := range []int{0, 1, 100_000} {
					By(name + " " + path)
					req, err := http.NewRequest(http.MethodPost, client.base+path, io.NopCloser(bytes.NewReader(make([]byte, size))))
					Expect(err).NotTo(HaveOccurred())
					if path == "/streams/grpc" {
						req.Header.Set("Content-Type", "application/grpc")
						req.Header.Set("TE", "trailers")
					}
					req.Trailer = forged.Clone()
					req.Trailer.Set("X-Kept", "kept")
					got := open.during(func() {
						resp, err := client.Do(req)
						Expect(err).NotTo(HaveOccurred())
						_, err = io.Copy(io.Discard, resp.Body)
						Expect(err).NotTo(HaveOccurred())
						Expect(resp.Body.Close()).To(Succeed())
						Expect(resp.StatusCode).To(Equal(200))
					})
					Expect(got).To(HaveLen(1))
					Expect(got[0].Bytes).To(BeEquivalentTo(size))
					if strings.HasPrefix(name, "HTTP/2") {
						Expect(got[0].Trailer).To(HaveKeyWithValue("X-Kept", []string{"kept"}), "trailers arrive")
					}
					for spelling := range forged {
						Expect(got[0].Trailer.Values(spelling)).To(BeEmpty(), spelling)
						Expect(got[0].Trailer[spelling]).To(BeEmpty(), spelling)
					}
				}
			}
		}
	})
})
