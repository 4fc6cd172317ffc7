package demo

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// echo is the upstream of the demo. It answers every request with what it received, which
// shows the headers that the gateway sets.
type echo struct {
	server *http.Server
	port   int
	done   sync.WaitGroup
}

func startEcho(log *slog.Logger) (*echo, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fault.NotBegun(err)
	}
	e := &echo{port: ln.Addr().(*net.TCPAddr).Port}
	e.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(answerEcho)}
	e.done.Go(func() {
		if err := e.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the echo upstream ended", "error", err)
		}
	})
	return e, nil
}

func answerEcho(w http.ResponseWriter, r *http.Request) {
	headers := map[string]string{}
	for name := range r.Header {
		headers[name] = r.Header.Get(name)
	}
	if headers["Authorization"] != "" {
		headers["Authorization"] = "(present)"
	}
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(map[string]any{"method": r.Method, "path": r.URL.RequestURI(), "host": r.Host, "headers": headers})
}

func (e *echo) stop(ctx context.Context) {
	_ = e.server.Shutdown(ctx)
	e.done.Wait()
}
