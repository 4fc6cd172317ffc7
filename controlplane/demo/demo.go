package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/meshgate/meshgate/controlplane/assembly"
	"github.com/meshgate/meshgate/controlplane/config"
)

// demoTime bounds the story of --once.
const demoTime = 30 * time.Second

// Run runs everything until ctx ends or, with once, until the story has been told.
func Run(ctx context.Context, c *config.Config, abort <-chan struct{}, once bool, out io.Writer) error {
	s, err := assembly.OpenStandalone(ctx, c, abort)
	if err != nil {
		return err
	}
	e, err := startEcho(s.ControlPlane.Log)
	if err != nil {
		s.Close(ctx)
		return err
	}
	defer e.stop(context.WithoutCancel(ctx))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	story := make(chan error, 1)
	go func() { story <- perform(ctx, c, s, e.port, once, out) }()
	select {
	case err = <-ended: // the system ended first, by a signal or because it failed
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

// perform creates the demo's resources, starts its sidecars, and then tells the story or says
// what to try. Sidecars run until ctx ends.
func perform(ctx context.Context, c *config.Config, s *assembly.Standalone, echoPort int, once bool, out io.Writer) error {
	bounded, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	if err := s.ControlPlane.WaitReady(bounded); err != nil {
		return fmt.Errorf("the demo did not start: %w", err)
	}
	api, err := newVisitor(s.ControlPlane.CAFile, s.ControlPlane.AdminPort(), s.ControlPlane.MeshPort(), c.Gateway.HTTPPort, c.Gateway.HTTPSPort)
	if err != nil {
		return err
	}
	api.adminToken = s.ControlPlane.AdminToken
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
func tell(ctx context.Context, c *config.Config, s *assembly.Standalone, api *visitor, m *demoMesh, once bool, out io.Writer) error {
	if err := errors.Join(m.ready(ctx), api.converged(ctx)); err != nil {
		return fmt.Errorf("the demo's mesh: %w", err)
	}
	if once {
		n := &narrator{out: out, c: api}
		if err := n.tell(ctx, s.EnvoyVersion); err != nil {
			return err
		}
		return n.tellMesh(ctx, m)
	}
	protect, err := api.tokenAuth(ctx)
	if err != nil {
		return err
	}
	token, err := s.ControlPlane.NewAccessToken(ctx, "demo")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, invitation, api.plain, demoPath, api.admin, c.StateDir, demoClient, demoSecret, api.tls, m.call, api.mesh+demoPermission, api.mesh+demoTokenAuth, protect, s.ControlPlane.CloudPort(), token)
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

The cloud API, where audit logs are configured, and a token of an administrator for it:

  curl -s http://127.0.0.1:%[12]d/v2/audit-log-destinations -H 'Authorization: Bearer %[13]s'

The README has the whole transcript. Ctrl-C ends everything.
`
