package faults_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// replica is a gateway behind a load balancer.
type replica struct {
	*framework.Gateway
	status int
	ready  atomic.Bool
}

// balancer does what load balancers do: it asks /ready again and again and sends
// new requests to those that have answered 200 the last time, in turns.
type balancer struct {
	replicas []*replica
	next     atomic.Uint64
	done     sync.WaitGroup
}

func startBalancer(ctx context.Context, replicas ...*replica) *balancer {
	b := &balancer{replicas: replicas}
	for _, r := range replicas {
		b.done.Go(func() {
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				r.ready.Store(framework.Ready(r.status) == nil)
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return b
}

// pick returns the next replica that is ready; the first one if none is, whose
// callers then see what is wrong.
func (b *balancer) pick() listeners {
	first := b.next.Add(1)
	for i := range uint64(len(b.replicas)) {
		if r := b.replicas[(first+i)%uint64(len(b.replicas))]; r.ready.Load() {
			return listeners{r.HTTP, r.HTTPS}
		}
	}
	return listeners{b.replicas[0].HTTP, b.replicas[0].HTTPS}
}

// release puts a copy of the program and its module into a directory of their own,
// as an installation of another version has them.
func release(name string) string {
	GinkgoHelper()
	dir := filepath.Join(GinkgoT().TempDir(), name)
	Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	for _, file := range []string{framework.Binary(), filepath.Join(framework.Root(), "bin", "libmeshgate.so")} {
		data, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o700)).To(Succeed())
	}
	return filepath.Join(dir, filepath.Base(framework.Binary()))
}

// The order is that of docs/operations/upgrade.md: the control plane, then one
// gateway after the other, with an Envoy of another version.
var _ = Describe("an upgrade behind a load balancer", func() {
	It("refuses and fails no request", func() {
		former, next := release("former"), release("next")
		formerEnvoy := filepath.Join(framework.Root(), ".tools", "envoy-1.38.3")
		nextEnvoy := filepath.Join(framework.Root(), ".tools", "envoy")
		c := framework.NewControlPlane("run", framework.StartRedis().Flags()...)
		c.Program = former
		c.Start()
		f := framework.NewFixture(c)
		start := func(name string) *replica {
			r := &replica{status: framework.FreePorts(1)[0]}
			r.Gateway = framework.NewGateway(c, name, "--envoy-path", formerEnvoy, "--drain-delay", "5s", // in which a busy machine looks at /ready
				"--status-listen", "127.0.0.1", "--status-port", strconv.Itoa(r.status))
			r.Program = former
			r.Restart()
			Eventually(func() error { return framework.Ready(r.status) }, soon, 50*time.Millisecond).Should(Succeed(), r.Output)
			return r
		}
		a, b := start("a"), start("b")
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		balancer := startBalancer(ctx, a, b)
		Eventually(func() bool { return a.ready.Load() && b.ready.Load() }, soon, 20*time.Millisecond).Should(BeTrue())
		all := startCallers(ctx, balancer.pick, f.MustMint(a.HTTPS))
		more := func(n int) {
			GinkgoHelper()
			before := all.served()
			Eventually(all.served, 60*time.Second, 20*time.Millisecond).Should(BeNumerically(">", before+n))
		}
		more(500)
		heard(a.Gateway)
		heard(b.Gateway)

		c.Signal(syscall.SIGTERM)
		Expect(c.Exit(40*time.Second)).To(Equal(0), c.Output())
		c.Program = next
		c.Start()
		more(500)
		for _, r := range []*replica{a, b} {
			r.Signal(syscall.SIGTERM)
			Expect(r.Exit(40*time.Second)).To(Equal(0), r.Output())
			r.Program = next
			r.Append("--envoy-path", nextEnvoy)
			r.Restart()
			Eventually(r.ready.Load, soon, 20*time.Millisecond).Should(BeTrue(), r.Output)
			more(500)
		}
		stop()
		all.done.Wait()
		balancer.done.Wait()
		Expect(all.failed).To(BeEmpty())
		Expect(all.refused).To(BeZero())
		Expect(all.protocols).To(And(HaveKey("HTTP/1.1"), HaveKey("HTTP/2.0")))
		AddReportEntry("answered", all.protocols)
		token := f.MustMint(b.HTTPS)
		f.Must(204, "DELETE", "/oauth2_tokens/"+token, nil)
		Expect(f.Status(a.HTTP, token)).To(Equal(401))
	})
})
