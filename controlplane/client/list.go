package client

import (
	"cmp"
	"context"
	"net/url"
)

// List is a list from one of the APIs.
type List[T any] struct {
	Items []T
	// Mark is a value for the parameter since of the list of nodes. Oldest is the revision
	// since which all changes are known; see the lists.
	Mark   string
	Oldest uint64
}

// page is a page of either API. One has Data, the other Items.
type page[T any] struct {
	Data   []T     `json:"data"`
	Items  []T     `json:"items"`
	Next   *string `json:"next"`
	Mark   string  `json:"mark"`
	Oldest uint64  `json:"oldest"`
}

// Read reads the first page of a list, or all pages. Mark comes from the first page, Oldest
// from the last one.
func Read[T any](ctx context.Context, c *Client, path string, query url.Values, all bool) (out List[T], err error) {
	for {
		var p page[T]
		if err := c.Get(ctx, path, query, &p); err != nil {
			return out, err
		}
		// Another server that answers with JSON must not pass for a list without items.
		if p.Data == nil && p.Items == nil {
			return out, c.stranger("its answer is no list")
		}
		out.Items = append(append(out.Items, p.Data...), p.Items...)
		out.Mark, out.Oldest = cmp.Or(out.Mark, p.Mark), p.Oldest
		if p.Next == nil || *p.Next == "" || !all {
			return out, nil
		}
		// Only the query of the URL is used, because the token is only for this host.
		next, err := url.Parse(*p.Next)
		if err != nil || next.Query().Encode() == query.Encode() {
			return out, c.stranger("the next page of its list is not understood")
		}
		query = next.Query()
	}
}
