package declare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// askedAtOnce is how many dry runs are asked for at the same time. Each costs the control plane a plan,
// so that it works on one for a caller who is no administrator, lets four wait, and refuses the others:
// whoever asks for more at once stands in his own way.
const askedAtOnce = 4

// dryRuns calls ask for each of n dry runs, for some at the same time. Ask reports whether the API had no
// time for it. The API counts the wait for the others as time that one takes, so that four may lack the time
// that each of them would have. Those are asked for again, one after the other, but not without an
// end: an API that has no time for as many of these has none for the rest.
func (a *API) dryRuns(ctx context.Context, n int, ask func(ctx context.Context, i int) (busy bool, err error)) error {
	missed := make([]bool, n)
	err := parallel(ctx, min(a.Parallel, askedAtOnce), n, func(ctx context.Context, i int) (err error) {
		missed[i], err = ask(ctx, i)
		return err
	})
	for i, left := 0, askedAtOnce; err == nil && i < n && left > 0; i++ {
		if !missed[i] {
			continue
		}
		var again bool
		if again, err = ask(ctx, i); again {
			left--
		}
	}
	return err
}

// textNotAsked says why a plan may have more differences than there are.
const textNotAsked = "the control plane could not be asked what it would store, so that what it fills in by itself is shown as a difference: %w"

// textSomeNotAsked says the same of some documents, and names the first.
const textSomeNotAsked = "the control plane did not say what it would store of %d of %d documents that differ, so that what it fills in by itself is shown as a difference there; the first is %s: %s"

// errNoDocument is what becomes of an answer that does not say what would be stored.
var errNoDocument = errors.New("the answer to the dry run has no document")

// ask asks the control plane, by dry runs, what it would store of the documents that are not as those
// which are there. Only the control plane knows how it completes documents: with the zone in the tags
// of a Dataplane, with the readiness that its proxy has found out, with defaults that are newer than
// this tool. Nothing is written. Where it cannot be asked, documents are compared as they stand in the
// files, and one warning says so.
func (p *meshPlanner) ask(ctx context.Context, api *API) error {
	have := keyed(p.current)
	var asked []*meshDoc
	for _, d := range p.wanted {
		d.stored, d.unasked = nil, false
		if is := have[d.key()]; is != nil && len(d.differing(is)) > 0 {
			asked = append(asked, d)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	err := api.knowsDryRuns(ctx, asked[0].path())
	if errors.Is(err, errNoDryRuns) || unanswered(err) {
		for _, d := range asked {
			d.unasked = busy(err)
		}
		p.warnings = append(p.warnings, fmt.Errorf(textNotAsked, err).Error())
		return nil
	}
	if err != nil {
		return err
	}
	without := make([]error, len(asked))
	err = api.dryRuns(ctx, len(asked), func(ctx context.Context, i int) (bool, error) {
		d := asked[i]
		err := d.ask(ctx, api, have[d.key()])
		without[i], d.unasked = nil, busy(err)
		switch {
		case unanswered(err) || errors.Is(err, errNoDocument):
			without[i] = err
		case err != nil:
			return false, fmt.Errorf("asking what would become of %s: %w", d.label(), err)
		}
		return d.unasked, nil
	})
	if err == nil {
		p.warnUnasked(asked, without)
	}
	return err
}

// warnUnasked warns once of the documents about which nothing was learnt: hundreds of them would hide
// every other warning.
func (p *meshPlanner) warnUnasked(asked []*meshDoc, without []error) {
	n, first, why := 0, "", ""
	for i, err := range without {
		if err == nil {
			continue
		}
		if n++; n == 1 {
			first, why = asked[i].label(), problem(err, masking(asked[i].kind, nil).secrets("", asked[i].values))
		}
	}
	if n > 0 {
		p.warnings = append(p.warnings, fmt.Sprintf(textSomeNotAsked, n, len(asked), first, why))
	}
}

// unanswered reports whether the API has refused a dry run, or had no time for it. Nothing is known then
// of the document. Sync meets the same refusal, unless something else is written before; a write waits
// for no plan, so that it may succeed where a dry run did not.
func unanswered(err error) bool { return status(err)/100 == http.StatusBadRequest/100 || busy(err) }

// busy reports whether the API has no time for a call. That says nothing of what was called for.
func busy(err error) bool {
	s := status(err)
	return s == http.StatusServiceUnavailable || s == http.StatusTooManyRequests
}

// ask notes what the control plane would store of one document in place of the one that is there.
func (d *meshDoc) ask(ctx context.Context, api *API, is *meshDoc) error {
	answer := new(dryrun.Answer)
	err := api.call(ctx, http.MethodPut, d.path(), url.Values{httpkit.ArgDryRun: {"true"}}, d.values, answer)
	switch {
	case err != nil:
		return err
	case answer.Verdict == "":
		return errors.New("the answer to a dry run says nothing of it, so that it may be written: nothing more is tried")
	case answer.Document != nil:
		stored, _, err := canonical(d.kind, answer.Document)
		if err != nil {
			return err
		}
		d.stored, _ = reveal(stored.values, d.values).(map[string]any) // the answer has no secrets
	case answer.Verdict == dryrun.Unchanged:
		d.stored = is.values
	default:
		return errNoDocument
	}
	return nil
}

// becomes returns what a document is when it is stored, as far as that is known.
func (d *meshDoc) becomes() map[string]any {
	if d.stored != nil {
		return d.stored
	}
	return d.values
}
