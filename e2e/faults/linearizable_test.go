package faults_test

import (
	"net/http"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// A token's life at one gateway as a register: created at first, deleted once by
// a call that concerns all gateways. A check sees whether it is accepted. So from
// the answer to DELETE on all gateways agree; while it lasts, one may be ahead of
// another. A DELETE that did not answer with success may or may not have taken
// effect, so it counts as running until the end of the history.
type operation struct {
	revoke bool
	token  int
	// gateway is the port that was asked, for checks.
	gateway int
}

var tokenModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		type key struct{ token, gateway int }
		by, revocations := map[key][]porcupine.Operation{}, map[int]porcupine.Operation{}
		for _, o := range history {
			in := o.Input.(operation)
			if in.revoke {
				revocations[in.token] = o
				continue
			}
			by[key{in.token, in.gateway}] = append(by[key{in.token, in.gateway}], o)
		}
		var out [][]porcupine.Operation
		for k, h := range by {
			out = append(out, append(h, revocations[k.token]))
		}
		return out
	},
	Init: func() any { return true },
	Step: func(state, input, output any) (bool, any) {
		if input.(operation).revoke {
			return true, false
		}
		return output.(bool) == state.(bool), state
	},
}

var _ = Describe("token histories over two gateways", func() {
	It("are linearizable while Redis comes and goes", func() {
		redis := framework.StartRedis()
		c := framework.NewControlPlane("run", "--redis-url", redis.URL()).Start()
		a, b := framework.StartGateway(c, "a"), framework.StartGateway(c, "b")
		f := framework.NewFixture(c)

		const tokens = 60
		var (
			mu      sync.Mutex
			history []porcupine.Operation
			begin   = time.Now()
			since   = func() int64 { return time.Since(begin).Nanoseconds() }
		)
		record := func(client int, in operation, out any, call, ret int64) {
			mu.Lock()
			defer mu.Unlock()
			history = append(history, porcupine.Operation{ClientId: client, Input: in, Output: out, Call: call, Return: ret})
		}
		var values [tokens]string
		for i := range values {
			values[i] = f.MustMint(a.HTTPS)
		}
		stop := make(chan struct{})
		var checkers, faults sync.WaitGroup
		unclear := 0
		for worker, port := range []int{a.HTTP, b.HTTP, a.HTTP, b.HTTP} {
			checkers.Go(func() {
				for i := worker; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					call := since()
					status := f.Status(port, values[i%tokens])
					if status != 200 && status != 401 { // no decision about the token
						mu.Lock()
						unclear++
						mu.Unlock()
						continue
					}
					record(worker, operation{token: i % tokens, gateway: port}, status == 200, call, since())
				}
			})
		}
		faults.Go(func() {
			defer GinkgoRecover()
			for range 2 {
				redis.Kill()
				redis.Restart()
			}
		})
		forever := int64(1) << 62
		for i, v := range values {
			call := since()
			r, err := framework.Do(f.HTTP, http.MethodDelete, f.AdminURL("/oauth2_tokens/"+v), nil, "")
			ret := forever
			if err == nil && r.Status == 204 {
				ret = since()
			}
			record(4, operation{revoke: true, token: i}, nil, call, ret)
		}
		faults.Wait()
		close(stop)
		checkers.Wait()
		Expect(porcupine.CheckOperations(tokenModel, history)).To(BeTrue(), "%d operations, %d without a decision", len(history), unclear)
		for _, v := range values {
			Expect(f.Status(a.HTTP, v)).To(Equal(401))
			Expect(f.Status(b.HTTP, v)).To(Equal(401))
		}
		AddReportEntry("operations", len(history))
	})
})
