package mesh_test

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/e2e/framework"
)

// unready is a gRPC server whose first answers are a refusal.
type unready struct {
	grpc_health_v1.UnimplementedHealthServer
	arrived, refuse atomic.Int64
}

// Check implements the health service.
func (u *unready) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if u.arrived.Add(1) <= u.refuse.Load() {
		return nil, status.Error(codes.Unavailable, "not yet")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}

var _ = Describe("retry", Ordered, core, func() {
	var (
		w    *world
		web  *member
		work *scripted
		rpc  = &unready{}
	)

	BeforeAll(func() {
		w = newWorld("STRICT")
		w.Delete(shop, "retries", "retry-all-"+shop)
		work = startScripted()
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		Expect(err).NotTo(HaveOccurred())
		server := grpc.NewServer()
		grpc_health_v1.RegisterHealthServer(server, rpc)
		go func() { _ = server.Serve(ln) }()
		DeferCleanup(server.Stop)
		web = w.start("web-1", tags{service: "web"}, "backend", "rpc", "ledger")
		w.ready(web,
			w.serving("backend-1", tags{service: "backend", protocol: "http"}, work),
			w.join(w.around("rpc-1", nil, ln.Addr().(*net.TCPAddr).Port, tags{service: "rpc", protocol: "grpc"})),
			w.join(w.around("ledger-1", nil, framework.StartEcho("ledger-1"), tags{service: "ledger", protocol: "tcp"})),
		)
		answers(web.to("backend"), 200)
	})

	// retried puts a policy for HTTP, with tries that follow each other closely.
	retried := func(conf map[string]any) {
		conf["backOff"] = map[string]any{"baseInterval": "1ms", "maxInterval": "2ms"}
		w.Put("retries", policy("Retry", "backend", tags{service: "web"}, tags{service: "backend"}, map[string]any{"http": conf}))
		w.Converged()
	}
	// asked is the status of a request and how often it arrives, with a script of answers.
	asked := func(method string, script ...answer) (code, arrived int) {
		GinkgoHelper()
		work.says(script...)
		r, err := framework.Do(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, method, web.to("backend"), http.Header{}, "")
		Expect(err).NotTo(HaveOccurred())
		return r.Status, len(work.times())
	}
	expect := func(method string, script []answer, code, arrived int) {
		GinkgoHelper()
		gotCode, gotArrived := asked(method, script...)
		Expect([]int{gotCode, gotArrived}).To(Equal([]int{code, arrived}), "%s %v", method, script)
	}

	It("a request is sent again so often, and no oftener", func() {
		expect("GET", []answer{503, 200}, 503, 1)
		retried(map[string]any{"numRetries": 2})
		expect("GET", []answer{503, 200}, 200, 2)
		expect("POST", []answer{503, 502, 200}, 200, 3)
		expect("GET", []answer{503, 503, 503, 200}, 503, 3)
		expect("GET", []answer{404, 200}, 404, 1)
	})

	It("for the methods and the statuses that are named", func() {
		retried(map[string]any{"numRetries": 3, "retriableMethods": []any{"GET"}, "retriableStatusCodes": []any{409}, "retryOn": []any{"retriable_status_codes"}})
		expect("GET", []answer{409, 409, 200}, 200, 3)
		expect("GET", []answer{503, 200}, 503, 1)
		expect("POST", []answer{409, 200}, 409, 1)
	})

	It("for answers of servers that limit rates, and those with headers that are named", func() {
		retried(map[string]any{"numRetries": 2, "retryOn": []any{"all_5xx", "retriable_status_codes"}, "retriableStatusCodes": []any{429}})
		expect("GET", []answer{limited, 200}, 429, 1)
		retried(map[string]any{"numRetries": 2, "retryOn": []any{"envoy_ratelimited"}})
		expect("GET", []answer{429, 200}, 429, 1)
		expect("GET", []answer{limited, 200}, 200, 2)
		retried(map[string]any{"numRetries": 2, "retryOn": []any{"retriable_headers"}, "retriableHeaders": []any{"x-other", "x-again"}})
		expect("GET", []answer{409, 200}, 409, 1)
		expect("GET", []answer{again, 200}, 200, 2)
		const told = "Retry backend: conf.http.retryOn[0] has no effect without conf.http.retriableHeaders"
		Expect(w.overview("web-1").Errors).To(BeEmpty())
		retried(map[string]any{"numRetries": 2, "retryOn": []any{"retriable_headers"}})
		expect("GET", []answer{again, 200}, 409, 1)
		Eventually(func() []string { return w.overview("web-1").Errors }, patience, "20ms").Should(ConsistOf(told))
		Expect(w.Get("/meshes/" + shop + "/dataplanes/web-1/policies")["errors"]).To(ConsistOf(told))
	})

	It("a try has its own time", func() {
		retried(map[string]any{"numRetries": 2, "perTryTimeout": "1s"})
		// The first try may arrive late on a busy machine, so it counts from when the request was sent.
		sent := time.Now()
		expect("GET", []answer{never, 200}, 200, 2)
		Expect(work.times()[1].Sub(sent)).To(BeNumerically(">=", time.Second-coarse), "the first try had its time")
		expect("GET", []answer{never, never, never}, 504, 3)
	})

	It("a call of gRPC, by its status", func() {
		conn, err := grpc.NewClient("passthrough:///"+web.port2("rpc"), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(conn.Close)
		call := func(refuse int64) (codes.Code, int64) {
			rpc.arrived.Store(0)
			rpc.refuse.Store(refuse)
			_, err := grpc_health_v1.NewHealthClient(conn).Check(bounded(""), &grpc_health_v1.HealthCheckRequest{})
			return status.Code(err), rpc.arrived.Load()
		}
		Eventually(func() codes.Code { code, _ := call(0); return code }, patience, "20ms").Should(Equal(codes.OK))
		code, arrived := call(1)
		Expect([]any{code, arrived}).To(Equal([]any{codes.Unavailable, int64(1)}))
		w.Put("retries", policy("Retry", "rpc", tags{service: "web"}, tags{service: "rpc"}, map[string]any{"grpc": map[string]any{
			"numRetries": 2, "retryOn": []any{"unavailable"}, "backOff": map[string]any{"baseInterval": "1ms", "maxInterval": "2ms"},
		}}))
		w.Converged()
		code, arrived = call(2)
		Expect([]any{code, arrived}).To(Equal([]any{codes.OK, int64(3)}))
		code, arrived = call(3)
		Expect([]any{code, arrived}).To(Equal([]any{codes.Unavailable, int64(3)}))
	})

	// Of two endpoints one is never there, and they are taken in turns.
	It("a TCP connection is opened elsewhere", func() {
		dead := w.around("ledger-2", nil, 1, tags{service: "ledger", protocol: "tcp"})
		w.Put("dataplanes", dead.doc)
		w.Converged()
		fails := func() (n int) {
			for range 20 {
				conn, lines := dialEcho(web.port2("ledger"))
				if conn.say(lines, "x") == "" {
					n++
				}
				_ = conn.Close()
			}
			return n
		}
		Expect(fails()).To(BeNumerically(">=", 5), "without tries")
		w.Put("retries", policy("Retry", "ledger", tags{service: "web"}, tags{service: "ledger"}, map[string]any{"tcp": map[string]any{"maxConnectAttempts": 4}}))
		w.Converged()
		Expect(fails()).To(BeZero())
	})
})
