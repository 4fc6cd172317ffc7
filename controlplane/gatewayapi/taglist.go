package gatewayapi

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// pathTag is the name of a tag in a path.
const pathTag = "tag"

// tagEndpoints returns the endpoints that list tags with their entities.
func (a *API) tagEndpoints() []httpkit.Endpoint {
	every := a.pagesTags(endpoint(http.MethodGet, "/tags", "List tags and what they are on", a.tags))
	one := a.pagesTags(endpoint(http.MethodGet, "/tags/{"+pathTag+"}", "List what a tag is on", a.tags))
	return []httpkit.Endpoint{every, one}
}

func (a *API) pagesTags(e httpkit.Endpoint) httpkit.Endpoint {
	e.Contract.Query = []httpkit.Parameter{
		{Name: "size", Type: "integer", Summary: "How many, 1 to 1000; 100 if not given"},
		{Name: "offset", Type: "string", Summary: "Where to go on: the offset of the page before"},
	}
	return answering(e, schemaTags)
}

// taggedEntity is one tag of one entity.
type taggedEntity struct {
	Tag        string `json:"tag"`
	EntityName string `json:"entity_name"`
	EntityID   string `json:"entity_id"`
}

// tags answers with a page of tags in the order of kinds, ids and tags.
func (a *API) tags(w http.ResponseWriter, r *http.Request) {
	doc, err := a.tagPage(r)
	if err != nil {
		a.fail(w, r, err, call{})
		return
	}
	reply(w, r, http.StatusOK, doc)
}

func (a *API) tagPage(r *http.Request) (map[string]any, error) {
	query, err := httpkit.Query(r)
	if err != nil {
		return nil, err
	}
	if err := knownFilters(r, query, nil); err != nil {
		return nil, err
	}
	size, err := pageSize(query)
	if err != nil {
		return nil, err
	}
	c := tagCollector{tag: r.PathValue(pathTag), limit: size + 1, data: []taggedEntity{}}
	list := "tags\n" + c.tag
	if c.after, err = readTagCursor(list, query.Get("offset")); err != nil {
		return nil, err
	}
	err = a.Store.View(r.Context(), func(reader store.Reader) error {
		for _, k := range a.Collections {
			if err := c.collect(reader, a.scope(r), k.Kind); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	doc := map[string]any{"data": c.data, "next": nil}
	if len(c.lacking) > 0 {
		doc[fieldUnreadable] = a.note(r, c.lacking)
	}
	if len(c.data) > size {
		doc["data"] = c.data[:size]
		offset := tagCursor(list, c.data[size-1])
		next := pathOf(r) + "?offset=" + url.QueryEscape(offset)
		if text := query.Get("size"); text != "" {
			next += "&size=" + url.QueryEscape(text)
		}
		doc["offset"], doc["next"] = offset, next
	}
	return doc, nil
}

// tagCollector fills a page of tags.
type tagCollector struct {
	// tag, if set, is the only tag that is listed.
	tag string
	// after is the last tag of the previous page. Its EntityName is empty on the first page,
	// and after its kind has been passed.
	after taggedEntity
	limit int
	data  []taggedEntity
	// lacking holds rows that could not be decoded, so that their tags, except perhaps one,
	// are unknown.
	lacking unreadable
}

func (c *tagCollector) full() bool { return len(c.data) >= c.limit }

// collect adds the tags of a kind's entities, which are read page by page.
func (c *tagCollector) collect(r store.Reader, scope string, k *model.Kind) error {
	if !tagged(k) || c.full() || c.after.EntityName != "" && c.after.EntityName != k.Plural() {
		return nil
	}
	q := store.Query{Scope: scope, Limit: c.limit}
	if c.tag != "" {
		q.Index, q.Value = gateway.IndexTags, c.tag
	}
	if c.after.EntityName != "" {
		// The entity may have more tags than the previous page held.
		res, err := r.Get(k, scope, c.after.EntityID)
		switch {
		case err == nil:
			c.add(k, res, c.after.Tag)
		case store.UnreadIn(err) != nil: // it became unreadable after the previous page
			c.lacking = append(c.lacking, store.UnreadIn(err))
		case !fault.Is(err, fault.NotFound):
			return err
		}
		q.After, c.after = c.after.EntityID, taggedEntity{}
	}
	for !c.full() {
		found, err := store.ListAll(r, k, q)
		if err != nil {
			return err
		}
		for _, res := range found {
			if q.After = res.Name; store.IsUnread(res) {
				c.lacking = append(c.lacking, res)
				continue
			}
			c.add(k, res, "")
		}
		if len(found) < q.Limit {
			return nil
		}
	}
	return nil
}

// add adds the tags of an entity that follow a tag, in order.
func (c *tagCollector) add(k *model.Kind, res *model.Resource, after string) {
	for _, name := range slices.Sorted(slices.Values(tagsOf(k).Values(res.Spec))) {
		if name > after && !c.full() && (c.tag == "" || name == c.tag) {
			c.data = append(c.data, taggedEntity{Tag: name, EntityName: k.Plural(), EntityID: res.Name})
		}
	}
}

// tagCursor returns the offset after an item. Like other offsets, it is bound to its list.
func tagCursor(list string, after taggedEntity) string {
	text := after.EntityName + "\n" + after.EntityID + "\n" + after.Tag
	sum := sha256.Sum256([]byte(list + "\n" + text))
	return base64.RawURLEncoding.EncodeToString(append(sum[:cursorSum], text...))
}

// readTagCursor returns the item after which a page starts.
func readTagCursor(list, offset string) (after taggedEntity, err error) {
	if offset == "" {
		return after, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(offset, "="))
	if err != nil {
		return after, badOffset(offset, "bad base64 encoding")
	}
	text := string(raw[min(len(raw), cursorSum):])
	name, rest, _ := strings.Cut(text, "\n")
	id, tag, _ := strings.Cut(rest, "\n")
	after = taggedEntity{EntityName: name, EntityID: id, Tag: tag}
	if tagCursor(list, after) != strings.TrimRight(offset, "=") {
		return after, badOffset(offset, "it belongs to no page of this list")
	}
	return after, nil
}
