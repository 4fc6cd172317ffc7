package redisconn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// TestPipelineWithoutConnection: a command that was never sent has no answer. It must not
// look like a read of an absent value, because an absent floor revokes nothing.
func TestPipelineWithoutConnection(t *testing.T) {
	t.Parallel()
	server, other := redistest.Start(t, "--requirepass", "right").Address(), redistest.Start(t).Address()
	closed := respond(t, func(string) string { return "-NOAUTH Authentication required.\r\n" })
	hook := errors.New("not this one")
	for name, o := range map[string]Options{
		"a wrong password":                             {Settings: settings("redis://:wrong@" + server)},
		"no password":                                  {Settings: settings("redis://" + server + "/1")},
		"a database that is none":                      {Settings: settings("redis://" + other + "/4711")},
		"a sentinel that wants another":                {Settings: settings("redis+sentinel://" + closed + "/m")},
		"a cluster that wants another":                 {Settings: settings("redis+cluster://:wrong@" + server)},
		"a server that is not wanted":                  {Settings: settings(other), OnConnect: onConnect(hook)},
		"a server that is not wanted, by its own word": {Settings: settings(other), OnConnect: onConnect(fmt.Errorf("asked: %w", redis.Nil))},
	} {
		t.Run(name, func(t *testing.T) {
			c := opened(t, o)
			pipe := c.Pipeline()
			one, two := pipe.GetRange(t.Context(), "{x}a", 0, 9), pipe.GetRange(t.Context(), "{x}b", 0, 9)
			if _, err := pipe.Exec(t.Context()); err == nil || one.Err() == nil || two.Err() == nil {
				t.Errorf("the pipeline says %v, its commands %v and %v", err, one.Err(), two.Err())
			}
			if all, err := Identify(t.Context(), c); err == nil {
				t.Errorf("identified as %+v", all)
			}
			if all, err := Pin(t.Context(), c); err == nil {
				t.Errorf("pinned to %+v", all)
			}
		})
	}
}

// TestPipelineKeepsItsAnswers: a command that was answered keeps its answer, no matter what
// the others got.
func TestPipelineKeepsItsAnswers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.CLI(t, "SET", "a", "1")
	server.CLI(t, "LPUSH", "b", "1")
	pipe := opened(t, Options{Settings: settings(server.Address())}).Pipeline()
	one, two := pipe.GetRange(t.Context(), "a", 0, 9), pipe.GetRange(t.Context(), "b", 0, 9)
	_, err := pipe.Exec(t.Context())
	if one.Err() != nil || one.Val() != "1" || two.Err() == nil || !strings.HasPrefix(two.Err().Error(), "WRONGTYPE") || err == nil {
		t.Errorf("%v, %v, %v", one, two, err)
	}
}

func onConnect(err error) func(context.Context, func() (Server, error)) error {
	return func(context.Context, func() (Server, error)) error { return err }
}
