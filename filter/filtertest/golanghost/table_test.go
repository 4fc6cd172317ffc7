package golanghost

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// listener is the configuration of a listener that reads records in a Redis.
func listener(redisURL string) string {
	settings, err := json.Marshal(contract.FilterConfig{Settings: &contract.Settings{Redis: &contract.RedisSettings{URL: redisURL}}})
	if err != nil {
		panic(err)
	}
	return `{"listener":` + string(settings) + `}`
}

// The behaviour that all adapters share, also with an authority that is away.
func TestBehaviourTable(t *testing.T) { both(t, testBehaviourTable) }

func testBehaviourTable(t *testing.T, way way) {
	server := redistest.Start(t)
	db := redis.NewClient(&redis.Options{Addr: server.Address()})
	t.Cleanup(func() { _ = db.Close() })
	e := startEnvoy(t, plugin, way)
	listeners := map[bool]int{false: e.config(false, listener("redis://"+server.Address())), true: e.config(false, listener("redis://127.0.0.1:1"))}
	for _, c := range filtertest.Cases() {
		t.Run(c.Name, func(t *testing.T) {
			for i := range c.Tokens {
				data, err := c.Tokens[i].Record.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Set(t.Context(), contract.RedisRecordKey("", c.Tokens[i].Hash()), data, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			e.t = t
			o := e.run(requestOf(&c, e.routeOf(listeners[c.Down], c.Chain)))
			for _, d := range c.Check(o) {
				t.Error(d)
			}
		})
	}
}

// routeOf is the configuration of a route with a chain, which may be no JSON at all.
func (e *envoy) routeOf(listener int, chain string) int {
	e.t.Helper()
	text := `{"chain":` + chain + `}`
	if !json.Valid([]byte(chain)) {
		quoted, err := json.Marshal(chain)
		if err != nil {
			e.t.Fatal(err)
		}
		text = `{"chain":` + string(quoted) + `}`
	}
	return e.merge(listener, e.config(true, text))
}

// requestOf is the request of a case as Envoy shows it to a filter.
func requestOf(c *filtertest.Case, config int) *asked {
	a := &asked{config: config, protocol: http11, body: c.Request.Body, hasBody: c.Request.Body != "" || c.Request.Trailers}
	if c.Request.HTTP2 {
		a.protocol = http2
	}
	for name, values := range filtertest.Received(c) {
		for _, v := range values {
			a.headers = append(a.headers, [2]string{strings.ToLower(name), v})
		}
	}
	a.headers = append(a.headers, [2]string{":path", filtertest.Normalise(c.Request.Path)}, [2]string{":scheme", "http"}, [2]string{":authority", c.Name})
	if c.Request.Trailers {
		a.trailers = [][2]string{{"x-trailer", "behind"}}
	}
	return a
}

// All that the first level knows of the tokens of a case is decided at once. The front lets the
// same requests pass as the official interface, with the same edits.
func TestBehaviourTableFromMemory(t *testing.T) { both(t, testBehaviourTableFromMemory) }

func testBehaviourTableFromMemory(t *testing.T, way way) {
	e := startEnvoy(t, stormy, way)
	listener := e.config(false, "{}")
	for _, c := range filtertest.Cases() {
		if c.Down {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			e.t = t
			for i := range c.Tokens {
				if c.Tokens[i].Record.Expires != 0 {
					continue // it has expired: nobody knows it any more
				}
				hash := c.Tokens[i].Hash()
				e.say("put %s %s", dashed(string(hash[:])), dashed(string(c.Tokens[i].Record.Pack(nil))))
			}
			o := e.run(requestOf(&c, e.routeOf(listener, c.Chain)))
			for _, d := range c.Check(o) {
				t.Error(d)
			}
		})
	}
	e.t = t
	if way == fast && e.memory().atOnce < 20 {
		t.Error("the front has let hardly any request pass")
	}
}
