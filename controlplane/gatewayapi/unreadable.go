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

// A row that cannot be decoded, as after a downgrade, takes no other one from a list:
// its pages show the rest, and name it. But whoever walks a list to its end wants all of
// it. A declarative tool that missed an entity would make another one, or delete what
// refers to it. So a list that has left something out has one page more, which is an
// error, and nobody who follows the pages takes it for the whole.

// fieldUnreadable stands in a page that lacks something: paths, to be deleted or looked
// for in the log.
const fieldUnreadable = "unreadable"

// Codes of the log.
const (
	codeUnreadable = "unreadable"
	codeIncomplete = "incomplete_list"
)

// unreadable are rows that could not be decoded.
type unreadable []*model.Resource

// readable parts rows.
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

// err says why the first of the rows cannot be decoded, for a call that needs all.
func (u unreadable) err() error {
	first := u[0].Spec.(*store.Unread)
	return store.Unreadable(u[0], first.Expires, first.Why)
}

// pathOf is where a resource is read and deleted, or what it is called if it is
// neither.
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

// note tells the log what an answer lacks and returns what the client is told.
func (a *API) note(r *http.Request, rows unreadable) []string {
	causes := make([]error, len(rows))
	for i, res := range rows {
		causes[i] = fmt.Errorf("%s: %w", a.pathOf(res), res.Spec.(*store.Unread).Why)
	}
	entry := httpkit.EntryOf(r.Context())
	entry.Code, entry.Cause = codeUnreadable, errors.Join(causes...)
	return a.pathsOf(rows)
}

// failUnreadable answers a call that failed of a row which cannot be decoded, and reports
// whether it did.
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

// unreadableText answers a call that needs a row which cannot be decoded.
func (a *API) unreadableText(res *model.Resource) string {
	return "what is stored of " + a.pathOf(res) + " cannot be read by this version; the log says why." + a.remedy(a.pathOf(res))
}

// remedy says how a row goes. What comes from a file goes with the next start only.
func (a *API) remedy(path string) string {
	if a.ReadOnly != "" || !strings.HasPrefix(path, "/") {
		return ""
	}
	return " DELETE " + path + " deletes it"
}

// gaps are what the pages of a list have left out so far: how much, and the path of the
// first.
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

// String is what a cursor holds of them; nothing if nothing is missing.
func (g gaps) String() string {
	if g.count == 0 {
		return ""
	}
	return strconv.Itoa(g.count) + " " + g.first
}

// readGaps reads what this process, or one before it, has written.
func readGaps(text string) (g gaps) {
	count, first, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 {
		return gaps{}
	}
	return gaps{n, first}
}

// incomplete is the last page of a list of which something could not be read.
func (a *API) incomplete(g gaps) error {
	text := fmt.Sprintf("this list is not complete: %d of its resources cannot be read by this version, the first is %s. "+
		"The pages before this one name all of them as %q, and the log says why.%s", g.count, g.first, fieldUnreadable, a.remedy(g.first))
	return &incompleteList{text}
}

// incompleteList ends the walk through a list.
type incompleteList struct{ text string }

// Error implements error.
func (e *incompleteList) Error() string { return e.text }
