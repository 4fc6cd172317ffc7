package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// Bounds of what a control plane is asked for, and of its answers.
const (
	nodesPage     = 1000
	maxNodesPage  = 64 << 20
	answerTimeout = 15 * time.Second
)

// nodesClient reads the list of nodes from either API.
type nodesClient struct {
	http  *http.Client
	base  *url.URL
	token string
}

func newNodesClient(c *config.Config, address, caFile string) (*nodesClient, error) {
	token, err := c.Admin.Secret()
	if err != nil {
		return nil, err
	}
	if address == "" {
		address = "http://" + net.JoinHostPort(loopback(c.Admin.Listen), strconv.Itoa(c.Admin.Port))
	}
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("--address %q is no http:// or https:// URL", address)
	}
	if ip := net.ParseIP(base.Hostname()); token != "" && base.Scheme == "http" && base.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("the administration token could be overheard on the way to %s: use https:// (admin.tlsPort)", address)
	}
	transport := &http.Transport{}
	if caFile != "" {
		pem, err := os.ReadFile(caFile) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, fmt.Errorf("--ca-cert-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-cert-file: %s holds no certificate", caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &nodesClient{http: client, base: base, token: token}, nil
}

// nodesAnswer is a page of either API.
type nodesAnswer struct {
	Data  []nodes.Document `json:"data"`
	Items []nodes.Document `json:"items"`
	Next  *string          `json:"next"`
	Mark  string           `json:"mark"`
	// Of errors.
	Message string `json:"message"`
	Detail  string `json:"detail"`
}

// list reads all pages. With a mark, the first waits until that is not the present one
// any more, or for so long.
func (c *nodesClient) list(ctx context.Context, mark string, wait time.Duration) (all fleetStatus, err error) {
	query := url.Values{"size": {strconv.Itoa(nodesPage)}}
	if mark != "" {
		query.Set("since", mark)
		query.Set("wait", wait.String())
	}
	target := c.base.JoinPath("nodes")
	target.RawQuery = query.Encode()
	for {
		page, err := c.get(ctx, target, wait)
		if err != nil {
			return all, fmt.Errorf("GET %s: %w", target.Redacted(), err)
		}
		all.nodes = append(append(all.nodes, page.Data...), page.Items...)
		all.mark, wait = cmp.Or(all.mark, page.Mark), 0
		if page.Next == nil {
			return all, nil
		}
		// The host stays: the token is for it alone.
		next, err := url.Parse(*page.Next)
		if err != nil || next.RawQuery == target.RawQuery {
			return all, fmt.Errorf("the next page of %s is not understood", target.Redacted())
		}
		target.RawQuery = next.RawQuery
	}
}

func (c *nodesClient) get(ctx context.Context, target *url.URL, wait time.Duration) (*nodesAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, wait+answerTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err // it says again what was asked
		}
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxNodesPage))
	if err != nil {
		return nil, err
	}
	page := new(nodesAnswer)
	err = json.Unmarshal(text, page)
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answered %d: %s", resp.StatusCode, plain(cmp.Or(page.Message, page.Detail, "no reason")))
	}
	if err != nil {
		return nil, fmt.Errorf("the answer cannot be read: %w", err)
	}
	return page, nil
}
