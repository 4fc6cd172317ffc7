package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/config"
)

// demoTime bounds the story of --once.
const demoTime = 30 * time.Second

func demoCommand() *cobra.Command {
	var once bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run standalone with an upstream and example resources, and say what to try",
		Long: `Run meshgate standalone with an upstream, example resources and two services of a mesh,
and say what to try. Each start makes the same resources anew.` + settingsHelp,
		Example: `  meshgate demo --once --state-dir .state`,
		Args:    cobra.NoArgs,
		RunE: withState(func(ctx context.Context, l *config.Loaded, out io.Writer) error {
			if l.Origin["log.level"] == "default" {
				l.Config.Log.Level = "warn" // leave the terminal to the demo
			}
			if l.Origin["drain.delay"] == "default" {
				l.Config.Drain.Delay = 0 // no load balancer is there
			}
			if l.Origin["accessLog.path"] == "default" {
				l.Config.AccessLog.Path = filepath.Join(l.Config.StateDir, "access.log") // here, too
			}
			return demo(ctx, &l.Config, once, out)
		}),
	}
	addFlags(c, everything)
	c.Flags().BoolVar(&once, "once", false, "perform the story, narrate each step, and exit with 0 or 1")
	return c
}

func demo(ctx context.Context, c *config.Config, once bool, out io.Writer) error {
	s, err := openStandalone(ctx, c)
	if err != nil {
		return err
	}
	e, err := startEcho(s.cp.log)
	if err != nil {
		s.cp.close(ctx)
		return err
	}
	defer e.stop(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	story := make(chan error, 1)
	go func() { story <- perform(ctx, c, s, e.port, once, out) }()
	select {
	case err = <-ended: // the system ended first: by a signal, or it failed
		cancel()
		<-story //nolint:errcheck // it failed because the system ended
		return err
	case err = <-story:
	}
	if once || err != nil {
		cancel()
		return errors.Join(err, <-ended)
	}
	return <-ended
}

// perform seeds the demo, starts its sidecars, and then tells the story or says
// what to try. Sidecars run until ctx ends.
func perform(ctx context.Context, c *config.Config, s *standalone, echoPort int, once bool, out io.Writer) error {
	bounded, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	if err := s.cp.waitReady(bounded); err != nil {
		return fmt.Errorf("the demo did not start: %w", err)
	}
	api, err := newVisitor(s.cp.caFile, port(s.cp.ports.admin), port(s.cp.ports.mesh), c.Gateway.HTTPPort, c.Gateway.HTTPSPort)
	if err != nil {
		return err
	}
	api.adminToken = s.cp.adminToken
	if err := api.seed(bounded, echoPort); err != nil {
		return fmt.Errorf("the demo's resources: %w", err)
	}
	m, err := openDemoMesh(bounded, c, s, api)
	if m != nil {
		defer m.stop(context.WithoutCancel(ctx))
	}
	if err != nil {
		return fmt.Errorf("the demo's mesh: %w", err)
	}
	meshCtx, stopMesh := context.WithCancel(ctx)
	sidecars := make(chan error, 1)
	go func() { sidecars <- m.run(meshCtx) }()
	err = tell(bounded, c, s, api, m, once, out)
	if once || err != nil {
		stopMesh()
		return errors.Join(err, <-sidecars)
	}
	defer stopMesh()
	return <-sidecars
}

// tell performs the story, or says what to try.
func tell(ctx context.Context, c *config.Config, s *standalone, api *visitor, m *demoMesh, once bool, out io.Writer) error {
	if err := errors.Join(m.ready(ctx), api.converged(ctx)); err != nil {
		return fmt.Errorf("the demo's mesh: %w", err)
	}
	if once {
		n := &narrator{out: out, c: api}
		if err := n.tell(ctx, s.envoy); err != nil {
			return err
		}
		return n.tellMesh(ctx, m)
	}
	protect, err := api.tokenAuth(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, invitation, api.plain, demoPath, api.admin, c.StateDir, demoClient, demoSecret, api.tls, m.call, api.mesh+demoPermission, api.mesh+demoTokenAuth, protect)
	return err
}

const invitation = `
Meshgate is up. A route that wants a token: %[1]s%[2]s
Administration: %[3]s
Who asked for what, and why somebody was refused: %[4]s/access.log

Try, in another terminal:

  curl -s %[1]s%[2]s/hello
  curl -s --cacert %[4]s/ca.pem %[7]s%[2]s/oauth2/token -d grant_type=client_credentials -d client_id=%[5]s -d client_secret=%[6]s -d scope=read
  curl -s %[1]s%[2]s/hello -H 'Authorization: Bearer <access_token>'
  curl -s -X DELETE %[3]s/oauth2_tokens/<access_token>

Two services of a mesh, web and backend, each behind a sidecar with mutual TLS.
web calls backend here; then backend demands tokens of the gateway, too; then web
may not call it any more:

  curl -s http://127.0.0.1:%[8]d/orders
  curl -s -X PUT %[10]s -H 'Content-Type: application/json' -d '%[11]s'
  curl -s http://127.0.0.1:%[8]d/orders
  curl -s http://127.0.0.1:%[8]d/orders -H 'Authorization: Bearer <access_token>'
  curl -s -X DELETE %[9]s
  curl -s http://127.0.0.1:%[8]d/orders

The README has the whole transcript. Ctrl-C ends everything.
`
