package adminlink

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hostile opens a link whose agent side the test controls. ended yields why the link ended.
func hostile(t *testing.T, s *Server, node string) (agent net.Conn, ended <-chan error) {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.serve(t.Context(), pipeLink(node, here), time.Time{}) }()
	t.Cleanup(func() { _ = there.Close() })
	synctest.Wait()
	return there, done
}

// TestUnaskedPongs: an agent reports once for each ping. An agent that reports without a
// ping loses its link, and the report is ignored.
func TestUnaskedPongs(t *testing.T) {
	for name, test := range map[string]struct{ pings, pongs, heard int }{
		"none was asked for":         {0, 1, 0},
		"two for one ping":           {1, 2, 1},
		"those of two pings at once": {2, 2, 2},
		"three for two":              {2, 3, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var heard atomic.Int32
				s := newServer(t, Options{Report: func(_ string, r Report) {
					if r.Trouble != "" {
						heard.Add(1)
					}
				}})
				agent, ended := hostile(t, s, "m.a")
				for range test.pings {
					if f, err := read(agent); err != nil || f.kind != ping {
						t.Fatalf("%+v, %v", f, err)
					}
				}
				for range test.pongs {
					if err := write(agent, frame{kind: pong, body: []byte("it hangs")}); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				if n := int(heard.Load()); n != test.heard {
					t.Errorf("heard %d times", n)
				}
				select {
				case err := <-ended:
					if test.pongs <= test.pings || !errors.Is(err, errPonged) {
						t.Errorf("ended: %v", err)
					}
				default:
					if test.pongs > test.pings {
						t.Error("the link lives")
					}
					_ = agent.Close()
					<-ended
				}
			})
		})
	}
}

// TestUnaskedFrames: other frames that an agent sends without a question are not accepted
// either.
func TestUnaskedFrames(t *testing.T) {
	for _, k := range []kind{0, ask, data, end, fail, ping, pong + 1} {
		synctest.Test(t, func(t *testing.T) {
			agent, ended := hostile(t, newServer(t, Options{}), "m.a")
			if err := write(agent, frame{kind: k}); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, errUnasked) {
				t.Errorf("frame of type %d: %v", k, err)
			}
		})
	}
}

// TestManyLinks: an agent that opens one link after the other does not fill the log.
func TestManyLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newServer(t, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 100 {
			s.ended(&link{node: "m.a"}, time.Millisecond, errReplaced)
		}
		time.Sleep(briefPause) // virtual time
		s.ended(&link{node: "m.a"}, time.Millisecond, errReplaced)
		s.ended(&link{node: "m.b"}, shortLife, errSlow)
		if text := log.String(); strings.Count(text, "\n") != 3 || !strings.Contains(text, "links=100") || !strings.Contains(text, "m.b") {
			t.Error(text)
		}
	})
}
