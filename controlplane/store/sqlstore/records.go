package sqlstore

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// detail holds the parts of a record that no query filters by. It is encrypted if the
// resource is: what readers of the API may see can still be secret to readers of the disk.
type detail struct {
	Title   string         `json:"title,omitempty"`
	Members []store.Member `json:"members,omitempty"`
	More    int            `json:"more,omitempty"`
	Cause   *model.Key     `json:"cause,omitempty"`
	Count   int            `json:"count,omitempty"`
}

// recordPlace returns the associated data that binds an encrypted detail to its record.
func recordPlace(number uint64) []byte { return []byte("change " + strconv.FormatUint(number, 10)) }

// Kept implements engine.Records.
func (t *rows) Kept() (uint64, error) {
	var n int64
	_, err := t.row(`SELECT coalesce(max(number), 0) FROM changes`, nil, &n)
	return uint64(n), err //nolint:gosec // written from uint64
}

// Keep implements engine.Records.
func (t *rows) Keep(r store.ChangeRecord) error {
	raw, err := json.Marshal(detail{r.Title, r.Members, r.More, r.Cause, r.Count})
	if err == nil && r.Sealed {
		raw, err = t.sealing.Load().Seal(raw, recordPlace(r.Number))
	}
	if err != nil {
		return err
	}
	b := r.Budget()
	_, err = t.exec(`INSERT INTO changes (number, previous, revision, time, actor_kind, actor, origin, op, kind, scoping, scope, name, sealed, detail, budget, place)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, coalesce(`+lastPlace+`, 0) + 1)`, r.Number, r.Previous, r.Revision, r.Time.UnixMicro(),
		string(r.Actor.Kind), r.Actor.Name, string(r.Origin), string(r.Op), r.Key.Kind, int(r.Scoping), r.Key.Scope, r.Key.Name, r.Sealed, raw, int(b), int(b))
	return err
}

// lastPlace is the place of the newest record of a budget, firstPlace that of the oldest one
// after a number; null if there is none. The places of a budget have no gaps.
const (
	lastPlace  = `(SELECT place FROM changes INDEXED BY changes_budget WHERE budget = ? ORDER BY number DESC LIMIT 1)`
	firstPlace = `(SELECT place FROM changes INDEXED BY changes_budget WHERE budget = ? AND number > `
	endPlace   = ` ORDER BY number LIMIT 1)`
)

// Room implements engine.Records.
func (t *rows) Room(b store.Budget) (n int, err error) {
	_, err = t.row(`SELECT coalesce(`+lastPlace+` - `+firstPlace+`0`+endPlace+` + 1, 0)`, []any{int(b), int(b)}, &n)
	return n, err
}

// Eldest implements engine.Records.
func (t *rows) Eldest(b store.Budget, n int) (list []store.ChangeRecord, _ error) {
	var number, previous, revision, micro int64
	err := t.each(`SELECT number, previous, revision, time FROM changes INDEXED BY changes_budget WHERE budget = ? ORDER BY number LIMIT ?`, []any{int(b), n}, func() error {
		list = append(list, store.ChangeRecord{
			Number: uint64(number), Previous: uint64(previous), Revision: uint64(revision), Time: time.UnixMicro(micro), //nolint:gosec // written from uint64
		})
		return nil
	}, &number, &previous, &revision, &micro)
	return list, err
}

// sinceNames are the meta rows that hold the revision since which a budget is complete.
var sinceNames = map[store.Budget]string{
	store.OfOperators: "changes_since", store.OfProxies: "changes_since_proxies", store.OfTokens: "changes_since_tokens",
}

// Forget implements engine.Records.
func (t *rows) Forget(b store.Budget, number, since uint64) error {
	if _, err := t.exec(`DELETE FROM changes INDEXED BY changes_budget WHERE budget = ? AND number <= ?`, int(b), number); err != nil {
		return err
	}
	_, err := t.exec(`UPDATE meta SET value = ? WHERE name = ?`, since, sinceNames[b])
	return err
}

// Since implements engine.Records.
func (t *rows) Since(b store.Budget) (uint64, error) {
	var n int64
	_, err := t.row(`SELECT value FROM meta WHERE name = ?`, []any{sinceNames[b]}, &n)
	return uint64(n), err //nolint:gosec // written from uint64
}

// lastBefore is the number of the last record before a revision. Numbers and revisions ascend
// together.
const lastBefore = `coalesce((SELECT number FROM changes WHERE previous < ? ORDER BY previous DESC, number DESC LIMIT 1), 0)`

// selected returns FROM and WHERE of a query, without the start of its page.
func selected(q store.RecordQuery) (from string, args []any) {
	from = ` FROM changes WHERE 1`
	demand := func(text string, values ...any) {
		from, args = from+` AND `+text, append(args, values...)
	}
	if !q.WithFleeting() {
		demand(`budget <> ?`, int(store.OfTokens))
	}
	if q.Since != nil {
		demand(`number > `+lastBefore, *q.Since)
	}
	if q.Kind != "" {
		demand(`kind = ?`, q.Kind)
	}
	if q.Without != "" {
		demand(`kind <> ?`, q.Without)
	}
	if q.Scope != "" {
		demand(`scope = ?`, q.Scope)
	}
	if q.Scoping != nil {
		demand(`scoping = ?`, int(*q.Scoping))
	}
	if q.User != "" {
		demand(`(actor_kind = ? AND actor = ? OR (? = '' OR actor_kind = ?) AND (? = '' OR actor = ?))`,
			string(model.ActorUser), q.User, string(q.ActorKind), string(q.ActorKind), q.Actor, q.Actor)
		return from, args
	}
	if q.Actor != "" {
		demand(`actor = ?`, q.Actor)
	}
	if q.ActorKind != "" {
		demand(`actor_kind = ?`, string(q.ActorKind))
	}
	return from, args
}

// Select implements engine.Records.
func (t *rows) Select(q store.RecordQuery) (list []store.ChangeRecord, _ error) {
	from, args := selected(q)
	order := ` ORDER BY number DESC`
	switch {
	case q.Oldest:
		from, args, order = from+` AND number > ?`, append(args, q.After), ` ORDER BY number`
	case q.After != 0:
		from, args = from+` AND number < ?`, append(args, q.After)
	}
	limit := -1
	if q.Limit > 0 {
		limit = q.Limit
	}
	var number, previous, revision, micro int64
	var sealed bool
	var scoping, budget int
	var raw []byte
	var r store.ChangeRecord
	err := t.each(`SELECT number, previous, revision, time, actor_kind, actor, origin, op, kind, scoping, scope, name, sealed, detail, budget`+from+order+` LIMIT ?`,
		append(args, limit), func() error {
			out := r
			out.Number, out.Previous, out.Revision = uint64(number), uint64(previous), uint64(revision) //nolint:gosec // written from uint64
			out.Time, out.Scoping, out.Sealed = time.UnixMicro(micro).UTC(), model.Scoping(scoping), sealed
			out.Fleeting = store.Budget(budget) == store.OfTokens
			t.open(&out, raw)
			list = append(list, out)
			return nil
		}, &number, &previous, &revision, &micro, &r.Actor.Kind, &r.Actor.Name, &r.Origin, &r.Op, &r.Key.Kind, &scoping, &r.Key.Scope, &r.Key.Name, &sealed, &raw, &budget)
	return list, err
}

// open fills in the stored detail of a record. If the detail cannot be read, the record is
// marked and still returned: it must not block the others, and who changed what and when does
// not depend on the detail.
func (c *codec) open(r *store.ChangeRecord, raw []byte) {
	var err error
	if r.Sealed {
		raw, err = c.sealing.Load().Open(raw, recordPlace(r.Number))
	}
	var d detail
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil {
		r.Unreadable = true
		return
	}
	r.Title, r.Members, r.More, r.Cause, r.Count = d.Title, d.Members, d.More, d.Cause, d.Count
}

// Tally implements engine.Records. Places have no gaps, so an unfiltered query needs no
// counting.
func (t *rows) Tally(q store.RecordQuery) (n int, err error) {
	if (q == store.RecordQuery{Since: q.Since, Oldest: q.Oldest, After: q.After, Limit: q.Limit, Fleeting: q.Fleeting}) {
		var since uint64
		if q.Since != nil {
			since = *q.Since
		}
		for _, b := range q.Budgets() {
			var of int
			if _, err := t.row(`SELECT coalesce(`+lastPlace+` - `+firstPlace+lastBefore+endPlace+` + 1, 0)`, []any{int(b), int(b), since}, &of); err != nil {
				return 0, err
			}
			n += of
		}
		return n, nil
	}
	from, args := selected(q)
	_, err = t.row(`SELECT count(*)`+from, args, &n)
	return n, err
}
