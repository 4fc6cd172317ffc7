package mesh_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/e2e/framework"
)

// It needs the machine for itself to be fast enough to be thrown out.
var _ = Describe("a hostile client of the control plane", Ordered, ContinueOnFailure, Serial, func() {
	var (
		w            *world
		web, backend *member
		conn         *grpc.ClientConn
		// token is that of evil-1, a dataplane without a sidecar.
		token string
		pid   int
	)
	const self = shop + ".evil-1"

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		web = w.start("web-1", tags{service: "web"}, "backend")
		w.Put("dataplanes", w.describe("evil-1", tags{service: "evil"}, "backend").doc)
		w.ready(web, backend)
		answers(web.to("backend"), 200)
		token = w.DataplaneToken(shop, "evil-1", "1h")
		pid = w.cp.PID()
	})

	BeforeEach(func() { conn = w.dialXDS() })

	// converges proves that a change reaches the others at once meanwhile.
	turn := 0
	converges := func() {
		turn++
		before := web.Stat("cluster_manager.cds.update_success")
		balancer := []string{"roundRobin", "random"}[turn%2]
		since := time.Now()
		w.route(map[string]any{"destination": tags{service: "backend"}, "loadBalancer": map[string]any{balancer: map[string]any{}}})
		measured("a change reached another proxy after", since, func() bool {
			return web.Stat("cluster_manager.cds.update_success") > before
		})
		Expect(called(web.to("backend"))).To(Equal(200))
	}

	AfterEach(func() {
		Expect(w.cp.Running()).To(BeTrue(), "the control plane lives")
		Expect(w.cp.PID()).To(Equal(pid))
		framework.ExpectSound()
	})

	metric := func(name string) (n float64) {
		r, err := framework.Page(w.cp.Diagnostics)
		Expect(err).NotTo(HaveOccurred())
		for line := range bytes.Lines([]byte(r.Body)) {
			if rest, ok := bytes.CutPrefix(line, []byte(name+" ")); ok {
				_, err := fmt.Sscan(string(rest), &n)
				Expect(err).NotTo(HaveOccurred())
				return n
			}
		}
		Fail("no metric " + name)
		return 0
	}

	It("is told the right code, the same on both variants", func() {
		other := w.DataplaneToken("default", "evil-1", "1h")
		unnamed := w.DataplaneToken(shop, "", "1h")
		for _, tc := range []struct {
			what, token, node string
			want              codes.Code
		}{
			{"no token", "", self, codes.Unauthenticated},
			{"garbage", "garbage", self, codes.Unauthenticated},
			{"a token cut short", token[:len(token)-5], self, codes.Unauthenticated},
			{"another proxy", token, shop + ".web-1", codes.PermissionDenied},
			{"another mesh's token", other, self, codes.PermissionDenied},
			{"an unknown mesh", unnamed, "nowhere.evil-1", codes.PermissionDenied},
			{"an unknown dataplane", unnamed, shop + ".nobody", codes.NotFound},
			{"no node", token, "", codes.InvalidArgument},
		} {
			delta, state := refusal(conn, tc.token, tc.node)
			Expect(status.Code(delta)).To(Equal(tc.want), "%s: %v", tc.what, delta)
			Expect(status.Code(state)).To(Equal(tc.want), "%s: %v", tc.what, state)
			if tc.token != "" {
				Expect(delta.Error()).NotTo(ContainSubstring(tc.token))
			}
		}
		r := w.Mesh(http.MethodPost, "/tokens/dataplane", map[string]any{"name": "x", "mesh": "nowhere"})
		Expect(r.Status).To(Equal(http.StatusNotFound), r.Body)
	})

	It("sees nothing of others: not their secrets, and no type that is not served", func() {
		const unknown, own, last = "type.googleapis.com/mesh.Anything", "identity_cert:secret:" + shop, "mesh_ca:secret:" + shop
		s := open(conn, token)
		Expect(s.Send(ask(self, typeSecret, "identity_cert:secret:default", "mesh_ca:secret:default", own))).To(Succeed())
		Expect(s.Send(ask("", unknown, "*"))).To(Succeed())
		var secrets []string
		answered := false
		next := func() {
			m, err := s.Recv()
			Expect(err).NotTo(HaveOccurred())
			switch m.GetTypeUrl() {
			case typeSecret:
				for _, r := range m.GetResources() {
					secrets = append(secrets, r.GetName())
				}
			case unknown:
				Expect(m.GetResources()).To(BeEmpty())
				answered = true
			}
		}
		for !answered || !slices.Contains(secrets, own) {
			next()
		}
		// What is asked for last comes behind whatever else there was to come.
		Expect(s.Send(ask("", typeSecret, last))).To(Succeed())
		for !slices.Contains(secrets, last) {
			next()
		}
		Expect(secrets).To(Equal([]string{own, last}), "its own, each once")
	})

	It("that never acknowledges gets no more than a few responses", func() {
		s := open(conn, token)
		for i, url := range []string{typeCluster, typeEndpoint, typeListener, typeRoute} {
			node := ""
			if i == 0 {
				node = self
			}
			Expect(s.Send(ask(node, url, "*"))).To(Succeed())
		}
		var mu sync.Mutex
		counts := map[string]int{}
		go func() {
			for {
				m, err := s.Recv()
				if err != nil {
					return
				}
				mu.Lock()
				counts[m.GetTypeUrl()]++
				mu.Unlock()
			}
		}()
		for range 20 {
			converges()
		}
		mu.Lock()
		defer mu.Unlock()
		Expect(counts[typeCluster]).To(BeNumerically(">", 0))
		for url, n := range counts {
			Expect(n).To(BeNumerically("<=", 10), url)
		}
	})

	It("that changes its node id is thrown out", func() {
		s := open(conn, token)
		Expect(s.Send(ask(self, typeCluster))).To(Succeed())
		_, err := s.Recv()
		Expect(err).NotTo(HaveOccurred())
		Expect(s.Send(ask(shop+".web-1", typeListener, "*"))).To(Succeed())
		Expect(ended(s)).To(Equal(codes.InvalidArgument))
		converges()
	})

	It("that floods requests is thrown out", func() {
		s := open(conn, token)
		Expect(s.Send(ask(self, typeCluster))).To(Succeed())
		result := make(chan codes.Code, 1)
		go func() { result <- ended(s) }()
		for n := range 200_000 {
			if s.Send(ask("", typeEndpoint, fmt.Sprint("name-", n%1000))) != nil {
				break
			}
		}
		Eventually(result, patience).Should(Receive(Equal(codes.ResourceExhausted)))
		converges()
	})

	It("that subscribes to a million names is thrown out", func() {
		s := open(conn, token)
		Expect(s.Send(ask(self, typeCluster))).To(Succeed())
		result := make(chan codes.Code, 1)
		go func() { result <- ended(s) }()
		for n := range 100 {
			names := make([]string, 10_000)
			for i := range names {
				names[i] = fmt.Sprint("name-", n, "-", i)
			}
			if s.Send(ask("", typeEndpoint, names...)) != nil {
				break
			}
		}
		Eventually(result, patience).Should(Receive(Equal(codes.ResourceExhausted)))
		converges()
	})

	It("that opens 10,000 streams, as many nodes, keeps a few of each, and leaves nothing behind", func() {
		const nodes, perNode, connections = 10, 16, 100 // 16 is the limit of a node
		const others = 2                                // web and backend
		Eventually(func() float64 { return metric("meshgate_xds_streams") }, patience).Should(BeEquivalentTo(others))
		goroutines := metric("go_goroutines")
		tokens := make([]string, nodes)
		for i := range tokens {
			name := fmt.Sprintf("evil-%d", 10+i)
			w.Put("dataplanes", w.describe(name, tags{service: "evil"}).doc)
			tokens[i] = w.DataplaneToken(shop, name, "1h")
		}
		var all []*grpc.ClientConn
		var reading sync.WaitGroup
		var mu sync.Mutex
		verdicts := map[codes.Code]int{}
		for n := range connections {
			c := w.dialXDS()
			all = append(all, c)
			node := n % nodes
			for range 100 {
				s := open(c, tokens[node])
				_ = s.Send(ask(fmt.Sprintf("%s.evil-%d", shop, 10+node), typeCluster)) // an earlier one may have been the end of the connection
				reading.Go(func() {
					code := ended(s)
					mu.Lock()
					verdicts[code]++
					mu.Unlock()
				})
			}
			if n%20 == 0 {
				converges()
			}
		}
		Eventually(func() float64 { return metric("meshgate_xds_streams") }, patience).Should(BeEquivalentTo(others + nodes*perNode))
		converges()
		for _, c := range all {
			Expect(c.Close()).To(Succeed())
		}
		reading.Wait()
		AddReportEntry("verdicts", fmt.Sprint(verdicts))
		Expect(verdicts[codes.ResourceExhausted]).To(BeNumerically(">=", connections*100/2), "who is thrown out is told why")
		Eventually(func() float64 { return metric("meshgate_xds_streams") }, patience).Should(BeEquivalentTo(others))
		Eventually(func() float64 { return metric("go_goroutines") }, patience).Should(BeNumerically("<", goroutines+100))
		converges()
	})

	It("that opens streams and says nothing takes no part of the others' time", func() {
		for range 4 {
			c := w.dialXDS()
			for range 90 { // a connection takes 100
				_ = open(c, token)
			}
		}
		converges()
	})

	It("whose first messages are malformed", func() {
		whole, err := proto.Marshal(&discovery.DeltaDiscoveryRequest{
			Node: &corev3.Node{Id: self, Cluster: "evil"}, TypeUrl: typeCluster, ResourceNamesSubscribe: []string{"*"},
			InitialResourceVersions: map[string]string{"a": "b"},
		})
		Expect(err).NotTo(HaveOccurred())
		state, err := proto.Marshal(&discovery.DiscoveryRequest{
			Node: &corev3.Node{Id: self, Cluster: "evil"}, TypeUrl: typeCluster, ResourceNames: []string{"*"}, VersionInfo: "1",
		})
		Expect(err).NotTo(HaveOccurred())
		random := rand.New(rand.NewPCG(1, uint64(GinkgoRandomSeed())))
		messages := [][]byte{nil, {0xff}, bytes.Repeat([]byte{0x0a}, 1000), bytes.Repeat([]byte{0x80}, 20), make([]byte, 1<<20)}
		huge, err := proto.Marshal(ask(shop+"."+string(bytes.Repeat([]byte("x"), 1<<16)), typeCluster))
		Expect(err).NotTo(HaveOccurred())
		messages = append(messages, huge)
		// The variants take turns below.
		for range 300 {
			m := bytes.Clone([][]byte{whole, state}[len(messages)%2])
			for range 1 + random.IntN(3) {
				switch at := random.IntN(len(m)); random.IntN(6) {
				case 0:
					m = m[:max(at, 1)]
				case 1:
					m = append(m[:at:at], append([]byte{byte(random.IntN(256))}, m[at:]...)...)
				default:
					m[at] = byte(random.IntN(128))
				}
			}
			messages = append(messages, m)
		}
		seen := map[codes.Code]int{}
		for i, m := range messages {
			seen[shout(conn, []string{pathDelta, pathState}[i%2], token, m)]++
		}
		AddReportEntry("codes", fmt.Sprint(seen))
		Expect(seen).NotTo(HaveKey(codes.Unknown))
		Expect(seen).To(And(HaveKey(codes.Internal), HaveKey(codes.InvalidArgument), HaveKey(codes.PermissionDenied)), "some are no messages, others say wrong things")
		converges()
	})

	It("does not keep the control plane from stopping in time", func() {
		for range 8 {
			c := w.dialXDS()
			for range 100 {
				_ = open(c, token).Send(ask(self, typeCluster)) // whether it is taken does not matter
			}
		}
		since := time.Now()
		w.cp.Signal(term)
		Expect(w.cp.Exit(patience)).To(BeZero())
		took := time.Since(since)
		AddReportEntry("stopped after", took.String())
		Expect(took).To(BeNumerically("<", 10*time.Second))
		Expect(called(web.to("backend"))).To(Equal(200), "what is there stays in force")
		w.cp.Start()
		pid = w.cp.PID()
	})
})
