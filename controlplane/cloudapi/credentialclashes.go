package cloudapi

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/turns"
)

// maxCompared bounds the credentials that one status of a group compares. A variable for tests.
var maxCompared = 10_000

// comparisons bounds how many are made at once: each reads what it compares.
var comparisons = turns.Sized(1, 64)

// enterComparison waits for a turn. If it returns no error, comparisons.Leave must follow.
func enterComparison(ctx context.Context) error {
	if err := comparisons.Enter(ctx); err != nil {
		return fault.Wrap(fault.Unavailable, err, "others are comparing credentials")
	}
	return nil
}

// compared are the credentials that views do not hold, with that by which two members may not have
// the same: in the group the one that had it first counts. An empty index is the id. Tokens are not
// among them: their values are random, and there are millions.
var compared = []struct {
	kind *model.Kind
	by   []string
}{
	{gateway.Applications, []string{gateway.IndexClientID}},
	{gateway.Keys, []string{"", gateway.IndexKey}},
}

// credentialClashes lists the applications and keys that do not count in a group because another member had
// first what both have, without saying what that is. It is not complete if there are more than it compares, or
// if one cannot be read: that one is not compared.
func credentialClashes(reader store.Reader, src scopes.Source) (list []scopes.Clash, complete bool, err error) {
	type place struct{ index, value string }
	room, complete := maxCompared, true
	for _, c := range compared {
		first := map[place]*model.Resource{}
		for _, scope := range src.Scopes() {
			rows, err := store.ListAll(reader, c.kind, store.Query{Scope: scope, Limit: room + 1})
			if err != nil {
				return nil, false, err
			}
			if len(rows) > room {
				return list, false, nil
			}
			room -= len(rows)
			for _, row := range rows {
				if store.IsUnread(row) {
					complete = false
					continue
				}
				for _, index := range c.by {
					value, some := scopes.ValueOf(row, index)
					at := place{index, value}
					left, rival := row, first[at]
					switch {
					case !some:
						continue
					case rival == nil:
						first[at] = row
						continue
					case scopes.Before(row, rival, index):
						first[at], left, rival = row, rival, row
					}
					list = append(list, scopes.Clash{Left: left.Key(), Rival: rival.Key(), Index: index})
				}
			}
		}
	}
	return list, complete, nil
}
