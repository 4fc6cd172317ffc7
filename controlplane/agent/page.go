package agent

import (
	"context"
	"net/netip"

	"github.com/meshgate/meshgate/controlplane/localsocket"
	"github.com/meshgate/meshgate/controlplane/scrape"
	"github.com/meshgate/meshgate/xds/scraping"
)

// newPage makes the page of metrics. Only sidecars have one: their mesh says who reads it.
func (a *Agent) newPage() {
	if a.Sidecar == nil {
		return
	}
	a.page = scrape.New(scrape.Options{
		Envoy: a.Envoy.Admin.Fetch, Log: a.Log,
		May: func(at netip.AddrPort) error { return a.machine().Asks(at) },
	})
}

// showing tells the page what it consists of.
func (a *Agent) showing(s *scraping.Settings) {
	if a.page != nil {
		a.page.Set(s)
	}
}

// openPage opens the socket of the page, if there is one, so that Envoy finds it. The page lives as
// long as Envoy, which may be scraped while it drains.
func (a *Agent) openPage(ctx context.Context) (serve func(context.Context) error, err error) {
	if a.page == nil {
		return func(context.Context) error { return nil }, nil
	}
	lis, err := localsocket.Listen(ctx, a.dir.metrics)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return a.page.Serve(ctx, lis) }, nil
}
