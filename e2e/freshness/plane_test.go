package freshness

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/steady/steadytest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	scope = model.DefaultControlPlane
	// planeTimeout is how patient the control plane is with Redis; see package revoke.
	planeTimeout = 500 * time.Millisecond
	redisURL     = "redis://redis"
)

var errKilled = errors.New("the process was killed")

// plane is one process of the control plane: the real Revoker behind a server.
type plane struct {
	store.Store
	r     *revoke.Revoker
	door  *doorway
	http  *http.Server
	redis redis.UniversalClient
	links ends
	dead  atomic.Bool
	calls *sync.WaitGroup
	// planned is closed when it is known what nodes may ask about.
	planned chan struct{}
	planner *time.Timer
}

// View implements [store.Store]. Whoever is dead reads nothing.
func (p *plane) View(ctx context.Context, fn func(store.Reader) error) error {
	if p.dead.Load() {
		return errKilled
	}
	return p.Store.View(ctx, fn)
}

// Update implements [store.Store].
func (p *plane) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if p.dead.Load() {
		return store.Commit{}, errKilled
	}
	return p.Store.Update(ctx, class, fn)
}

// Record implements [revoke.Source]. The user of a record is the revision at which
// the token was read.
func (p *plane) Record(ctx context.Context, scope string, hash contract.Hash) (rec *contract.Record, answer contract.Answer, rev uint64, err error) {
	answer = contract.Unknown
	err = p.View(ctx, func(r store.Reader) error {
		rev = r.Revision()
		res, err := r.Find(gateway.Tokens, scope, gateway.IndexAccessToken, hex.EncodeToString(hash[:]))
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		answer = contract.Found
		rec, err = made(r, res)
		return err
	})
	return rec, answer, rev, err
}

// made implements [revoke.Options].Made.
func made(r store.Reader, res *model.Resource) (*contract.Record, error) {
	token := res.Spec.(*gateway.Token)
	app, err := r.Get(gateway.Applications, res.Scope, token.Credential)
	if err != nil {
		return nil, err
	}
	return &contract.Record{
		Version: 1, Plane: res.Scope, UserID: fmt.Sprint(r.Revision()), Credential: contract.Credential{ID: token.Credential},
		Consumer: &contract.Consumer{ID: app.Spec.(*gateway.Application).Consumer},
	}, nil
}

// Authenticate implements [revoke.Authenticator].
func (p *plane) Authenticate(_ context.Context, node, token string) (revoke.Node, error) {
	if token != "good" {
		return revoke.Node{}, errors.New("no")
	}
	return revoke.Node{ID: cmp.Or(node, "node"), ControlPlane: scope}, nil
}

// plan implements [revoke.Options].Planned.
func (p *plane) plan(ctx context.Context, _ revoke.Node) {
	select {
	case <-p.planned:
	case <-ctx.Done():
	}
}

func (p *plane) isPlanned() bool {
	select {
	case <-p.planned:
		return true
	default:
		return false
	}
}

// openPlane starts a control plane on a store, which has planned its nodes some time
// later.
func openPlane(s store.Store, clock *steadytest.Hand, to *route, planning time.Duration) (*plane, error) {
	p := &plane{Store: s, door: newDoorway(), calls: &sync.WaitGroup{}, planned: make(chan struct{})}
	process := clock.Begin()
	_, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error { return revoke.NoteTime(tx, process) })
	if err != nil {
		return nil, err
	}
	p.redis, err = redisconn.Open(redisconn.Options{
		Settings: contract.RedisSettings{URL: redisURL}, Timeout: planeTimeout, DialTimeout: planeTimeout,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if p.dead.Load() {
				return nil, errRefused
			}
			return to.dial(ctx, network, address)
		},
	})
	if err != nil {
		return nil, err
	}
	p.r, err = revoke.New(context.Background(), revoke.Options{
		Store: p, Subjects: oauth.Subjects(), Source: p, Made: made, Auth: p, Redis: p.redis,
		NodeRedis: func(bool) *contract.RedisSettings { return &contract.RedisSettings{URL: redisURL} },
		Allowed:   func(revoke.Node, string) bool { return p.isPlanned() }, ChecksTokens: func(revoke.Node) bool { return true },
		Planned: p.plan, Now: clock.Now, Clock: process, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(err, p.redis.Close())
	}
	p.http = &http.Server{Handler: p.r, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	p.calls.Go(func() { _ = p.http.Serve(p.door) })
	p.planner = time.AfterFunc(planning, func() { close(p.planned) })
	return p, nil
}

// stop ends it in good order.
func (p *plane) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := p.r.Close(ctx)
	p.leave()
	return err
}

// kill ends it with whatever is under way. What it has sent to Redis may arrive.
func (p *plane) kill() {
	p.dead.Store(true)
	_ = p.redis.Close()
	p.links.cut()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = p.r.Close(over)
	p.leave()
}

func (p *plane) leave() {
	p.planner.Stop()
	p.dead.Store(true)
	_ = p.redis.Close()
	p.links.cut()
	_ = p.http.Close()
	p.calls.Wait()
}
