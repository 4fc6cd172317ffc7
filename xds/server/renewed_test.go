package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/meshgate/meshgate/xds/rejudge"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// lockedBuffer is a buffer for several concurrent writers.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// lastLeave receives the Disconnected event of a stream.
type lastLeave chan server.Event

func (lastLeave) Connected(server.Event)        {}
func (lastLeave) Sent(server.Event)             {}
func (lastLeave) Acknowledged(server.Event)     {}
func (lastLeave) Rejected(server.Event)         {}
func (lastLeave) Refused(server.Event)          {}
func (l lastLeave) Disconnected(e server.Event) { l <- e }

// TestRotationByTheBookIsNoAttack: a stream whose token is no longer valid ends even if its
// node has a newer token. In that case it is not reported as a refusal, and no warning is
// logged.
func TestRotationByTheBookIsNoAttack(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			a, log := &roll{}, &lockedBuffer{}
			left := make(lastLeave, 1)
			r := setup(t, func(c *server.Config) {
				c.Auth, c.Log, c.Observer = a, slog.New(slog.NewTextHandler(log, nil)), left
			})
			c := started(t, r, xdstest.Options{Token: "old"})
			err, code := fmt.Errorf("the key is gone: %w", server.ErrUnauthenticated), codes.Unauthenticated
			if renewed {
				err, code = rejudge.Renewed(err), codes.Aborted
			}
			a.set(time.Time{}, err)
			r.srv.Recheck(t.Context(), nodeID)
			ends(t, c, code)
			if e := <-left; e.Renewed != renewed {
				t.Errorf("renewed %t, and whoever watches is told %t", renewed, e.Renewed)
			}
			if warned := strings.Contains(log.String(), "level=WARN"); warned == renewed {
				t.Errorf("renewed %t: %s", renewed, log)
			}
		})
	}
}
