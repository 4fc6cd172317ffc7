package client

import (
	"cmp"
	"context"
	"net/url"
)

// List is a list of one of the APIs.
type List[T any] struct {
	Items []T
	// Mark is what since of the list of nodes takes, Oldest of which revision on all
	// changes are known; see the lists.
	Mark   string
	Oldest uint64
}

// page is a page of either API. Which of Data and Items there is says which one it is.
type page[T any] struct {
	Data   []T     `json:"data"`
	Items  []T     `json:"items"`
	Next   *string `json:"next"`
	Mark   string  `json:"mark"`
	Oldest uint64  `json:"oldest"`
}

// Read reads the first page of a list, or all of them. Mark is that of the first page,
// Oldest that of the last.
func Read[T any](ctx context.Context, c *Client, path string, query url.Values, all bool) (out List[T], err error) {
	for {
		var p page[T]
		if err := c.Get(ctx, path, query, &p); err != nil {
			return out, err
		}
		// Something else that answers in JSON must not pass for a list without items.
		if p.Data == nil && p.Items == nil {
			return out, c.stranger("its answer is no list")
		}
		out.Items = append(append(out.Items, p.Data...), p.Items...)
		out.Mark, out.Oldest = cmp.Or(out.Mark, p.Mark), p.Oldest
		if p.Next == nil || *p.Next == "" || !all {
			return out, nil
		}
		// Only the query is taken: the token is for this host alone.
		next, err := url.Parse(*p.Next)
		if err != nil || next.Query().Encode() == query.Encode() {
			return out, c.stranger("the next page of its list is not understood")
		}
		query = next.Query()
	}
}
