package edge_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// unfinished is a body of JSON of which all but the last bytes come.
type unfinished struct {
	left int
	done <-chan struct{}
}

const announced = 1 << 20

// Read implements io.Reader.
func (u *unfinished) Read(p []byte) (int, error) {
	if u.left <= 16 {
		<-u.done
		return 0, io.ErrUnexpectedEOF
	}
	n := min(len(p), u.left-16)
	for i := range n {
		p[i] = ' '
	}
	u.left -= n
	return n, nil
}

// hog keeps as many streams with unfinished bodies open as it may.
type hog struct {
	refused, late, other atomic.Int64
	work                 sync.WaitGroup
}

// attack opens connections with streams each, at a route that looks into bodies.
func (h *hog) attack(ctx context.Context, connections, streams int) {
	for range connections {
		t := &http.Transport{Protocols: new(http.Protocols)}
		t.Protocols.SetUnencryptedHTTP2(true)
		client := &http.Client{Transport: t}
		var own sync.WaitGroup
		for range streams {
			own.Go(func() { h.stream(ctx, client) })
		}
		h.work.Go(func() {
			own.Wait()
			t.CloseIdleConnections()
		})
	}
}

func (h *hog) stream(ctx context.Context, client *http.Client) {
	body := &unfinished{left: announced, done: ctx.Done()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/api/x", c.HTTP), body)
	if err != nil {
		return
	}
	req.ContentLength = announced
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return // given up, by either side
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what matters came with the status
	switch {
	case resp.StatusCode == http.StatusServiceUnavailable && strings.Contains(string(text), "cannot be held"):
		h.refused.Add(1)
	case resp.StatusCode == http.StatusRequestTimeout:
		h.late.Add(1)
	default:
		h.other.Add(1)
	}
}

var _ = Describe("bodies of strangers", func() {
	// A route that takes tokens from bodies holds them back before it knows anybody.
	It("take no more memory than there is for them, and nobody else's", func() {
		const connections, streams = 24, 100
		token := f.MustMint(c.HTTPS)
		Expect(call("/api/x", "Bearer "+token).Status).To(Equal(200))
		ctx, cancel := context.WithCancel(context.Background())
		h := &hog{}
		DeferCleanup(func() { cancel(); h.work.Wait() })
		Expect(guarded.during(func() { // of the attack nothing arrives
			h.attack(ctx, connections, streams)
			// What is held at most is 64 bodies; whoever comes then is refused.
			Eventually(func() int64 { return h.refused.Load() + h.late.Load() }, time.Minute, 50*time.Millisecond).
				Should(BeNumerically(">=", connections*streams/2))
		})).To(BeEmpty())
		for i := range 100 {
			r := call("/open/x", "")
			Expect(r.Status).To(Equal(200), "request %d: %s", i, r.Body)
			r = call("/api/x", "Bearer "+token)
			Expect(r.Status).To(Equal(200), "request %d: %s", i, r.Body)
			r, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/api/x", c.HTTP),
				http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}, `{"a":1}`)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200), "a body that nobody looks into, %d: %s", i, r.Body)
		}
		// Every stream of the attack is refused in the end: there is a deadline.
		Eventually(func() int64 { return h.refused.Load() + h.late.Load() + h.other.Load() }, time.Minute, 50*time.Millisecond).
			Should(BeNumerically(">=", connections*streams))
		Expect(h.other.Load()).To(BeZero(), "answers that are neither")
		Expect(h.refused.Load()).To(BeNumerically(">", connections*streams/2))
		Expect(h.late.Load()).To(BeNumerically(">", 0), "a body that does not end")
		cancel()
		h.work.Wait()
		r, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/api/x", c.HTTP),
			http.Header{"Content-Type": {formType}}, "access_token="+token)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(200), "there is room again: %s", r.Body)
	})

	It("are not held back where the strict profile does not ask for it", func() {
		service, plugin := protect("strict-bodies", map[string]any{"profile": "oauth2.1"})
		migrate("strict-token", map[string]any{"service": map[string]any{"id": service}})
		post := func() int {
			r, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/strict-bodies/x", c.HTTP),
				http.Header{"Content-Type": {formType}}, "access_token=strict-token")
			Expect(err).NotTo(HaveOccurred())
			return r.Status
		}
		Expect(post()).To(Equal(401), "the body is not looked into")
		// Without its body, too: the refusal does not wait for it.
		conn := listeners["plain TCP"]()
		defer func() { _ = conn.Close() }()
		Expect(conn.SetDeadline(time.Now().Add(rawDeadline))).To(Succeed())
		_, err := io.WriteString(conn, "POST /strict-bodies/x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n")
		Expect(err).NotTo(HaveOccurred())
		line := make([]byte, 12)
		_, err = io.ReadFull(conn, line)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(line)).To(Equal("HTTP/1.1 401"))
		f.Must(200, http.MethodPatch, "/plugins/"+plugin, map[string]any{"config": map[string]any{"access_token_in_body": true}})
		f.Converged()
		Expect(post()).To(Equal(200))
	})
})

var _ = Describe("a token and a key", func() {
	It("of different consumers are refused together in the strict profile only", func() {
		for _, profile := range []string{"oauth2.0", "oauth2.1"} {
			name := "and-" + strings.ReplaceAll(profile, ".", "")
			service, _ := protect(name, map[string]any{"profile": profile})
			f.Must(201, http.MethodPost, "/services/"+name+"/plugins", map[string]any{"name": "key-auth"})
			migrate(name+"-token", map[string]any{"service": map[string]any{"id": service}})
			f.Must(201, http.MethodPost, "/consumers", map[string]any{"username": name})
			f.Must(201, http.MethodPost, "/consumers/"+name+"/key-auth", map[string]any{"key": name + "-other"})
			f.Must(201, http.MethodPost, "/consumers/alice/key-auth", map[string]any{"key": name + "-own"})
			f.Converged()
			ask := func(key string) *framework.Response {
				r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/%s/x", c.HTTP, name),
					http.Header{"Authorization": {"Bearer " + name + "-token"}, "Apikey": {key}}, "")
				Expect(err).NotTo(HaveOccurred())
				return r
			}
			Expect(ask(name + "-own").Status).To(Equal(200))
			want := map[string]int{"oauth2.0": 200, "oauth2.1": 403}[profile]
			var got *framework.Response
			Expect(guarded.during(func() { got = ask(name + "-other") })).To(HaveLen(map[int]int{200: 1, 403: 0}[want]))
			Expect(got.Status).To(Equal(want), got.Body)
			if want == 403 {
				Expect(got.JSON()).To(Equal(map[string]any{"message": "The credentials belong to different consumers"}))
			}
		}
	})
})
