package retry

import (
	"fmt"

	"github.com/meshgate/meshgate/xds/policy"
)

func explain(s *policy.Selection) any {
	c := effective(s)
	return &c
}

// idle: everything else that can be listed has an effect by itself. Requests can name the headers
// of retriable_headers, and any server can answer that it limits the rate.
func idle(s *policy.Selection, _ policy.Setting) (out []string) {
	c := policy.First[Spec](s).Conf
	if c == nil || c.HTTP == nil {
		return nil
	}
	for i, on := range c.HTTP.RetryOn {
		if on == onHTTP3 {
			out = append(out, fmt.Sprintf("conf.http.retryOn[%d] has no effect: proxies of a mesh do not speak HTTP/3 with each other", i))
		}
	}
	return out
}
