// Command gateway measures what tokens cost: how many a second of CPU issues by
// each grant, how many protected requests it serves with few and many tokens
// and routes, and what a token occupies in each place that keeps it. It starts
// meshgate standalone with a store on disk, and loads it over loopback from this
// process with a fixed number of clients, each of which waits for its answer.
//
// CPU is that of the two processes that a user pays for, the control plane and
// Envoy, read from /proc around each slice of time; what the load costs is not
// in it. After a warm-up, every slice is one sample; the interval is the middle
// 95 % of a bootstrap over the slices. The store is filled through the
// administration API.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := program(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		stop()
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	load
	binary, dir, file string
	redis             bool
	grants            []string
	tokens, routes    []int
}

func parse(args []string, out io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("gateway", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&o.clients, "clients", 16, "clients at a time")
	f.DurationVar(&o.warm, "warm", 3*time.Second, "time before the first slice")
	f.IntVar(&o.slices, "slices", 10, "slices of each scenario")
	f.DurationVar(&o.slice, "slice", 2*time.Second, "length of a slice")
	f.BoolVar(&o.redis, "redis", false, "with a real redis-server instead of the embedded cache")
	f.StringVar(&o.file, "out", "", "file for the figures as JSON")
	f.StringVar(&o.binary, "binary", "", "the program to measure (default bin/meshgate of this checkout)")
	f.StringVar(&o.dir, "dir", "", "keep state and log in this directory")
	grants := f.String("grants", "client_credentials,authorization_code,password,refresh_token", "grants to measure; none if empty")
	tokens := f.String("tokens", "1000,1000000", "numbers of live tokens, ascending; none if empty")
	routes := f.String("routes", "1,10000", "numbers of protected routes, ascending")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if o.clients < 1 || o.slices < 2 {
		return nil, errors.New("-clients must be at least 1 and -slices at least 2")
	}
	o.grants = strings.FieldsFunc(*grants, func(r rune) bool { return r == ',' })
	for _, g := range o.grants {
		if _, known := grantsByName[g]; !known {
			return nil, fmt.Errorf("-grants: %q is none that can be measured", g)
		}
	}
	var err, err2 error
	o.tokens, err = numbers("tokens", *tokens)
	o.routes, err2 = numbers("routes", *routes)
	return o, errors.Join(err, err2)
}

// numbers reads ascending numbers with commas between.
func numbers(name, text string) (out []int, err error) {
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-%s: %q is no number of %s", name, part, name)
		}
		out = append(out, n)
	}
	if !slices.IsSorted(out) {
		return nil, fmt.Errorf("-%s must be ascending", name)
	}
	return out, nil
}

// program measures everything and prints it. A scenario that fails is named,
// the others go on.
func program(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	if o.dir == "" {
		if o.dir, err = os.MkdirTemp("", "gateway-bench"); err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(o.dir) }()
	}
	p, err := startPlane(ctx, o)
	if err != nil {
		return err
	}
	defer p.stop()
	if err := p.seed(ctx); err != nil {
		return fmt.Errorf("what the bench needs cannot be made: %w", err)
	}
	rep := &report{}
	var failed []error
	for _, g := range o.grants {
		if err := rep.issue(ctx, p, &o.load, g); err != nil {
			failed = append(failed, fmt.Errorf("issuing by %s: %w", g, err))
		}
	}
	if err := rep.protected(ctx, p, o); err != nil {
		failed = append(failed, err)
	}
	rep.print(out)
	if o.file != "" {
		data, err := json.MarshalIndent(rep, "", " ")
		if err == nil {
			err = os.WriteFile(o.file, data, 0o600)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}
