package meshapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// directoryPatience is how long a list waits for the directory to know what was written last. Then
// everything is read instead.
const directoryPatience = time.Second

// patience is how long a list waits for the directory. One that is filtered by nothing but names does not:
// the store reads no more rows than those of its page either.
func patience(wanted func(facts) bool, known bool) time.Duration {
	if wanted == nil && !known {
		return 0
	}
	return directoryPatience
}

// findListed does what find does, for kinds of which there is a directory: that says which ones match and
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
	search := census.Search{Kind: c.kind, Meshes: scopes, Part: win.part, Known: known, Skip: win.offset, Limit: win.size}
	if wanted != nil {
		// Nobody waits for the list any more if the request is over.
		search.Accepts = func(t *census.Traits) bool {
			return r.Context().Err() == nil && wanted(facts{t.Tags, t.Gateway, t.Labels})
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience(wanted, known))
	defer cancel()
	listed, err := c.api.Directory.Find(ctx, search)
	if err == nil {
		err = r.Context().Err()
	}
	if err != nil {
		return found, win, err
	}
	found.total, found.unreadable = listed.Total, append(found.unreadable, listed.Unread...)
	err = c.api.Store.View(r.Context(), func(reader store.Reader) error { return c.readPage(reader, listed.Page, &found) })
	found.keep(wanted)
	return found, win, err
}

// keep leaves out what was changed since it was looked up and is not wanted any more, like what is gone.
func (found *result) keep(wanted func(facts) bool) {
	for i, res := range found.page {
		if wanted != nil && res != nil && !wanted(factsOf(res)) {
			found.page[i] = nil
		}
	}
}

// readPage reads a page, in which all of a scope follow each other. What is gone since it was looked
// up is left out.
func (c collection) readPage(reader store.Reader, page []model.Key, found *result) error {
	found.page = make([]*model.Resource, 0, len(page))
	for len(page) > 0 {
		end := slices.IndexFunc(page, func(k model.Key) bool { return k.Scope != page[0].Scope })
		if end < 0 {
			end = len(page)
		}
		if err := c.readNamed(reader, page[:end], found); err != nil {
			return err
		}
		page = page[end:]
	}
	return nil
}

// readNamed reads some resources of one scope at once, or, if one of them cannot be read, each alone.
func (c collection) readNamed(reader store.Reader, keys []model.Key, found *result) error {
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i] = key.Name
	}
	list, err := reader.Named(c.kind, keys[0].Scope, names)
	if store.UnreadIn(err) != nil {
		return c.readEach(reader, keys, found)
	}
	for _, name := range names {
		if len(list) > 0 && list[0].Name == name {
			found.page, list = append(found.page, list[0]), list[1:]
		} else {
			found.page = append(found.page, nil)
		}
	}
	return err
}

func (c collection) readEach(reader store.Reader, keys []model.Key, found *result) error {
	for _, key := range keys {
		res, err := reader.Get(c.kind, key.Scope, key.Name)
		switch {
		case store.UnreadIn(err) != nil:
			found.unreadable = append(found.unreadable, err)
		case err != nil && !fault.Is(err, fault.NotFound):
			return err
		}
		if err != nil {
			res = nil
		}
		found.page = append(found.page, res)
	}
	return nil
}
