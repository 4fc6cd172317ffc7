// Command fleet measures the control plane under a fleet of proxies. It starts
// meshgate as a process of its own with a store on disk and mutual TLS, creates
// a mesh over the HTTP API, connects N clients with real tokens, each with its
// own TLS connection and delta stream, and changes things.
//
// The clients subscribe as an Envoy does, with two differences: a response is
// acknowledged when it is received rather than when its clusters are warm, and
// configurations are not parsed but for the names they refer to. They share the
// machine with the control plane; what they cost is shown.
//
// Latency counts from before the change is sent to the control plane until a
// client has received the last of what it waits for. Nothing polls. A scenario
// that does not come to its end is reported as failed and the others go on; the
// program then exits with 1.
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
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := program(ctx, os.Args, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		stop()
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	bench
	binary, file, dir, only string
	kinds                   string
	args                    []string
}

func parse(args []string, out io.Writer) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("fleet", flag.ContinueOnError)
	f.SetOutput(out)
	f.IntVar(&o.work.N, "n", 1000, "number of proxies")
	f.IntVar(&o.work.Services, "services", 50, "number of services; with -tproxy as many as proxies unless given")
	f.IntVar(&o.work.Outbounds, "outbounds", 10, "services that each proxy consumes")
	f.BoolVar(&o.work.Transparent, "tproxy", false, "transparent proxying without explicit outbounds: every proxy reaches every service")
	f.BoolVar(&o.work.Alike, "alike", false, "the instances of a service consume the same services")
	f.IntVar(&o.rounds, "rounds", 8, "how often each scenario runs")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "for one round")
	f.DurationVar(&o.idle, "idle", 10*time.Second, "how long to watch the idle control plane")
	f.StringVar(&o.file, "out", "", "file for the figures as JSON")
	f.StringVar(&o.only, "only", "", "scenarios to run, with commas between; connect always runs")
	f.StringVar(&o.kinds, "policies", "", "kinds of which one is installed for everybody: all, all-but=KIND,..., or KIND,...")
	f.StringVar(&o.binary, "binary", "", "the program to measure (default bin/meshgate of this checkout)")
	f.StringVar(&o.dir, "dir", "", "keep state and log of the control plane in this directory")
	f.StringVar(&o.profile, "profile", "", "directory for CPU profiles of the control plane and of this program during each scenario")
	f.DurationVar(&o.length, "profile-length", 10*time.Second, "how long to profile each scenario")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	o.args = f.Args()
	given := false
	f.Visit(func(x *flag.Flag) { given = given || x.Name == "services" })
	if o.work.Transparent {
		o.work.Outbounds = 0
		if !given {
			o.work.Services = o.work.N
		}
	}
	if o.rounds < 1 {
		return nil, fmt.Errorf("-rounds is %d; it must be at least 1", o.rounds)
	}
	var err error
	if o.policies, err = kindsOf(o.kinds); err != nil {
		return nil, err
	}
	return o, o.work.check()
}

func program(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args[1:], out)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "fleet-"); err != nil {
			return err
		}
		defer os.RemoveAll(dir)
	} else if err = os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if o.profile != "" {
		if err = os.MkdirAll(o.profile, 0o755); err != nil {
			return err
		}
	}
	o.out = out
	rep, err := o.measureAll(ctx, dir)
	rep.Command = append([]string{"go", "run", "./e2e/bench/fleet"}, args[1:]...)
	rep.print(out)
	if o.file != "" {
		b, e := json.MarshalIndent(rep, "", "  ")
		err = errors.Join(err, e, os.WriteFile(o.file, append(b, '\n'), 0o644))
	}
	return err
}

// measureAll runs the scenarios against a control plane of its own. The report
// holds what was measured, also if there is an error.
func (o *options) measureAll(ctx context.Context, dir string) (*report, error) {
	rep := &report{Date: time.Now().UTC(), Machine: thisMachine(), Workload: o.work, Rounds: o.rounds, Quiet: quiet.Seconds()}
	begun := time.Now()
	fmt.Fprintf(o.out, "starting the control plane and writing %d proxies\n", o.work.N)
	err := o.start(ctx, o.binary, dir, o.args)
	if o.plane != nil {
		defer o.plane.stop()
		rep.Plane = o.plane.cmd.Args
	}
	if err != nil {
		if o.plane != nil {
			err = fmt.Errorf("set-up: %w\nend of the control plane's log:\n%s", err, o.plane.tail())
		}
		return rep, err
	}
	defer o.fleet.closeAll()
	rep.SetUp = time.Since(begun).Seconds()
	if rep.SetUpCPU, err = o.plane.cpu(); err != nil {
		return rep, err
	}
	if rep.Written, err = o.plane.memory(); err != nil {
		return rep, err
	}
	var failed []string
	for _, s := range o.scenarios() {
		if o.only != "" && s.name != "connect" && !slices.Contains(strings.Split(o.only, ","), s.name) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return rep, err
		}
		res := o.run(ctx, &s)
		rep.Results = append(rep.Results, res)
		if res.Failed != "" {
			failed = append(failed, s.name)
			fmt.Fprintf(o.out, "%s FAILED: %s\n", s.name, res.Failed)
		} else {
			fmt.Fprintf(o.out, "%s done, %d rounds\n", s.name, len(res.Rounds))
		}
		if m, err := o.plane.memory(); err == nil {
			rep.End = m
			if s.name == "connect" || s.name == "idle" {
				rep.Connected = m
			}
		} else {
			return rep, fmt.Errorf("the control plane has ended during %s: %w\nend of its log:\n%s", s.name, err, o.plane.tail())
		}
	}
	if len(failed) > 0 {
		return rep, fmt.Errorf("failed: %s; end of the control plane's log:\n%s", strings.Join(failed, ", "), o.plane.tail())
	}
	return rep, nil
}
