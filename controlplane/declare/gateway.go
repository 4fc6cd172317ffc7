package declare

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// textTokens refuses a file with tokens where they are not asked for.
const textTokens = "the file holds access tokens: --with-tokens takes them along"

// load reads files, and finds the gateway that they are for.
func (o *options) load(ctx context.Context, c *cobra.Command, files []string) (*Document, *target, error) {
	sources, err := readSources(files, c.InOrStdin())
	if err != nil {
		return nil, nil, err
	}
	d, err := Parse(sources, Kinds(false, true))
	if err != nil {
		return nil, nil, err
	}
	for _, e := range d.Entities {
		if e.Kind == gateway.Tokens && !o.tokens {
			return nil, nil, errors.New(textTokens)
		}
	}
	inFile := words(d.Header.SelectTags)
	if len(o.tags) > 0 && len(inFile) > 0 && !sameTags(o.tags, inFile) {
		return nil, nil, fmt.Errorf("tags provided via flag %v and tags in the file %v are different", o.tags, inFile)
	}
	if len(o.tags) == 0 {
		o.tags = inFile
	}
	if err := o.tags.check(); err != nil {
		return nil, nil, err
	}
	d.age(time.Now())
	t, err := o.target(ctx, c, d.Header)
	return d, t, err
}

// plan compares files with a gateway.
func (o *options) plan(ctx context.Context, d *Document, t *target) (*Plan, error) {
	kinds := Kinds(o.skipConsumers, o.tokens)
	current, err := t.api.Read(ctx, kinds, o.tags, o.skipConsumers)
	if err != nil {
		return nil, err
	}
	if o.skipConsumers {
		d.withoutConsumers(kinds)
	}
	b := &builder{document: d, current: current, tags: o.tags, now: time.Now()}
	if len(o.tags) > 0 || o.skipConsumers { // what the files leave out may still be there
		b.lookup = t.api.lookup
	}
	wanted, err := b.build(ctx, kinds)
	if err != nil {
		return nil, err
	}
	if err := b.strangers(ctx, wanted); err != nil {
		return nil, err
	}
	p := &planner{kinds: kinds, schemas: &Schemas{api: t.api, known: map[string]fields{}}, current: current, wanted: wanted, masked: d.Masked}
	plan, err := p.compare(ctx)
	if err == nil && b.lookup != nil {
		err = p.cascades(ctx, t.api)
	}
	return plan, err
}

// withoutConsumers leaves out entities of other kinds, and those that belong to a consumer.
func (d *Document) withoutConsumers(kinds []*model.Kind) {
	kept := d.Entities[:0:0]
	for _, e := range d.Entities {
		bound := e.Values[gateway.RefConsumer] != nil || e.Parent != nil && e.Parent.Kind == gateway.Consumers
		if slices.Contains(kinds, e.Kind) && !bound {
			kept = append(kept, e)
		}
	}
	d.Entities = kept
}

// strangers refuses ids that belong to entities without the select tags: they are somebody
// else's, and would be overwritten.
func (b *builder) strangers(ctx context.Context, wanted *State) error {
	if len(b.tags) == 0 {
		return nil
	}
	for _, e := range wanted.Entities {
		if !e.stated || b.current.get(e.Kind.Name, e.ID) != nil {
			continue
		}
		is, err := b.lookup(ctx, e.Kind, e.ID)
		if err != nil {
			return err
		}
		if is != nil {
			b.problems = append(b.problems, fmt.Sprintf("%s: %s exists without the select tags: nothing else may have its id", e.where, label(is)))
		}
	}
	if len(b.problems) > 0 {
		return b.problems
	}
	return nil
}

// finish carries a plan out, or shows it, and prints what became of it.
func (o *options) finish(c *cobra.Command, api *API, p *Plan, write bool) error {
	out := newPrinter(c.OutOrStdout(), o.silent || o.json)
	for _, w := range p.Warnings {
		_, _ = fmt.Fprintln(c.ErrOrStderr(), "meshgate:", w)
	}
	r := &runner{api: api, begin: out.op, progress: o.pacer(c, "operations are done").progress}
	done, failed, missed := p.Ops, error(nil), false
	switch {
	case write && o.dryRun:
		var tried []Tried
		tried, failed = r.try(c.Context(), p)
		done = nil // what is refused would not be done
		for _, w := range warnBusy(tried) {
			missed = true
			p.Warnings = append(p.Warnings, w)
			_, _ = fmt.Fprintln(c.ErrOrStderr(), "meshgate:", w)
		}
		for _, t := range tried {
			if t.Op == nil {
				continue
			}
			out.tried(t)
			if t.Refused == "" {
				t.Op.dryRun = saidOf(t)
				done = append(done, t.Op)
				p.Warnings = append(p.Warnings, t.warnings()...)
			}
		}
	case write:
		done, failed = r.run(c.Context(), p)
	default:
		for _, op := range p.Ops {
			out.op(op)
		}
		if o.nonZero { // whoever reads the code alone must not take that for a drift
			failed = p.known()
		}
	}
	if err := o.told(c, out, p, done, failed); !missed || failed != nil {
		return err
	}
	return cli.CodedError{Code: exitFailed} // whoever reads the code alone must not take them for checked
}

// told prints what became of a plan, and returns the error of the command.
func (o *options) told(c *cobra.Command, out *printer, p *Plan, done []*Op, failed error) error {
	failed = interrupted(c.Context(), failed)
	if o.json {
		if err := printJSON(c.OutOrStdout(), done, p.Warnings, failed); err != nil {
			return err
		}
	} else {
		out.summary(done)
	}
	if failed == nil && o.nonZero && len(p.Ops) > 0 {
		return cli.CodedError{Code: exitDifferences}
	}
	return failed
}

func (o *options) compare(c *cobra.Command, files []string, write bool) error {
	d, t, err := o.load(c.Context(), c, files)
	if err != nil {
		return err
	}
	defer t.api.Client.Close()
	if err := t.writable(); err != nil {
		return err
	}
	p, err := o.plan(c.Context(), d, t)
	if err != nil {
		return err
	}
	return o.finish(c, t.api, p, write)
}

// reset deletes everything, or what has the select tags.
func (o *options) reset(c *cobra.Command) error {
	if err := o.tags.check(); err != nil {
		return err
	}
	d := &Document{}
	t, err := o.target(c.Context(), c, d.Header)
	if err != nil {
		return err
	}
	defer t.api.Client.Close()
	if err := t.writable(); err != nil {
		return err
	}
	p, err := o.plan(c.Context(), d, t)
	if err != nil {
		return err
	}
	if len(p.Ops) > 0 {
		if err := o.confirm(c, fmt.Sprintf("This deletes %d entities of %s.", len(p.Ops), o.place(t))); err != nil {
			return err
		}
	}
	return o.finish(c, t.api, p, true)
}

// place names the gateway for people.
func (o *options) place(t *target) string {
	if t.plane != "" {
		return "control plane " + t.plane + " at " + o.cloudAddr
	}
	return "the gateway at " + o.gatewayAddr
}

// dump writes what the gateway holds.
func (o *options) dump(c *cobra.Command) error {
	if err := o.tags.check(); err != nil {
		return err
	}
	format, err := o.dumpFormat()
	if err != nil {
		return err
	}
	ctx := c.Context()
	t, err := o.target(ctx, c, (&Document{}).Header)
	if err != nil {
		return err
	}
	defer t.api.Client.Close()
	if err := t.readable(ctx); err != nil {
		return err
	}
	kinds := Kinds(o.skipConsumers, o.tokens)
	state, err := t.api.Read(ctx, kinds, o.tags, o.skipConsumers)
	if err != nil {
		return err
	}
	now := time.Now()
	if !o.tokens && !slices.ContainsFunc(state.Entities, func(e *Entity) bool { return e.Values["ttl"] != nil }) {
		now = time.Time{}
	}
	d := &dumper{
		state: state, kinds: kinds, lookup: t.api.lookup, withID: o.withID, tags: o.tags,
		header: dumpHeader(o.tags, o.workspace, t.plane, now),
	}
	doc, err := d.document(ctx)
	if err != nil {
		return err
	}
	return o.write(c, doc, format)
}

// write writes a document to the file of the flag, or to standard output.
func (o *options) write(c *cobra.Command, doc any, format string) error {
	data, err := encode(doc, format)
	if err != nil {
		return err
	}
	return o.writeData(c, data)
}

func (o *options) writeData(c *cobra.Command, data []byte) error {
	if o.output == "" || o.output == stdin {
		_, err := c.OutOrStdout().Write(data)
		return err
	}
	if exists(o.output) {
		if err := o.confirm(c, fmt.Sprintf("File '%s' already exists.", o.output)); err != nil {
			return err
		}
	}
	return writeFile(o.output, data)
}

// validate has the API check each entity. Nothing is stored.
func (o *options) validate(c *cobra.Command, files []string) error {
	o.tokens = true
	d, t, err := o.load(c.Context(), c, files)
	if err != nil {
		return err
	}
	defer t.api.Client.Close()
	if t.plane != "" {
		return errors.New("gateway validate is not available for control planes in the cloud: gateway file validate checks files by themselves, and gateway diff compares and writes nothing")
	}
	kinds := Kinds(false, true)
	b := &builder{document: d, current: newState(), tags: o.tags, now: time.Now()}
	if len(o.tags) > 0 {
		b.lookup = t.api.lookup
	}
	wanted, err := b.build(c.Context(), kinds)
	if err != nil {
		return err
	}
	failures := make([]error, len(wanted.Entities))
	err = parallel(c.Context(), o.parallel, len(failures), func(ctx context.Context, i int) error {
		e := wanted.Entities[i]
		err := t.api.call(ctx, http.MethodPost, "/schemas/"+e.Kind.Path+"/validate", nil, e.Values, nil)
		if status(err) == http.StatusBadRequest {
			failures[i], err = fmt.Errorf("%s: validating %s: %s", e.where, label(e, wanted), problem(err, append(masking(e.Kind, nil).secrets("", e.Values), d.Masked...))), nil
		}
		return err
	})
	return errors.Join(err, errors.Join(failures...))
}

// pingCloud says whose cloud API answers, whatever control planes there are.
func (o *options) pingCloud(c *cobra.Command) error {
	api, err := o.cloudClient(c)
	if err != nil {
		return err
	}
	defer api.Close()
	var who struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	at := &API{Client: api, Parallel: o.parallel, Waiting: waiting(c)}
	if err := at.call(c.Context(), http.MethodGet, "/v2/organizations/me", nil, nil, &who); err != nil {
		return err
	}
	if who.ID == "" {
		return fmt.Errorf("what answers at %s is no cloud API: it names no organization", o.cloudAddr)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "Successfully connected to the %s organization at %s!\n", client.Plain(who.Name), o.cloudAddr)
	return err
}

// ping says whether the gateway answers.
func (o *options) ping(c *cobra.Command) error {
	inCloud, err := o.cloud(c, declarative.Header{})
	if err != nil {
		return err
	}
	if inCloud && o.plane == "" && !given(c, flagWorkspace) {
		return o.pingCloud(c)
	}
	t, err := o.target(c.Context(), c, declarative.Header{})
	if err != nil {
		return err
	}
	defer t.api.Client.Close()
	if t.plane != "" {
		_, err = fmt.Fprintf(c.OutOrStdout(), "Successfully connected to control plane %s (%s) at %s!\n", client.Plain(t.plane), client.Plain(t.id), o.cloudAddr)
		return err
	}
	var answer struct {
		Version string `json:"version"`
		// Cluster is what only the mesh API has.
		Cluster *string `json:"clusterId"`
	}
	if err := t.api.call(c.Context(), http.MethodGet, "/", nil, nil, &answer); err != nil {
		if status(err) != 0 {
			return fmt.Errorf("reading the gateway's version: %s; %w", problem(err, nil), err)
		}
		return err
	}
	if answer.Cluster != nil {
		return fmt.Errorf("what answers at %s is a mesh API, and no gateway: meshgate mesh is for that", o.gatewayAddr)
	}
	if answer.Version == "" {
		return fmt.Errorf("what answers at %s is no gateway: it names no version", o.gatewayAddr)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "Successfully connected to the gateway at %s!\nVersion: %s\n", o.gatewayAddr, client.Plain(answer.Version))
	return err
}
