package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/meshgate/meshgate/xds/scraping"
)

// Bounds of what applications answer. The budget of all is shared out among those that there are,
// so that none can use up what is another's.
const (
	maxEnvoyBytes       = 32 << 20
	maxApplicationBytes = 8 << 20
	maxAllBytes         = 16 << 20
	maxApplicationLines = 100_000
	maxAllLines         = 200_000
	maxHeaderBytes      = 16 << 10
)

// budget is what one application may answer.
type budget struct{ bytes, lines int }

func budgetOf(applications int) budget {
	n := max(applications, 1)
	return budget{min(maxApplicationBytes, maxAllBytes/n), min(maxApplicationLines, maxAllLines/n)}
}

// accept is the one form that applications are asked for.
const accept = "text/plain;version=0.0.4"

// newClient returns a client for one page. It goes nowhere but where may permits: through no proxy,
// to no place that an answer names, and with no connection that waits for the next page. Without the
// context of the page, attempts to connect would outlive it: http.Transport goes on with them when
// the request has ended.
func newClient(page context.Context, may func(netip.AddrPort) error) *http.Client {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, end := context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(page, end)()
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return nil, err
		}
		if err := may(at); err != nil {
			return nil, err
		}
		return new(net.Dialer).DialContext(ctx, network, at.String())
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dial, DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask returns what an application answers, within a budget and the time of ctx. A part of an answer
// is none.
func ask(ctx context.Context, client *http.Client, a scraping.Application, b budget) ([]byte, error) {
	u, err := url.ParseRequestURI(a.Path)
	if err != nil {
		return nil, errPath // without its query, which may be secret
	}
	u.Scheme, u.Host = "http", a.At.String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "meshgate")
	resp, err := client.Do(req)
	if about, is := errors.AsType[*url.Error](err); is {
		return nil, about.Err // without the query
	} else if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %d", resp.StatusCode)
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return nil, fmt.Errorf("it answered with the encoding %.64q, which nobody has asked for", e)
	}
	if t := resp.Header.Get("Content-Type"); t != "" {
		if is, _, err := mime.ParseMediaType(t); err != nil || is != "text/plain" {
			return nil, fmt.Errorf("it answered with %.64q and not with text/plain", t)
		}
	}
	text, err := readAll(resp.Body, b.bytes)
	if err == nil && bytes.Count(text, []byte{'\n'}) > b.lines {
		err = fmt.Errorf("it answered with more than %d lines", b.lines)
	}
	return text, err
}

var errPath = errors.New("its path is none")

var errTooLarge = errors.New("it answered with more than is read")

func readAll(r io.Reader, limit int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(text) > limit {
		return nil, fmt.Errorf("%w: %d bytes", errTooLarge, limit)
	}
	return text, err
}
