package explain_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// These set how much the differential test does: worlds in one Envoy, requests in each world,
// and the first seed, which is printed.
const (
	envWorlds   = "MESHGATE_TEST_EXPLAIN_WORLDS"
	envRequests = "MESHGATE_TEST_EXPLAIN_REQUESTS"
	envSeed     = "MESHGATE_TEST_EXPLAIN_SEED"
)

func setting(t *testing.T, name string, otherwise uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// most is how many times a request is sent until each workload that must answer some has answered.
const most = 200

// batch is how many worlds one Envoy has.
const batch = 40

// TestEnvoyDoesWhatIsExplained plans random meshes, runs one real Envoy with all of their proxies,
// and sends random requests. Each must be answered as the explanation says: by one of the
// workloads that it names, or with the status that it names, or not at all.
func TestEnvoyDoesWhatIsExplained(t *testing.T) {
	worlds, requests := setting(t, envWorlds, 2*batch), setting(t, envRequests, 30)
	seed := setting(t, envSeed, 1)
	counts := map[string]int{}
	for first := uint64(0); first < worlds; first += batch {
		t.Run(fmt.Sprintf("seed %d", seed+first), func(t *testing.T) { compare(t, seed+first, min(batch, worlds-first), requests, counts) })
	}
	t.Logf("requests by their verdict, and refusals by their step: %v", counts)
	for _, seen := range []string{
		explain.Allowed, explain.Refused, explain.Depends, "permission 403", "permission 0", "connection 0", "token 401",
		"fault 418", "fault 503", "limit 429", "limit 409", "route 404", "endpoint 503", "endpoint 0", "cluster 0",
		"spread",
	} {
		if counts[seen] == 0 {
			t.Errorf("no request is %s", seen)
		}
	}
	if counts[explain.Unknown] > 0 {
		t.Errorf("of %d requests nothing is said", counts[explain.Unknown])
	}
}

func compare(t *testing.T, seed, worlds, requests uint64, counts map[string]int) {
	ca := newAuthority(t)
	f := &fleet{t: t, ca: ca, boot: &bootstrapv3.Bootstrap_StaticResources{}}
	var all []*drawing
	net := 64 + os.Getpid()%150
	for i := range worlds {
		d := drawn(newWorld(t, fmt.Sprintf("w%d", seed+i)), seed+i, fmt.Sprintf("127.%d.%d", net, i+1), ca.Roots)
		f.host(d.w)
		serve(t, d)
		all = append(all, d)
	}
	text, err := protojson.Marshal(&bootstrapv3.Bootstrap{StaticResources: f.boot, Node: &corev3.Node{Id: "test", Cluster: "test"}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	plantest.Run(t, file)
	for _, d := range all {
		taken, spread := map[string]counted{}, 0
		for range requests {
			q, port := d.question()
			e := d.w.explain(q)
			counts[e.Outcome.Verdict]++
			tally(e, counts)
			got := send(t, d.address(slices.Index(d.w.joined, q.Source)), port, q)
			if !expected(e, got, taken) {
				t.Errorf("%s: %+v: Envoy: %s, explained: %s", d.w, q, got, dump(e))
			}
			if wrong := summed(e); wrong != "" {
				t.Errorf("%s: %+v: %s: %s", d.w, q, wrong, dump(e))
			}
			if must := promised(e); len(must) > 0 && spread < 5 {
				spread++
				counts["spread"]++
				for n := 0; n < most && len(must) > 0; n++ {
					delete(must, send(t, d.address(slices.Index(d.w.joined, q.Source)), port, q).by)
				}
				if len(must) > 0 {
					t.Errorf("%s: %+v: of %d requests none was answered by %v: %s", d.w, q, most, slices.Sorted(maps.Keys(must)), dump(e))
				}
			}
		}
	}
}

// promised are the workloads that must answer some of many requests: those with a fifth of them at
// least, of several, where nothing but that share decides. That one with a fifth gets none of the
// most that are sent does not happen: the chance is 1 in 10^19.
func promised(e *explain.Explanation) map[string]bool {
	must, shares := map[string]bool{}, map[string]float64{}
	for i := range e.Endpoints {
		x := &e.Endpoints[i]
		if x.Share == 0 {
			continue
		}
		if x.Outcome.Verdict != explain.Allowed || slices.ContainsFunc(x.Steps, func(s explain.Step) bool { return s.Chance != nil }) {
			return nil
		}
		if shares[x.Dataplane] += x.Share; shares[x.Dataplane] >= 20 {
			must[x.Dataplane] = true
		}
	}
	if len(shares) < 2 {
		return nil
	}
	return must
}

// summed says what is wrong with the outcome over all endpoints.
func summed(e *explain.Explanation) string {
	if len(e.Endpoints) == 0 {
		return ""
	}
	seen := map[explain.Outcome]bool{}
	for i := range e.Endpoints {
		seen[explain.Outcome{Verdict: e.Endpoints[i].Outcome.Verdict, Status: e.Endpoints[i].Outcome.Status}] = true
	}
	got, want := explain.Outcome{Verdict: e.Outcome.Verdict, Status: e.Outcome.Status}, explain.Outcome{Verdict: explain.Depends}
	if len(seen) == 1 {
		for want = range seen {
		}
	}
	if got != want {
		return fmt.Sprintf("together it is %s %d, and of the endpoints %v", got.Verdict, got.Status, seen)
	}
	return ""
}

// tally counts what refuses requests, and what limits them.
func tally(e *explain.Explanation, counts map[string]int) {
	note := func(o *explain.Outcome) {
		if o.By != nil {
			counts[fmt.Sprintf("%s %d", o.By.Step, o.Status)]++
		}
	}
	note(&e.Outcome)
	for i := range e.Endpoints {
		note(&e.Endpoints[i].Outcome)
		for _, s := range e.Endpoints[i].Steps {
			if s.Chance != nil && s.Step == "limit" {
				counts[fmt.Sprintf("limit %d", s.Chance.Status)]++
			}
		}
	}
}

// answer is what a workload sees: a status and who answered, or nothing.
type answer struct {
	status uint32
	by     string
}

func (a answer) String() string { return fmt.Sprintf("%d by %q", a.status, a.by) }

// serve runs the workloads of a world. They say which dataplane they are of.
func serve(t *testing.T, d *drawing) {
	for i, name := range d.w.joined {
		for k := range d.w.spec(name).Networking.Inbound {
			l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", d.address(i), 9080+k))
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(rw, name)
			})}
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = s.Serve(l)
			}()
			t.Cleanup(func() {
				_ = s.Close()
				<-done
			})
		}
	}
}

// send sends a request to an outbound of a proxy.
func send(t *testing.T, host string, port int, q explain.Question) answer {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.Method, fmt.Sprintf("http://%s:%d%s", host, port, q.Path), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range q.Headers {
		r.Header.Add(h.Name, h.Value)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(r)
	if ctx.Err() != nil {
		t.Fatalf("%+v is not answered", q)
	}
	if err != nil {
		return answer{}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}
	}
	out := answer{status: uint32(res.StatusCode)}
	if res.StatusCode == http.StatusOK {
		out.by = string(body)
	}
	return out
}

// counted is how many requests a limit has let pass: at least, and at most. It is not always known
// which endpoint has answered, nor how often the first proxy has asked.
type counted struct{ least, most uint32 }

// expected reports whether an explanation permits an answer. taken counts requests by their limit.
func expected(e *explain.Explanation, got answer, taken map[string]counted) bool {
	if len(e.Endpoints) == 0 {
		return e.Outcome.Verdict == explain.Refused && got == answer{status: e.Outcome.Status}
	}
	again := repeats(e, got)
	ok := false
	var sure []string
	for i := range e.Endpoints {
		x := &e.Endpoints[i]
		if x.Share == 0 {
			continue
		}
		key, permitted, passed := permits(x, got, taken, again)
		ok = ok || permitted
		if permitted {
			sure = append(sure, key)
		}
		if c := taken[key]; key != "" && (permitted || again > 0) {
			c.most += 1 + again
			if !passed && again == 0 {
				c.most--
			}
			taken[key] = c
		}
		if !passed {
			sure = append(sure, "")
		}
	}
	if len(sure) == 1 && sure[0] != "" {
		c := taken[sure[0]]
		c.least++
		taken[sure[0]] = c
	}
	return ok
}

// repeats is how often the first proxy may have sent a request again. It does so after failures that
// its policy names, and the one drawn here names none by their status but those of 5xx. A limit or a
// workload has then answered at the first time, unless another endpoint fails.
func repeats(e *explain.Explanation, got answer) uint32 {
	if !slices.ContainsFunc(e.Steps, func(s explain.Step) bool { return s.Step == "retry" }) {
		return 0
	}
	fails := func(status uint32) bool { return status == 0 || status >= 500 }
	if fails(got.status) {
		return 5
	}
	for i := range e.Endpoints {
		x := &e.Endpoints[i]
		if x.Outcome.Verdict == explain.Refused && fails(x.Outcome.Status) ||
			slices.ContainsFunc(x.Steps, func(s explain.Step) bool { return s.Chance != nil && s.Chance.Delay == "" && fails(s.Chance.Status) }) {
			return 5
		}
	}
	return 0
}

// permits reports whether the outcome at an endpoint permits an answer, which limit counts it, and
// whether the request has passed that limit. again is how often it may have been sent again.
func permits(x *explain.Endpoint, got answer, taken map[string]counted, again uint32) (key string, ok, passed bool) {
	for i := range x.Steps {
		c := x.Steps[i].Chance
		switch {
		case c == nil || c.Delay != "":
		case c.Requests > 0:
			if key = explain.Key(&x.Steps[i]); ok {
				return key, true, false // a fault has come before
			}
			if got == (answer{status: c.Status}) {
				return key, taken[key].most+again >= c.Requests, false
			}
			if taken[key].least >= c.Requests {
				return key, false, false
			}
		case got == answer{status: c.Status}:
			ok = true
		}
	}
	if x.Outcome.Verdict == explain.Refused && got == (answer{status: x.Outcome.Status}) {
		return key, true, true
	}
	return key, ok || x.Outcome.Verdict == explain.Allowed && got == answer{http.StatusOK, x.Dataplane}, !ok
}

func dump(e *explain.Explanation) string {
	text := fmt.Sprintf("%s %d %s\n", e.Outcome.Verdict, e.Outcome.Status, e.Outcome.Text)
	for _, s := range e.Steps {
		text += fmt.Sprintf("  %s %s: %s %v\n", s.Proxy, s.Step, s.Text, s.Decided)
	}
	for _, x := range e.Endpoints {
		text += fmt.Sprintf("  %s %s %.1f %s %d %s\n", x.Address, x.Dataplane, x.Share, x.Outcome.Verdict, x.Outcome.Status, x.Outcome.Text)
		for _, s := range x.Steps {
			text += fmt.Sprintf("    %s %s: %s %v\n", s.Proxy, s.Step, s.Text, s.Decided)
		}
	}
	return text
}

// spec is the specification of a dataplane.
func (w *world) spec(name string) *mesh.Dataplane {
	d, ok := w.planner.State().Dataplane(name)
	if !ok {
		w.t.Fatalf("there is no dataplane %s", name)
	}
	return d.Spec
}
