// Command login is the web application that an operator runs beside the gateway:
// it knows the users, asks them for their consent, and hands their decision to
// the gateway, which issues codes and tokens. It shows the smallest form of that
// which is safe to copy.
//
// Source: requirement "Authorization Code flow (rules)" and "Resource Owner
// Password Credentials flow (legacy)"; RFC 9700 sections 2.6, 4.12 and 4.16.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "login:", err)
		stop()
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("login", flag.ContinueOnError)
	file := flags.String("config", "login.json", "file with the configuration")
	if err := flags.Parse(args); err != nil {
		return err
	}
	c, err := readConfig(*file)
	if err != nil {
		return err
	}
	d, err := newDirectory(c.Users, hashRounds, time.Now)
	if err != nil {
		return err
	}
	a, err := newApp(c, d, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: a.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second}
	ended := make(chan error, 1)
	go func() {
		if c.secure() {
			ended <- server.ServeTLS(ln, c.CertFile, c.KeyFile)
		} else {
			ended <- server.Serve(ln)
		}
	}()
	a.log.Info("login serves", "address", ln.Addr().String(), "tls", c.secure())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(bounded); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
