package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/meshgate/meshgate/controlplane/adminlink"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Pauses after a renewal that did not succeed.
const (
	renewFirst = time.Second
	renewMax   = 10 * time.Minute
)

// renewal keeps the token of a node valid. It asks for a successor of a gateway's token
// after two thirds of its life. It asks for a successor of any token when the control plane
// requests it, because the key that signed the token is being removed. It stores the
// successor in the token file, which every new connection reads. Streams with the old token
// stay open until that token ends, and reconnect with the new one.
type renewal struct {
	*Agent
	// renew returns the successor of a token.
	renew func(ctx context.Context, token string) (string, error)
	now   func() time.Time
	// again makes the agent present the new token, so that the control plane learns of it.
	again func()
}

func (a *Agent) renewal() *renewal {
	return &renewal{Agent: a, now: time.Now, again: a.link.Again, renew: func(ctx context.Context, token string) (string, error) {
		return enrol.Renew(ctx, a.client(), a.Address, token)
	}}
}

// askedToRenew handles the control plane's request for a renewal.
func (a *Agent) askedToRenew() {
	select {
	case a.renewNow <- struct{}{}:
	default: // a renewal is due already
	}
}

// fetch answers the control plane's requests.
func (a *Agent) fetch(ctx context.Context, path string) (io.ReadCloser, error) {
	if path == adminlink.RenewPath {
		a.askedToRenew()
		return http.NoBody, nil
	}
	answer, err := a.Envoy.Admin.Fetch(ctx, path)
	if err != nil {
		return nil, err
	}
	return withhold(answer, a.password), nil
}

// run renews the token until ctx ends. If the agent may not write the file, it only warns:
// the provider of the token has to replace it.
func (n *renewal) run(ctx context.Context) {
	pause, asked, told := renewFirst, "", ""
	for ctx.Err() == nil {
		token, err := n.token()
		if err == nil && asked != "" && asked != token { // another process has replaced the token
			asked = ""
			n.again()
		}
		var due time.Time
		if err == nil && asked == "" {
			due, err = n.due(token)
		}
		if err == nil && asked == "" && (due.IsZero() || due.Sub(n.now()) > 0) {
			if n.wait(ctx, due) {
				asked = token
			}
			pause = renewFirst
			continue // another process may have replaced the token meanwhile
		}
		if err == nil {
			err = n.replaceToken(ctx, token)
		}
		if err == nil {
			n.Log.Info("the node token was renewed", "node", n.NodeID())
			pause, asked, told = renewFirst, "", ""
			n.unrenewed.Store(nil)
			n.judgeToken(n.now())
			n.again()
			continue
		}
		if ctx.Err() == nil {
			why := err.Error()
			n.unrenewed.Store(&why)
			level := slog.LevelWarn
			if err.Error() == told { // the same error was logged already
				level = slog.LevelDebug
			}
			told = err.Error()
			n.Log.Log(ctx, level, "the node token could not be renewed", "node", n.NodeID(), "file", n.TokenFile, "retry_in", pause.String(), "error", err)
		}
		_ = alarm.Rest(ctx, pause) // the loop checks ctx
		pause = min(2*pause, renewMax)
	}
}

// due returns when a token is to be renewed without a request, or zero for never. The token
// of a proxy of a mesh is not renewed by time: its creator chose its life. One that another client
// certificate has issued is due.
func (n *renewal) due(token string) (time.Time, error) {
	if n.Sidecar != nil {
		return time.Time{}, nil
	}
	if n.Certificate != nil && !n.Certificate.issued(token) {
		return n.now(), nil
	}
	return renewAt(token)
}

// wait returns at the time due, or earlier if ctx ends or the control plane asks for a
// renewal. It reports the latter. A new client certificate is noticed by looking.
func (n *renewal) wait(ctx context.Context, due time.Time) (asked bool) {
	if look := n.now().Add(renewMax); n.Certificate != nil && look.Before(due) {
		due = look
	}
	moment := alarm.New(n.now)
	moment.Set(due)
	defer moment.Set(time.Time{})
	select {
	case <-n.renewNow:
		return true
	case <-moment.C():
	case <-ctx.Done():
	}
	return false
}

// replaceToken stores the successor of a token.
func (n *renewal) replaceToken(ctx context.Context, token string) error {
	if n.Certificate != nil {
		return n.certify(ctx)
	}
	if err := owns(n.TokenFile); err != nil {
		return err
	}
	next, err := n.renew(ctx, token)
	if err != nil {
		return err
	}
	if !isToken(next) { // stored in place of the token, it would lock the node out
		return errors.New("the control plane's answer is not a token")
	}
	if due, err := n.due(next); err != nil || !due.IsZero() && due.Sub(n.now()) <= 0 {
		return errors.Join(errors.New("the control plane's token ends at once"), err)
	}
	return replace(n.TokenFile, []byte(next))
}

// owns returns an error if the agent must not replace a token file: links and files of
// other users are written by the provider of the token.
func owns(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || !ok || int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a file of this process's user: replace it before the token ends", path)
	}
	return nil
}

// renewAt returns when two thirds of a token's life are over.
func renewAt(token string) (time.Time, error) {
	c, err := lifeOf(token)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(int64(c.Issued+(c.Expires-c.Issued)*2/3), 0), nil
}

// tokenLife is when a token was issued and when it expires, in seconds of Unix time.
type tokenLife struct {
	Issued  float64 `json:"iat"`
	Expires float64 `json:"exp"`
}

// lifeOf reads the times from a token. It does not verify the token; the control plane does
// that.
func lifeOf(token string) (c tokenLife, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c, errors.New("the node token is not a JWT")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return c, errors.New("the node token is not a JWT")
	}
	if err := json.Unmarshal(raw, &c); err != nil || c.Expires <= c.Issued {
		return c, errors.New("the node token does not say when it ends")
	}
	return c, nil
}
