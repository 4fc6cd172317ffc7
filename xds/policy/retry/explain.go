package retry

import (
	"fmt"

	"github.com/meshgate/meshgate/xds/policy"
)

func explain(s *policy.Selection) any {
	c := effective(s)
	return &c
}

// idle: envoy_ratelimited needs nothing more, because any server can answer that it limits the rate.
// Envoy would also take headers that a request names, but not from a workload: it removes that.
func idle(s *policy.Selection, _ policy.Setting) (out []string) {
	c := policy.First[Spec](s).Conf
	if c == nil || c.HTTP == nil {
		return nil
	}
	for i, on := range c.HTTP.RetryOn {
		path := fmt.Sprintf("conf.http.retryOn[%d]", i)
		switch {
		case on == onHTTP3:
			out = append(out, path+" has no effect: proxies of a mesh do not speak HTTP/3 with each other")
		case on == onHeaders && len(c.HTTP.RetriableHeaders) == 0:
			out = append(out, path+" has no effect without conf.http.retriableHeaders")
		}
	}
	return out
}
