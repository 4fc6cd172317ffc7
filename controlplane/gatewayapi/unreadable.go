package gatewayapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// A row that cannot be decoded, as after a downgrade, does not hide others from a list. The
// pages show the rest, and name the row. But a client that reads a list to its end needs all
// of it: a declarative tool that misses an entity would create another one, or delete what
// refers to it. So an incomplete list has one more page, which is an error. A client that
// follows the pages cannot take such a list for the whole.

// fieldUnreadable is a member of an incomplete page. It lists paths that can be deleted or
// searched in the log.
const fieldUnreadable = "unreadable"

// The codes of the log.
const (
	codeUnreadable = "unreadable"
	codeIncomplete = "incomplete_list"
)

// unreadable are rows that could not be decoded.
type unreadable []*model.Resource

// readable separates readable rows from others.
func readable(rows []*model.Resource) (good []*model.Resource, bad unreadable) {
	good = rows[:0:0]
	for _, res := range rows {
		if store.IsUnread(res) {
			bad = append(bad, res)
		} else {
			good = append(good, res)
		}
	}
	return good, bad
}

// err returns the error of the first row, for a call that needs all of them.
func (u unreadable) err() error {
	first := u[0].Spec.(*store.Unread)
	return store.Unreadable(u[0], first.Expires, first.Why)
}

// pathOf returns the path at which a resource can be read and deleted, or its name if there
// is none.
func (a *API) pathOf(res *model.Resource) string {
	if _, served := a.byKind[res.Kind.Name]; served {
		return "/" + res.Kind.Path + "/" + res.Name
	}
	return res.Kind.Name + " " + res.Name
}

func (a *API) pathsOf(rows unreadable) []string {
	out := make([]string, len(rows))
	for i, res := range rows {
		out[i] = a.pathOf(res)
	}
	return out
}

// note logs what an answer lacks, and returns the paths for the client.
func (a *API) note(r *http.Request, rows unreadable) []string {
	causes := make([]error, len(rows))
	for i, res := range rows {
		causes[i] = fmt.Errorf("%s: %w", a.pathOf(res), res.Spec.(*store.Unread).Why)
	}
	entry := httpkit.EntryOf(r.Context())
	entry.Code, entry.Cause = codeUnreadable, errors.Join(causes...)
	return a.pathsOf(rows)
}

// failUnreadable answers a call that failed because a row cannot be decoded. It reports
// whether it has answered.
func (a *API) failUnreadable(w http.ResponseWriter, entry *httpkit.Entry, err error) bool {
	var text string
	if e, ok := errors.AsType[*incompleteList](err); ok {
		entry.Code, text = codeIncomplete, e.text
	} else if bare := store.UnreadIn(err); bare != nil {
		entry.Code, entry.Cause, text = codeUnreadable, err, a.unreadableText(bare)
	} else {
		return false
	}
	httpkit.WriteMessage(w, http.StatusInternalServerError, text)
	return true
}

// unreadableText returns the text for a call that needs a row which cannot be decoded.
func (a *API) unreadableText(res *model.Resource) string {
	return "what is stored of " + a.pathOf(res) + " cannot be read by this version; the log says why." + a.remedy(a.pathOf(res))
}

// remedy says how a row can be deleted. Rows that come from a file go only with the next
// start.
func (a *API) remedy(path string) string {
	if a.ReadOnly != "" || !strings.HasPrefix(path, "/") {
		return ""
	}
	return " DELETE " + path + " deletes it"
}

// gaps counts what the pages of a list have left out so far, with the path of the first.
type gaps struct {
	count int
	first string
}

func (g gaps) with(paths []string) gaps {
	if g.count == 0 {
		g.first = paths[0]
	}
	g.count += len(paths)
	return g
}

// String returns the form in a cursor; it is empty if nothing is missing.
func (g gaps) String() string {
	if g.count == 0 {
		return ""
	}
	return strconv.Itoa(g.count) + " " + g.first
}

// readGaps parses the form in a cursor, which another process may have written.
func readGaps(text string) (g gaps) {
	count, first, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return gaps{}
	}
	return gaps{n, first}
}

// incomplete returns the error that is the last page of an incomplete list.
func (a *API) incomplete(g gaps) error {
	text := fmt.Sprintf("this list is not complete: %d of its resources cannot be read by this version, the first is %s. "+
		"The pages before this one name all of them as %q, and the log says why.%s", g.count, g.first, fieldUnreadable, a.remedy(g.first))
	return &incompleteList{text}
}

// incompleteList is the error at the end of an incomplete list.
type incompleteList struct{ text string }

// Error implements error.
func (e *incompleteList) Error() string { return e.text }
