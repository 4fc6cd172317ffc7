package agent

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Pauses after a renewal that did not succeed.
const (
	renewFirst = time.Second
	renewMax   = 10 * time.Minute
)

// renewal keeps the token of a gateway from ending: after two thirds of its life
// it asks for a successor and puts that into the token's file, where every new
// connection reads it. Streams with the old token stay open until that ends, and
// return with the new one.
type renewal struct {
	*Agent
	// renew returns the successor of a token.
	renew func(ctx context.Context, token string) (string, error)
	now   func() time.Time
}

func (a *Agent) renewal() *renewal {
	return &renewal{Agent: a, now: time.Now, renew: func(ctx context.Context, token string) (string, error) {
		return enrol.Renew(ctx, a.client(), a.Address, token)
	}}
}

// run works until ctx ends. An agent that may not write the file only warns:
// whoever provides the token replaces it.
func (n *renewal) run(ctx context.Context) {
	pause, told := renewFirst, ""
	for {
		token, err := n.token()
		due := time.Time{}
		if err == nil {
			due, err = renewAt(token)
		}
		if err == nil && due.Sub(n.now()) > 0 {
			if alarm.Wait(ctx, n.now, due) != nil {
				return
			}
			pause = renewFirst
			continue // somebody may have replaced it meanwhile
		}
		if err == nil {
			err = n.replaceToken(ctx, token)
		}
		if err == nil {
			n.Log.Info("the node token was renewed", "node", n.NodeID())
			pause = renewFirst
			continue
		}
		if ctx.Err() == nil {
			level := slog.LevelWarn
			if err.Error() == told { // it is no news
				level = slog.LevelDebug
			}
			told = err.Error()
			n.Log.Log(ctx, level, "the node token could not be renewed", "node", n.NodeID(), "file", n.TokenFile, "retry_in", pause.String(), "error", err)
		}
		if rest(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, renewMax)
	}
}

// replaceToken stores the successor of a token.
func (n *renewal) replaceToken(ctx context.Context, token string) error {
	if err := owns(n.TokenFile); err != nil {
		return err
	}
	next, err := n.renew(ctx, token)
	if err != nil {
		return err
	}
	if due, err := renewAt(next); err != nil || due.Sub(n.now()) <= 0 {
		return errors.Join(errors.New("the control plane's token ends at once"), err)
	}
	return replace(n.TokenFile, []byte(next))
}

// owns says why a token's file is not the agent's to replace: links and files of
// others are written by whoever provides them.
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

// tokenLife is when a token was issued and ends, in seconds of Unix time.
type tokenLife struct {
	Issued  float64 `json:"iat"`
	Expires float64 `json:"exp"`
}

// lifeOf reads a token. It is not checked: the control plane does that.
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
