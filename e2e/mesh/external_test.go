package mesh_test

import (
	"bufio"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// mailTLS is the protection of a server of httptest: it vouches for itself as example.com.
func mailTLS(ca, name string) map[string]any {
	return map[string]any{"enabled": true, "serverName": name, "caCert": map[string]any{"inlineString": ca}}
}

var _ = Describe("services outside the mesh", Ordered, core, func() {
	var (
		w           *world
		web         *member
		clear, safe *httptest.Server
		files       net.Listener
		ca          string
	)

	external := func(name, proto string, at net.Addr, tls map[string]any) {
		n := map[string]any{"address": at.String()}
		if tls != nil {
			n["tls"] = tls
		}
		w.Put("external-services", framework.Document{
			"type": "ExternalService", "mesh": shop, "name": name,
			"tags": tags{service: name, protocol: proto}, "networking": n,
		})
	}
	permit := func(to string) {
		w.Put("traffic-permissions", policy("TrafficPermission", "only-"+to, tags{service: "web"}, tags{service: to}, nil))
	}
	forbid := func(to string) { w.Delete(shop, "traffic-permissions", "only-"+to) }

	BeforeAll(func() {
		host := outward()
		listen := func() net.Listener {
			ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			Expect(err).NotTo(HaveOccurred())
			return ln
		}
		serve := func() *httptest.Server {
			s := &httptest.Server{Listener: listen(), Config: &http.Server{
				Handler:           http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("{}")) }),
				ReadHeaderTimeout: patience,
			}}
			DeferCleanup(s.Close)
			return s
		}
		clear, safe = serve(), serve()
		clear.Start()
		safe.StartTLS()
		ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: safe.Certificate().Raw}))
		files = echoAt(listen())

		w = newWorld("")
		w.Delete(shop, "traffic-permissions", allowAll)
		external("clear", "http", clear.Listener.Addr(), nil)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "example.com"))
		external("files", "tcp", files.Addr(), nil)
		web = w.start("web-1", tags{service: "web"}, "clear", "safe", "files")
		w.ready(web)
	})

	It("HTTP is answered with 403 until there is a permission, and again when it is gone", func() {
		answers(web.to("clear"), 403)
		permit("clear")
		answers(web.to("clear"), 200)
		open := keepAlive(web.port2("clear"))
		Expect(open.get()).To(Equal(200))
		forbid("clear")
		w.Converged()
		Expect(open.get()).To(Equal(403), "on a connection that is open")
		Expect(called(web.to("clear"))).To(Equal(403))
	})

	It("a service that goes and comes is not called and called", func() {
		permit("clear")
		answers(web.to("clear"), 200)
		w.Delete(shop, "external-services", "clear")
		// Nobody says any more that it speaks HTTP, so connections are closed.
		answers(web.to("clear"), 0)
		external("clear", "http", clear.Listener.Addr(), nil)
		answers(web.to("clear"), 200)
	})

	It("a server has to have the name and the authority that are demanded", func() {
		answers(web.to("safe"), 403)
		permit("safe")
		answers(web.to("safe"), 200)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "other.test"))
		answers(web.to("safe"), 503)
		external("safe", "http", safe.Listener.Addr(), mailTLS(ca, "example.com"))
		answers(web.to("safe"), 200)
		another, _ := framework.Certificate("example.com")
		external("safe", "http", safe.Listener.Addr(), mailTLS(another, "example.com"))
		answers(web.to("safe"), 503)
	})

	It("TCP is closed without a permission, and connections that are open end after a short drain", func() {
		says := func() string {
			conn, lines := dialEcho(web.port2("files"))
			defer func() { _ = conn.Close() }()
			return conn.say(lines, "new")
		}
		Expect(says()).To(BeEmpty())
		permit("files")
		Eventually(says, patience, 20*time.Millisecond).Should(Equal("files new"))
		conn, lines := dialEcho(web.port2("files"))
		Expect(conn.say(lines, "one")).To(Equal("files one"))
		since := time.Now()
		forbid("files")
		measured("new TCP connections to a service outside refused after", since, func() bool { return says() == "" })
		measured("open TCP connection to a service outside ended after", since, func() bool { return conn.say(lines, "still") == "" })
	})
})

// outward returns an address of this machine that is not its loopback. Specs that need one are
// skipped where there is none.
func outward() string {
	all, err := net.InterfaceAddrs()
	Expect(err).NotTo(HaveOccurred())
	for _, a := range all {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	Skip("this machine has no address but its loopback, which no ExternalService may have")
	return ""
}

// echoAt answers lines on a listener until the specs are over.
func echoAt(ln net.Listener) net.Listener {
	var work sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	work.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			work.Go(func() {
				defer func() { _ = conn.Close() }()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					if _, err := fmt.Fprintf(conn, "files %s\n", lines.Text()); err != nil {
						return
					}
				}
			})
		}
	})
	DeferCleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, conn := range open {
			_ = conn.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return ln
}
