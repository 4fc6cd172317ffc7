package tokencache

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/filter/redisconn"
)

// said is an error that a server sends as its answer.
type said string

func (s said) Error() string { return string(s) }

// RedisError implements [redis.Error].
func (said) RedisError() {}

// TestVerdict: a server has failed if a read there has failed for a reason other than the
// key.
func TestVerdict(t *testing.T) {
	broken := errors.New("i/o timeout")
	for name, tc := range map[string]struct {
		reads     []error
		err, want error
	}{
		"answered":                        {[]error{nil, nil}, nil, nil},
		"absent":                          {[]error{redis.Nil, nil}, redis.Nil, nil},
		"another type":                    {[]error{said("WRONGTYPE no string"), nil}, said("WRONGTYPE no string"), nil},
		"elsewhere":                       {[]error{said("MOVED 1 a:1"), said("ASK 1 a:1")}, said("MOVED 1 a:1"), nil},
		"elsewhere, said of whose it is":  {[]error{fmt.Errorf("%w: %w", redisconn.ErrNotVouched, said("MOVED 1 a:1"))}, nil, redisconn.ErrNotVouched},
		"broken":                          {[]error{broken, broken}, broken, broken},
		"the second one":                  {[]error{nil, redisconn.ErrNotVouched}, redisconn.ErrNotVouched, redisconn.ErrNotVouched},
		"refused":                         {[]error{said("LOADING later")}, said("LOADING later"), said("LOADING later")},
		"an error that no command has":    {[]error{nil}, broken, broken},
		"an error of one and of the node": {[]error{said("WRONGTYPE no string"), broken}, broken, broken},
	} {
		cmds := []redis.Cmder{redis.NewCmd(t.Context(), "asking")}
		cmds[0].SetErr(broken) // this command is not a read, so its error does not count
		for _, err := range tc.reads {
			cmd := redis.NewStringCmd(t.Context(), "getrange", "k", 0, 1)
			cmd.SetErr(err)
			cmds = append(cmds, cmd)
		}
		if got := verdict(cmds, tc.err); !errors.Is(got, tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestNodesAreAskedForSlots: a server that does not answer the question for slots is left
// alone like one that cannot be read. One that answers may still not be readable, and one
// that refuses may be. Only questions of look-ups count.
func TestNodesAreAskedForSlots(t *testing.T) {
	n, asked := newNodes(&fakeClock{}, 0), 0
	slots := func(err error) error {
		v := n.visit()
		defer v.end(false, func(nodeChange, *met) {})
		hook := nodeHook{"a"}.ProcessHook(func(ctx context.Context, _ redis.Cmder) error {
			asked++
			if visitOf(ctx) != nil {
				t.Error("what a connection begins with counts, too")
			}
			return err
		})
		return hook(context.WithValue(t.Context(), visitKey{}, v), redis.NewClusterSlotsCmd(t.Context(), "cluster", "slots"))
	}
	for range breakerFailures - 1 {
		_ = slots(errUnreachable)
	}
	_, _ = slots(nil), slots(said("NOPERM no"))
	if n.isOpen() {
		t.Error("left alone for a refusal")
	}
	_ = slots(errUnreachable)
	before := asked
	var alone *leftAlone
	if err := slots(nil); !n.isOpen() || !errors.As(err, &alone) || asked != before {
		t.Errorf("asked although it does not answer: %v", err)
	}
}

// TestErrorsOfAnotherServer: the error of the first server says nothing about the second one
// that a command is sent to. If the second one is left alone, the command fails with that
// error.
func TestErrorsOfAnotherServer(t *testing.T) {
	n := newNodes(&fakeClock{}, 0)
	read := func(next error) error {
		v := n.visit()
		defer v.end(false, func(nodeChange, *met) {})
		cmd := redis.NewStringCmd(t.Context(), "getrange", "k", 0, 1)
		cmd.SetErr(said("MOVED 1 a:1"))
		hook := nodeHook{"a"}.ProcessPipelineHook(func(_ context.Context, cmds []redis.Cmder) error {
			if cmds[0].Err() == nil { // as the library does it
				cmds[0].SetErr(next)
			}
			return next
		})
		_ = hook(context.WithValue(t.Context(), visitKey{}, v), []redis.Cmder{cmd})
		return cmd.Err()
	}
	for range breakerFailures {
		if err := read(redisconn.ErrNotVouched); !errors.Is(err, redisconn.ErrNotVouched) {
			t.Error(err)
		}
	}
	var alone *leftAlone
	if err := read(nil); !errors.As(err, &alone) || failureOf(err) != l2Untrusted {
		t.Errorf("not left alone: %v", err)
	}
}

// TestTimeThatOthersUsedUp: a server that was asked after the time was over has not failed;
// one that was silent for its share has.
func TestTimeThatOthersUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(&fakeClock{}, time.Second)
		fail := func(silent time.Duration) {
			for range breakerFailures {
				v := n.visit()
				ctx := context.WithValue(t.Context(), visitKey{}, v)
				_ = nodeHook{"a"}.ProcessPipelineHook(func(context.Context, []redis.Cmder) error {
					<-time.After(silent)
					return fmt.Errorf("read: %w", context.DeadlineExceeded)
				})(ctx, nil)
				v.end(false, func(nodeChange, *met) {})
			}
		}
		if fail(time.Second - 1); n.isOpen() {
			t.Error("a server is left alone that had no time")
		}
		if fail(time.Second); !n.isOpen() {
			t.Error("a server that stands still is asked on")
		}
	})
}
