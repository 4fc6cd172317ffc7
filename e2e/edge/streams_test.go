package edge_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// send sends a body with an optional trailer.
func send(client *http.Client, url, token string, body []byte, trailer string) (int, received) {
	req, err := http.NewRequest(http.MethodPost, url, io.NopCloser(bytes.NewReader(body)))
	Expect(err).NotTo(HaveOccurred())
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if trailer != "" {
		req.Trailer = http.Header{"X-Trailer": {trailer}}
	} else {
		req.ContentLength = int64(len(body))
	}
	resp, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	var got received
	if resp.StatusCode == 200 {
		Expect(json.Unmarshal(text, &got)).To(Succeed())
	}
	return resp.StatusCode, got
}

var _ = Describe("a body", func() {
	big := bytes.Repeat([]byte("0123456789abcdef"), 5<<16) // 5 MiB
	sum := sha256.Sum256(big)

	whole := func(status int, got received) {
		ExpectWithOffset(1, status).To(Equal(200))
		ExpectWithOffset(1, got.Bytes).To(BeEquivalentTo(len(big)))
		ExpectWithOffset(1, got.SHA256).To(Equal(hex.EncodeToString(sum[:])))
	}

	It("of any size arrives whole behind a good token, with and without trailers", func() {
		for name, client := range clients() {
			By(name)
			// The first has to be looked up, the others are known.
			token := f.MustMint(c.HTTPS)
			whole(send(client.Client, client.base+"/api/x", token, big, ""))
			whole(send(client.Client, client.base+"/api/x", token, big, "t"))
			status, got := send(client.Client, client.base+"/api/x", token, []byte("small"), "t")
			Expect(status).To(Equal(200))
			Expect(got.Bytes).To(BeEquivalentTo(5))
		}
	})

	It("with trailers does not pass without a token", func() {
		for name, client := range clients() {
			By(name)
			Expect(guarded.during(func() {
				status, _ := send(client.Client, client.base+"/api/x", "", []byte("small"), "t")
				Expect(status).To(Equal(401))
				status, _ = send(client.Client, client.base+"/api/x", "never-issued", []byte("small"), "t")
				Expect(status).To(Equal(401))
			})).To(BeEmpty())
		}
	})

	It("waits for a look-up, whole or not at all", func() {
		all := clients()
		tokens := make([]string, 0, len(all))
		for range all {
			tokens = append(tokens, f.MustMint(c.HTTPS))
		}
		redis.Pause()
		DeferCleanup(redis.Resume)
		var work sync.WaitGroup
		i := 0
		for _, client := range all {
			token := tokens[i]
			i++
			work.Go(func() {
				defer GinkgoRecover()
				whole(send(client.Client, client.base+"/api/x", token, big, ""))
			})
			work.Go(func() {
				defer GinkgoRecover()
				status, _ := send(client.Client, client.base+"/api/x", "never-"+token, []byte("small"), "")
				Expect(status).To(Equal(401))
			})
		}
		work.Wait()
	})

	It("of a client that leaves during the look-up goes nowhere", func() {
		// Good ones, which nobody has used yet: each has to be looked up.
		var tokens []string
		for range 20 {
			tokens = append(tokens, f.MustMint(c.HTTPS))
		}
		stays := f.MustMint(c.HTTPS)
		// Nobody can answer a look-up: a busy machine may take longer to close a connection than Redis is waited for, and
		// then the control plane is asked.
		redis.Pause()
		DeferCleanup(redis.Resume)
		c.Signal(syscall.SIGSTOP)
		DeferCleanup(c.Signal, syscall.SIGCONT)
		seen := guarded.during(func() {
			for i, token := range tokens {
				auth := "Authorization: Bearer " + token
				raw := get(fmt.Sprintf("/api/gone-%d", i), auth)
				if i%2 == 0 {
					raw = request("POST", fmt.Sprintf("/api/gone-%d", i), []string{"Host: a", auth, "Content-Length: 1000000"}, strings.Repeat("x", 1000))
				}
				conn := listeners["plain TCP"]()
				_, err := io.WriteString(conn, raw)
				Expect(err).NotTo(HaveOccurred())
				Expect(conn.Close()).To(Succeed())
			}
			c.Signal(syscall.SIGCONT)
			redis.Resume()
			Eventually(func() int { return call("/api/stays", "Bearer "+stays).Status }, time.Minute, 50*time.Millisecond).Should(Equal(200), "who stays is served")
			for _, token := range tokens {
				Expect(call("/api/stays", "Bearer "+token).Status).To(Equal(200), "the tokens were good")
			}
		})
		Expect(seen).To(HaveLen(1 + len(tokens)))
		for _, r := range seen {
			Expect(r.URI).To(Equal("/stays"))
		}
	})
})

var _ = Describe("a gRPC client", func() {
	It("is refused with the status of gRPC", func() {
		secure, err := credentials.NewClientTLSFromFile(c.CAFile(), "localhost")
		Expect(err).NotTo(HaveOccurred())
		for address, creds := range map[string]credentials.TransportCredentials{
			fmt.Sprintf("passthrough:///127.0.0.1:%d", c.HTTP): insecure.NewCredentials(), fmt.Sprintf("passthrough:///127.0.0.1:%d", c.HTTPS): secure,
		} {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(conn.Close)
			for _, token := range []string{"", "Bearer never-issued", "Bearer"} {
				ctx, cancel := context.WithTimeout(context.Background(), rawDeadline)
				if token != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
				}
				Expect(guarded.during(func() {
					err := conn.Invoke(ctx, "/api/echo", &emptypb.Empty{}, &emptypb.Empty{})
					Expect(status.Code(err)).To(Equal(codes.Unauthenticated), "%q: %v", token, err)
					Expect(status.Convert(err).Message()).To(Equal("Unauthenticated"))
					stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/api/echo")
					Expect(err).NotTo(HaveOccurred())
					Expect(status.Code(stream.RecvMsg(&emptypb.Empty{}))).To(Equal(codes.Unauthenticated))
				})).To(BeEmpty())
				cancel()
			}
		}
	})

	It("sees what HTTP sees, too", func() {
		for _, name := range []string{"HTTP/2", "HTTP/2 over TLS"} {
			client := clients()[name]
			req, err := http.NewRequest(http.MethodPost, client.base+"/api/echo", http.NoBody)
			Expect(err).NotTo(HaveOccurred())
			req.Header = http.Header{"Content-Type": {"application/grpc+proto"}, "Te": {"trailers"}}
			resp, err := client.Do(req)
			Expect(err).NotTo(HaveOccurred())
			body, err := io.ReadAll(resp.Body)
			Expect(err).NotTo(HaveOccurred())
			Expect(resp.Body.Close()).To(Succeed())
			Expect(resp.Header.Get("Grpc-Status")).To(Equal("16"))
			Expect(resp.Header.Get("Grpc-Message")).To(Equal("Unauthenticated"))
			Expect(resp.Header.Get("Www-Authenticate")).To(Equal("Bearer"))
			Expect(string(body)).To(BeEmpty())
		}
	})
})

var _ = Describe("an HTTP/2 client", func() {
	// Streams end while their tokens are looked up, on a connection that goes on.
	It("may reset many streams without harm", func() {
		const streams = 90 // less than a connection may have at a time
		token := f.MustMint(c.HTTPS)
		for _, secure := range []bool{false, true} {
			s := newSession(secure)
			seen := guarded.during(func() {
				redis.Pause()
				DeferCleanup(redis.Resume)
				for i := range streams {
					id := s.open(fields(":method", "GET", ":scheme", map[bool]string{false: "http", true: "https"}[secure], ":authority", "a", ":path", "/api/reset",
						"authorization", fmt.Sprintf("Bearer reset-%d-%t", i, secure)), true)
					Expect(s.framer.WriteRSTStream(id, http2.ErrCodeCancel)).To(Succeed())
				}
				redis.Resume()
				id := s.open(fields(":method", "GET", ":scheme", map[bool]string{false: "http", true: "https"}[secure], ":authority", "a", ":path", "/api/stays",
					"authorization", "Bearer "+token), true)
				Expect(s.status(id)).To(Equal("200"), "the connection goes on")
			})
			Expect(seen).To(HaveLen(1))
			Expect(seen[0].URI).To(Equal("/stays"))
		}
	})
})
