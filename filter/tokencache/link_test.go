package tokencache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestLinkTroubleIsToldOnce: a control plane that is away causes one line, no matter which
// port an attempt came from. A different trouble causes another line.
func TestLinkTroubleIsToldOnce(t *testing.T) {
	var out bytes.Buffer
	c := &Cache{ctx: t.Context(), log: slog.New(slog.NewTextHandler(&out, nil))}
	cp := &contract.ControlPlaneSettings{Address: "cp:5678"}
	say := func(text string) { c.logLink("control plane cannot be reached", cp, errors.New(text)) }
	for range 100 {
		say("dial: refused")
	}
	say("read tcp 127.0.0.1:40001->127.0.0.1:5678: reset")
	say("read tcp 127.0.0.1:40002->127.0.0.1:5678: reset")
	say("dial: refused")
	c.linkTrouble = "" // it was up
	say("dial: refused")
	if n := strings.Count(out.String(), "level=WARN"); n != 4 || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%d lines:\n%s", n, &out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c.ctx = ctx
	cancel()
	say("the cache closes")
	if strings.Contains(out.String(), "closes") {
		t.Error("the end is no trouble")
	}
}

// TestHangUpIsNoTrouble: an orderly end of a link, as after a rotation of the token, causes
// no warning; a link that is cut does.
func TestHangUpIsNoTrouble(t *testing.T) {
	for err, warned := range map[error]bool{io.EOF: false, fmt.Errorf("read: %w", io.EOF): false, io.ErrUnexpectedEOF: true, errors.New("reset"): true} {
		var out bytes.Buffer
		c := &Cache{ctx: t.Context(), log: slog.New(slog.NewTextHandler(&out, nil))}
		c.logBroke(&contract.ControlPlaneSettings{Address: "cp:5678"}, err)
		if strings.Contains(out.String(), "level=WARN") != warned {
			t.Errorf("%v: %s", err, &out)
		}
	}
}
