package assembly

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// acknowledged is a write that was answered with success.
type acknowledged struct {
	revision     uint64
	member, text string
}

// writersAtOnce is how many write one object at the same time.
const writersAtOnce = 200

// compete has all writers send one request each at once, and returns those that were acknowledged in
// the order of their revisions. request says what the nth one writes: a member, and its value.
func compete(t *testing.T, request func(n int) (method, url, body, member, text string)) (list []acknowledged) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writersAtOnce}}
	defer client.CloseIdleConnections()
	var (
		mu      sync.Mutex
		refused = map[int]int{}
		all     sync.WaitGroup
		begin   = make(chan struct{})
	)
	for n := range writersAtOnce {
		all.Go(func() {
			method, url, body, member, text := request(n)
			r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			r.Header.Set("Content-Type", "application/json")
			<-begin
			a, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := io.ReadAll(a.Body)
			_ = a.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				t.Error(err)
			case a.StatusCode/100 == 2:
				revision, err := strconv.ParseUint(a.Header.Get(meshapi.HeaderRevision), 10, 64)
				if err != nil {
					t.Errorf("%d %s: %v", a.StatusCode, answer, err)
				}
				list = append(list, acknowledged{revision, member, text})
			case a.StatusCode == http.StatusConflict, a.StatusCode == http.StatusTooManyRequests, a.StatusCode == http.StatusServiceUnavailable:
				refused[a.StatusCode]++
			default:
				t.Errorf("%d %s", a.StatusCode, answer)
			}
		})
	}
	close(begin)
	all.Wait()
	t.Logf("%d acknowledged, refused %v", len(list), refused)
	if len(list) < writersAtOnce/2 {
		t.Errorf("only %d writes were acknowledged, refused %v", len(list), refused)
	}
	slices.SortFunc(list, func(a, b acknowledged) int { return int(a.revision) - int(b.revision) })
	return list
}

// newest reads the value of a member that a record says, as text.
func newest(t *testing.T, raw json.RawMessage) (text string) {
	t.Helper()
	if err := json.Unmarshal(raw, &text); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return text
}

// TestWritersOfOneObject: when many write one object at once, exactly what was acknowledged has
// happened: each acknowledged write once, at the revision that it was told, on top of the one before
// it, and nothing of those that were refused. What one writes into one member, nobody loses who
// writes into another.
func TestWritersOfOneObject(t *testing.T) {
	for _, kind := range []string{"memory", "sqlite"} {
		t.Run(kind, func(t *testing.T) {
			cp := startServing(t, config.Config{
				Store: config.Store{Type: kind}, Access: config.Access{LocalhostIsAdmin: true, Anonymous: true}, Changes: config.Changes{Keep: time.Hour, Max: 10_000},
			}, slog.New(slog.DiscardHandler))
			admin, meshes := fmt.Sprintf("http://127.0.0.1:%d", cp.AdminPort()), fmt.Sprintf("http://127.0.0.1:%d", cp.MeshPort())
			post(t, admin+"/services", `{"name":"s","host":"first","path":"/first"}`)
			// Whole documents are replaced; entities are changed in one member of two.
			puts := compete(t, func(n int) (method, url, body, member, text string) {
				text = fmt.Sprintf("10.0.0.%d", n+1)
				return http.MethodPut, meshes + "/meshes/default/dataplanes/d", `{"type":"Dataplane","mesh":"default","name":"d","networking":{"address":"` + text + `","inbound":[{"port":80,"tags":{"mesh.io/service":"d"}}]}}`, "/networking/address", text
			})
			patches := compete(t, func(n int) (method, url, body, member, text string) {
				member, text = "/host", fmt.Sprintf("host-%d", n)
				if n%2 == 1 {
					member, text = "/path", fmt.Sprintf("/path-%d", n)
				}
				return http.MethodPatch, admin + "/services/s", fmt.Sprintf("{%q:%q}", member[1:], text), member, text
			})
			shown := func(k *model.Kind) map[string]string {
				out := map[string]string{}
				if err := cp.store.View(t.Context(), func(r store.Reader) error {
					for _, scope := range []string{mesh.Default} {
						list, err := r.List(k, store.Query{Scope: scope})
						if err != nil {
							return err
						}
						for _, res := range list {
							eachLeaf(jsonOf(t, res), "", func(path, value string) { out[path] = value })
							out["version"] = fmt.Sprint(res.Version)
						}
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return out
			}
			for _, c := range []struct {
				kind    *model.Kind
				done    []acknowledged
				before  uint64
				initial map[string]string
			}{{mesh.Dataplanes, puts, 0, nil}, {gateway.Services, patches, 1, map[string]string{"/host": "first", "/path": "/first"}}} {
				last := map[string]string{}
				for member, text := range c.initial {
					last[member] = text
				}
				var recorded []acknowledged
				for _, r := range recordsOf(t, cp.store) {
					if r.Key.Kind != c.kind.Name || uint64(len(recorded)) == 0 && r.Op == store.Created && c.before > 0 {
						continue
					}
					for _, m := range r.Members {
						if m.Path != "/host" && m.Path != "/path" && m.Path != "/networking/address" {
							continue
						}
						if was := last[m.Path]; was != "" && newest(t, m.Old) != was {
							t.Errorf("%s %d follows %s, and not %s", m.Path, r.Revision, m.Old, was)
						}
						last[m.Path] = newest(t, m.New)
						recorded = append(recorded, acknowledged{r.Revision, m.Path, last[m.Path]})
					}
				}
				if !slices.Equal(recorded, c.done) {
					t.Errorf("%s: acknowledged were\n%v\nand happened have\n%v", c.kind.Name, c.done, recorded)
				}
				now := shown(c.kind)
				for member, text := range last {
					if now[member] != text {
						t.Errorf("%s %s is %s, and the last that was acknowledged %s", c.kind.Name, member, now[member], text)
					}
				}
				if want := fmt.Sprint(c.before + uint64(len(c.done))); now["version"] != want {
					t.Errorf("%s has version %s after %s writes", c.kind.Name, now["version"], want)
				}
			}
		})
	}
}

func post(t *testing.T, url, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = a.Body.Close(); a.StatusCode/100 != 2 {
		t.Fatalf("%s: %d", url, a.StatusCode)
	}
}
