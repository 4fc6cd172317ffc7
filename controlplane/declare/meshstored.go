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

// textNotAsked says why a plan may have more differences than there are.
const textNotAsked = "the control plane could not be asked what it would store, so that what it fills in by itself is shown as a difference: %w"

// ask asks the control plane, by dry runs, what it would store of the documents that are not as those
// which are there. Only the control plane knows how it completes documents: with the zone in the tags
// of a Dataplane, with the readiness that its proxy has found out, with defaults that are newer than
// this tool. Nothing is written. Where it cannot be asked, documents are compared as they stand in the
// files, and a warning says so.
func (p *meshPlanner) ask(ctx context.Context, api *API) error {
	have := keyed(p.current)
	var asked []*meshDoc
	for _, d := range p.wanted {
		d.stored = nil
		if is := have[d.key()]; is != nil && len(d.differing(is)) > 0 {
			asked = append(asked, d)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	err := api.knowsDryRuns(ctx, asked[0].path())
	if errors.Is(err, errNoDryRuns) || refused(err) {
		p.warnings = append(p.warnings, fmt.Errorf(textNotAsked, err).Error())
		return nil
	}
	if err != nil {
		return err
	}
	return parallel(ctx, api.Parallel, len(asked), func(ctx context.Context, i int) error {
		d := asked[i]
		if err := d.ask(ctx, api, have[d.key()]); err != nil {
			return fmt.Errorf("asking what would become of %s: %w", d.label(), err)
		}
		return nil
	})
}

// refused reports whether the API has refused a call because of what it is. Nothing is known then of
// the document, and sync will meet the same refusal, unless something else is written before.
func refused(err error) bool { return status(err)/100 == http.StatusBadRequest/100 }

// ask notes what the control plane would store of one document in place of the one that is there.
func (d *meshDoc) ask(ctx context.Context, api *API, is *meshDoc) error {
	answer := new(dryrun.Answer)
	err := api.call(ctx, http.MethodPut, d.path(), url.Values{httpkit.ArgDryRun: {"true"}}, d.values, answer)
	switch {
	case refused(err):
		return nil
	case err != nil:
		return err
	case answer.Verdict == "":
		return errors.New("the answer to a dry run says nothing of it, so that it may be written: nothing more is tried")
	case answer.Document == nil && answer.Verdict == dryrun.Unchanged:
		d.stored = is.values
	case answer.Document != nil:
		stored, _, err := canonical(d.kind, answer.Document)
		if err != nil {
			return err
		}
		d.stored, _ = reveal(stored.values, d.values).(map[string]any) // the answer has no secrets
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
