package meshapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// directoryPatience is how long a list waits for the directory to know what was written last. Then
// everything is read instead.
const directoryPatience = time.Second

// findListed does what find does, for lists of dataplanes: the directory says which ones match and
// how many there are, and only the page is read. known demands that something is known about the
// proxy. The error is Unavailable if the directory does not know.
func (c collection) findListed(r *http.Request, query url.Values, visible func(string) bool, wanted func(facts) bool, known bool, win window) (found result, _ window, err error) {
	var scopes []string
	if err := c.api.Store.View(r.Context(), func(reader store.Reader) (err error) {
		scopes, found.unreadable, err = c.scopes(reader, r.PathValue(pathMesh), visible)
		return err
	}); err != nil {
		return found, win, err
	}
	if win.offset, err = pageOffset(query.Get("offset")); err != nil {
		return found, win, failed(opOffset, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), directoryPatience)
	defer cancel()
	var page []model.Key
	judged := map[*census.Traits]bool{}
	matches := func(t *census.Traits) bool {
		is, done := judged[t]
		if !done {
			is = wanted(facts{t.Tags, t.Gateway})
			judged[t] = is
		}
		return is
	}
	if err := c.api.Directory.Dataplanes(ctx, scopes, func(mesh string, l *census.Listed) {
		switch {
		case r.Context().Err() != nil: // nobody waits for the list any more
		case !strings.Contains(l.Name, win.part):
		case l.Unread != nil && (known || wanted != nil): // what it is cannot be judged; without a filter it has its place
			found.unreadable = append(found.unreadable, l.Unread)
		case known && !l.Known, wanted != nil && !matches(l.Traits):
		default:
			if found.total++; found.total > win.offset && len(page) < win.size {
				page = append(page, model.Key{Scope: mesh, Name: l.Name})
			}
		}
	}); err != nil {
		return found, win, err
	}
	if err := r.Context().Err(); err != nil {
		return found, win, err
	}
	return found, win, c.api.Store.View(r.Context(), func(reader store.Reader) error { return c.readPage(reader, page, &found) })
}

// readPage reads a page. What is gone since it was looked up is left out.
func (c collection) readPage(reader store.Reader, page []model.Key, found *result) error {
	found.page = make([]*model.Resource, len(page))
	for i, key := range page {
		res, err := reader.Get(c.kind, key.Scope, key.Name)
		switch {
		case store.UnreadIn(err) != nil:
			found.unreadable = append(found.unreadable, err)
		case err != nil && !fault.Is(err, fault.NotFound):
			return err
		case err == nil:
			found.page[i] = res
		}
	}
	return nil
}
