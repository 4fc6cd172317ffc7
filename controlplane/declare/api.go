package declare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Limits of calls.
const (
	// pageSize is how many entities are read at once.
	pageSize = "1000"
	// tries is how often a call is made that is answered with 429, and leastWait and mostWait
	// how long it is waited between two of them unless the answer says so.
	tries     = 10
	leastWait = time.Second
	mostWait  = time.Minute
	// quietWait is how long it is waited without a word, longestWait how long for one call
	// altogether.
	quietWait   = 3 * time.Second
	longestWait = 10 * time.Minute
	// longestBusy is how long answers may take altogether for a call to be repeated that is answered with 503: an
	// API that thinks for long before it says so, as one does that has no time for a dry run, would be kept busy by
	// every further try.
	longestBusy = 20 * time.Second
	// mostEmpty and mostPages bound what an API may make of one collection.
	mostEmpty = 100
	mostPages = 100_000
)

// API is the administration API of one control plane.
type API struct {
	// Client reaches the host, Base is the path of the API there. It is all that distinguishes
	// a gateway of one's own from a control plane in the cloud.
	Client *client.Client
	Base   string
	// Parallel is how many calls are made at the same time.
	Parallel int
	// Waiting, if set, is called with a text before a long wait.
	Waiting func(text string)
	// Progress, if set, is called with how much more was read of a list.
	Progress func(more int)
	// Sleep waits between two tries, and Now says how long answers take; nil is the clock.
	Sleep func(ctx context.Context, d time.Duration) error
	Now   func() time.Time
}

// call makes a call, again if the API wants to be asked later.
func (a *API) call(ctx context.Context, method, path string, query url.Values, body, answer any) error {
	wait, all, took := leastWait, time.Duration(0), time.Duration(0)
	for try := 1; ; try++ {
		began := a.now()
		err := a.Client.Call(ctx, method, a.Base+path, query, body, answer)
		took += a.now().Sub(began)
		refusal, ok := errors.AsType[*client.Refusal](err)
		if !ok || try == tries || !again(refusal, took) {
			return err
		}
		d := wait
		if refusal.After > 0 {
			d = refusal.After
		}
		if all += d; all > longestWait {
			return fmt.Errorf("%w; it wants to be asked again after %s, which is not waited for", err, d)
		}
		if d > quietWait && a.Waiting != nil {
			a.Waiting(fmt.Sprintf("the API wants to be asked again after %s; it is waited for (Ctrl-C ends that)", d))
		}
		if err := a.sleep(ctx, d); err != nil {
			return err
		}
		wait = min(2*wait, mostWait)
	}
}

// again reports whether a call is to be made again, whose answers took so long altogether.
func again(r *client.Refusal, took time.Duration) bool {
	return r.Status == http.StatusTooManyRequests || r.Status == http.StatusServiceUnavailable && r.After > 0 && took <= longestBusy
}

func (a *API) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

func (a *API) sleep(ctx context.Context, d time.Duration) error {
	if a.Sleep != nil {
		return a.Sleep(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// status returns the status of a refusal, or 0.
func status(err error) int {
	if refusal, ok := errors.AsType[*client.Refusal](err); ok {
		return refusal.Status
	}
	return 0
}

// advance tells that more of a list was read.
func (a *API) advance(more int) {
	if a.Progress != nil {
		a.Progress(more)
	}
}

// list reads a whole collection.
func (a *API) list(ctx context.Context, collection string, tags []string) (all []map[string]any, err error) {
	query := url.Values{"size": {pageSize}}
	if len(tags) > 0 {
		query.Set("tags", strings.Join(tags, ","))
	}
	var bounds pages
	for {
		var page struct {
			Data []map[string]any `json:"data"`
			Next *string          `json:"next"`
		}
		if err := a.call(ctx, http.MethodGet, "/"+collection, query, nil, &page); err != nil {
			return nil, err
		}
		if page.Data == nil {
			return nil, errors.New("the answer to GET /" + collection + " is no list")
		}
		all = append(all, page.Data...)
		a.advance(len(page.Data))
		if page.Next == nil || *page.Next == "" {
			return all, nil
		}
		next, err := url.Parse(*page.Next)
		if err != nil || next.Query().Get("offset") == "" || next.Query().Get("offset") == query.Get("offset") {
			return nil, errors.New("the next page of /" + collection + " is not understood")
		}
		if err := bounds.add(collection, len(page.Data)); err != nil {
			return nil, err
		}
		query.Set("offset", next.Query().Get("offset"))
	}
}

// pages counts those of a collection.
type pages struct{ all, empty int }

// add refuses a collection without an end.
func (p *pages) add(collection string, items int) error {
	p.all++
	if p.empty++; items > 0 {
		p.empty = 0
	}
	if p.empty > mostEmpty || p.all > mostPages {
		return fmt.Errorf("the list of /%s never ends: %d pages were read, the last %d without anything", collection, p.all, p.empty)
	}
	return nil
}

// Read reads what the gateway holds of some kinds. Without consumers, what belongs to one is
// left out.
func (a *API) Read(ctx context.Context, kinds []*model.Kind, tags []string, skipConsumers bool) (*State, error) {
	lists := make([][]map[string]any, len(kinds))
	err := parallel(ctx, a.Parallel, len(kinds), func(ctx context.Context, i int) (err error) {
		tags := tags
		if kinds[i].Schema.Field("tags") == nil {
			tags = nil
		}
		lists[i], err = a.list(ctx, kinds[i].Path, tags)
		return err
	})
	if err != nil {
		return nil, err
	}
	s := newState()
	for i, k := range kinds {
		for _, shown := range lists[i] {
			e, err := entityOf(k, shown)
			if err != nil {
				return nil, err
			}
			if skipConsumers && refID(e.Values, gateway.RefConsumer) != "" {
				continue
			}
			if k == gateway.Tokens && len(tags) > 0 && s.get(gateway.Applications.Name, refID(e.Values, gateway.RefCredential)) == nil {
				continue // a token has no tags: it belongs to whoever has the application
			}
			if twin := s.add(e); twin != nil && twin.ID != e.ID {
				return nil, fmt.Errorf("the gateway holds %s twice, as %s and %s: nothing can tell them apart; delete or rename one", label(e, s), twin.ID, client.Plain(e.ID))
			}
		}
	}
	s.sort(kinds)
	return s, nil
}

// lookup returns an entity by its id or key, or nil.
func (a *API) lookup(ctx context.Context, k *model.Kind, key string) (*Entity, error) {
	var shown map[string]any
	err := a.call(ctx, http.MethodGet, "/"+k.Path+"/"+url.PathEscape(key), nil, nil, &shown)
	if status(err) == http.StatusNotFound {
		return nil, nil //nolint:nilnil // nil is nothing
	}
	if err != nil {
		return nil, err
	}
	return entityOf(k, shown)
}

// entityOf reads an entity of an answer. Without an id of its own it could be mistaken for a
// whole collection.
func entityOf(k *model.Kind, shown map[string]any) (*Entity, error) {
	id := text(shown, model.FieldID)
	if !model.IsUUID(id) {
		return nil, fmt.Errorf("an answer about /%s is not understood: it holds something without an id", k.Path)
	}
	return &Entity{Kind: k, ID: id, Values: plain(k, shown), stated: true}, nil
}

// parallel calls do for each number below n, at most width at the same time. It begins no
// more after an error, and returns the first one.
func parallel(ctx context.Context, width, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turns := make(chan struct{}, max(1, width))
	var running sync.WaitGroup
	for i := range n {
		select {
		case turns <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			defer func() { <-turns }()
			if err := caught(func() error { return do(ctx, i) }); err != nil {
				cancel(err)
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}
