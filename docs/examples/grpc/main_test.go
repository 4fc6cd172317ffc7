package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"
)

func TestArguments(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "use -serve or -call"},
		{"-call localhost:1 -ca nowhere.pem", "no such file"},
		{"-call localhost:1 -ca main.go", "holds no certificate"},
		{"-nothing", "flag provided but not defined"},
	} {
		err := run(t.Context(), strings.Fields(c.args), strings.NewReader(""), t.Output())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.args, err)
		}
	}
}

func TestServeEnds(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	if err := serve(t.Context(), ln.Addr().String()); err == nil {
		t.Error("two servers at one address")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := serve(ctx, "127.0.0.1:0"); err != nil {
		t.Error(err)
	}
}
