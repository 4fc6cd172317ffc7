package cloud_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// credential is what the receiver wants to see.
const credential = "Basic c2VjcmV0"

// receiver is a SIEM that takes events over HTTPS, with a certificate that nobody vouches for. It can be away, and
// slow.
type receiver struct {
	port   int
	cert   tls.Certificate
	server *http.Server

	mu sync.Mutex
	// key verifies signatures.
	key ed25519.PublicKey
	// batches are the events of each request, in the order of their arrival.
	batches [][]event
	bad     []string
	// came are the times at which events arrived for the first time, by their browsers.
	came map[string]time.Time
	// under is how many requests are under way.
	under int
	// gate, if set, is what requests wait for before they are answered.
	gate chan struct{}
}

// event is what these tests look at.
type event struct {
	ID    string `json:"event_id"`
	Name  string `json:"name"`
	Agent string `json:"user_agent"`
}

func newReceiver() *receiver {
	GinkgoHelper()
	cert, key := framework.Certificate("siem.example")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	Expect(err).NotTo(HaveOccurred())
	r := &receiver{came: map[string]time.Time{}, port: framework.FreePorts(1)[0], cert: pair}
	r.comeBack()
	DeferCleanup(r.goAway)
	DeferCleanup(r.open)
	return r
}

func (r *receiver) url() string { return fmt.Sprintf("https://127.0.0.1:%d/audit", r.port) }

// goAway closes the port and all connections.
func (r *receiver) goAway() { _ = r.server.Close() }

// comeBack opens the port.
func (r *receiver) comeBack() {
	GinkgoHelper()
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", r.port)) //nolint:noctx // a test
	Expect(err).NotTo(HaveOccurred())
	r.server = &http.Server{
		Handler: http.HandlerFunc(r.take), TLSConfig: &tls.Config{Certificates: []tls.Certificate{r.cert}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.NewTextHandler(GinkgoWriter, nil), slog.LevelError),
	}
	go func() { _ = r.server.ServeTLS(ln, "", "") }()
}

// take takes the events of a request at once, and may answer later.
func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	gate := r.note(req)
	defer r.leave()
	if gate == nil {
		return
	}
	select {
	case <-gate:
	case <-req.Context().Done():
	}
	w.WriteHeader(http.StatusOK)
}

func (r *receiver) note(req *http.Request) (gate chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.under++; r.under > 1 { // only one portal sends here
		r.bad = append(r.bad, fmt.Sprintf("%d requests at a time", r.under))
	}
	if req.Method != http.MethodPost || req.Header.Get("Authorization") != credential {
		r.bad = append(r.bad, fmt.Sprint(req.Method, req.Header))
	}
	var batch []event
	for lines := bufio.NewScanner(req.Body); lines.Scan(); {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || !signed(lines.Bytes(), r.key) {
			r.bad = append(r.bad, fmt.Sprintf("%v: %s", err, lines.Text()))
		}
		batch = append(batch, e)
		if _, again := r.came[e.Agent]; !again {
			r.came[e.Agent] = now
		}
	}
	r.batches = append(r.batches, batch)
	return r.gate
}

// leave is the end of a request. Who sent it learns of it afterwards, and may send the next one then.
func (r *receiver) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.under--
}

// arrival is when an event arrived for the first time.
func (r *receiver) arrival(agent string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.came[agent]
}

// signed verifies the signature of a line as a receiver does that knows the documentation: it is of the object
// without the member sig, with sorted keys and without white space.
func signed(line []byte, key ed25519.PublicKey) bool {
	fields := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if d.Decode(&fields) != nil || len(key) != ed25519.PublicKeySize {
		return false
	}
	text, _ := fields["sig"].(string)
	sig, err := base64.RawURLEncoding.DecodeString(text)
	delete(fields, "sig")
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	return err == nil && e.Encode(fields) == nil && ed25519.Verify(key, bytes.TrimSpace(plain.Bytes()), sig)
}

// trust gives the receiver the key that jwks.json shows.
func (r *receiver) trust(x string) {
	GinkgoHelper()
	key, err := base64.RawURLEncoding.DecodeString(x)
	Expect(err).NotTo(HaveOccurred())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key = key
}

// hold lets requests that come from now on wait until open is called.
func (r *receiver) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate = make(chan struct{})
}

func (r *receiver) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate != nil {
		close(r.gate)
	}
	r.gate = nil
}

// arrived are the events so far, request by request.
func (r *receiver) arrived() [][]event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.batches)
}

// agents are the user agents of all events in the order of their arrival.
func (r *receiver) agents() []string {
	return texts(slices.Concat(r.arrived()...), func(e event) string { return e.Agent })
}

func texts(events []event, of func(event) string) (list []string) {
	for _, e := range events {
		list = append(list, of(e))
	}
	return list
}

// outcomes are what the events tell.
func outcomes(events []event) []string {
	return texts(events, func(e event) string { return strings.TrimPrefix(e.Name, "AUTHENTICATION_OUTCOME_") })
}

// expectNothingBad demands that every request was right and every event signed.
func (r *receiver) expectNothingBad() {
	GinkgoHelper()
	r.mu.Lock()
	defer r.mu.Unlock()
	Expect(r.bad).To(BeEmpty())
}
