package edge_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// received is what an upstream saw of a request; it is also its answer.
type received struct {
	Upstream string
	Method   string
	URI      string
	Host     string
	Header   http.Header
	Trailer  http.Header
	Bytes    int64
	SHA256   string
}

// upstream remembers every request, so that one that a client smuggled through
// shows even if its answer went elsewhere.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	seen []received
}

// failing ends the paths that upstreams answer with 503.
const failing = "failing"

func startUpstream(name string) *upstream {
	u := &upstream{}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.New()
		n, err := io.Copy(sum, r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		got := received{name, r.Method, r.RequestURI, r.Host, r.Header, r.Trailer, n, hex.EncodeToString(sum.Sum(nil))}
		u.mu.Lock()
		u.seen = append(u.seen, got)
		u.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, failing) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(got) // the test sees what is missing
	}))
	// Services that speak gRPC are asked over HTTP/2.
	u.Config.Protocols = new(http.Protocols)
	u.Config.Protocols.SetHTTP1(true)
	u.Config.Protocols.SetUnencryptedHTTP2(true)
	u.Start()
	DeferCleanup(u.Close)
	return u
}

func (u *upstream) port() int {
	p, err := url.Parse(u.URL)
	Expect(err).NotTo(HaveOccurred())
	n, err := strconv.Atoi(p.Port())
	Expect(err).NotTo(HaveOccurred())
	return n
}

// during returns the requests that arrive while a function runs.
func (u *upstream) during(run func()) []received {
	u.mu.Lock()
	from := len(u.seen)
	u.mu.Unlock()
	run()
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen[from:]
}

// decode reads an upstream's answer.
func decode(body string) received {
	var r received
	ExpectWithOffset(1, json.Unmarshal([]byte(body), &r)).To(Succeed(), body)
	return r
}
