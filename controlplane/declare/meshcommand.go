package declare

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/model"
)

const helpMeshFlags = `
Flags that say where: meshgate mesh --help. Exit codes: 0 well, 1 failed, 2 differences.`

// meshOptions are the flags of the commands for meshes.
type meshOptions struct {
	options
	kinds []*model.Kind
	// proxies and secrets take along kinds that are not configuration alone, allMeshes deletes
	// meshes.
	proxies, secrets, allMeshes bool
}

// MeshCommand brings documents to the mesh API, and writes them. kinds are those of the API.
func MeshCommand(kinds []*model.Kind) *cobra.Command {
	o := &meshOptions{kinds: documented(kinds)}
	c := &cobra.Command{
		Use:   "mesh",
		Short: "Bring documents to the meshes of a control plane, or write them to a file",
		Long: `Bring documents to the meshes of a control plane, or write them to a file: one stream of YAML
with meshes, policies, and all other kinds of the mesh API. Every flag has an environment
variable, such as MESHGATE_MESH_ADDR. Exit codes: 0 well, 1 failed, 2 differences
(--non-zero-exit-code). docs/declarative.md says more.`,
		Example: `  meshgate mesh dump -o meshes.yaml`,
	}
	f := c.PersistentFlags()
	f.StringVar(&o.meshAddr, "mesh-addr", meshAddr, "`URL` of the mesh API")
	f.StringVar(&o.mesh, "mesh", "", "`name` of the mesh: only what is in it")
	o.connection(f)
	group(c)
	c.AddCommand(o.dumpCommand(), o.diffCommand(), o.syncCommand())
	return c
}

// along adds the flags for kinds that are not configuration alone.
func (o *meshOptions) along(f *pflag.FlagSet, what string) {
	f.BoolVar(&o.proxies, "with-proxies", false, what+" proxies and zones, too, which partly register themselves")
	f.BoolVar(&o.secrets, "with-secrets", false, what+" secrets, too, of which the control plane makes some")
}

func (o *meshOptions) dumpCommand() *cobra.Command {
	c := command(&cobra.Command{
		Use:   "dump",
		Short: "Write the meshes of a control plane to a file",
		Long: `Write meshes, their policies and services to a file, or to standard output. Equal meshes give
equal files.` + helpMeshFlags,
		Example: `  meshgate mesh dump --mesh default -o default.yaml`,
		Args:    none,
	}, func(c *cobra.Command, _ []string) error { return o.dumpMeshes(c) })
	f := c.Flags()
	f.StringVarP(&o.output, "output-file", "o", "", "file to write")
	f.StringVar(&o.format, "format", asYAML, "yaml, or json: a list")
	o.along(f, "write")
	o.asking(f)
	return c
}

func (o *meshOptions) diffCommand() *cobra.Command {
	c := command(&cobra.Command{
		Use:     "diff [FILE]...",
		Short:   "Show what sync would do",
		Long:    `Show what sync would do with files, directories, or standard input. Nothing is written.` + helpMeshFlags,
		Example: `  meshgate mesh diff meshes.yaml --non-zero-exit-code`,
	}, func(c *cobra.Command, files []string) error { return o.compareMeshes(c, files, false) })
	o.compared(c)
	return c
}

func (o *meshOptions) syncCommand() *cobra.Command {
	c := command(&cobra.Command{
		Use:   "sync [FILE]...",
		Short: "Make meshes hold what files say, and nothing else",
		Long: `Make the meshes that files, directories or standard input name hold what these say, and
nothing else. Other meshes are left alone, and so are proxies and secrets that are not in the
files.` + helpMeshFlags,
		Example: `  meshgate mesh sync meshes.yaml`,
	}, func(c *cobra.Command, files []string) error { return o.compareMeshes(c, files, true) })
	o.compared(c)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "write nothing: ask the control plane what each write would do")
	return c
}

// compared adds the flags of diff and sync.
func (o *meshOptions) compared(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&o.nonZero, "non-zero-exit-code", false, "exit code 2 if there are differences")
	f.BoolVar(&o.allMeshes, "all-meshes", false, "delete meshes and global documents that the files do not name")
	o.along(f, "delete")
	o.planned(f)
}

func (o *meshOptions) api(c *cobra.Command) (*API, error) {
	api, err := o.client(c, o.meshAddr, "mesh-addr")
	return &API{Client: api, Parallel: o.parallel, Waiting: waiting(c), Progress: reading(c, "documents")}, err
}

// reads reports whether a kind is read: secrets, only if somebody asks for them.
func (o *meshOptions) reads(asked []*meshDoc) []*model.Kind {
	return slices.DeleteFunc(slices.Clone(o.kinds), func(k *model.Kind) bool {
		inFiles := slices.ContainsFunc(asked, func(d *meshDoc) bool { return d.kind == k })
		return !inFiles && (ofProxies(k) && !o.proxies || ofSecrets(k) && !o.secrets)
	})
}

// dumpMeshes writes what the control plane holds.
func (o *meshOptions) dumpMeshes(c *cobra.Command) error {
	format, err := o.dumpFormat()
	if err != nil {
		return err
	}
	api, err := o.api(c)
	if err != nil {
		return err
	}
	defer api.Client.Close()
	docs, err := readDocs(c.Context(), api, o.reads(nil), o.mesh)
	if err != nil {
		return err
	}
	slices.SortStableFunc(docs, func(a, b *meshDoc) int { return cmp.Compare(meshLevel(a.kind), meshLevel(b.kind)) })
	var out bytes.Buffer
	hidden, list := 0, []any{}
	for _, d := range docs {
		if concealed(d.values) {
			hidden++
		}
		if lost := d.lost(); lost != "" {
			_, _ = fmt.Fprintln(c.ErrOrStderr(), "meshgate:", lost)
		}
		list = append(list, d.values)
		raw, err := encode(d.values, asYAML)
		if err != nil {
			return err
		}
		out.WriteString("---\n")
		out.Write(raw)
	}
	if format == asJSON {
		raw, err := encode(list, asJSON)
		if err != nil {
			return err
		}
		out = *bytes.NewBuffer(raw)
	}
	if hidden > 0 {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "meshgate: %d documents have secrets that are concealed from you: sync takes them when the values stand there\n", hidden)
	}
	return o.writeData(c, out.Bytes())
}

// compareMeshes compares files with a control plane, and writes what differs.
func (o *meshOptions) compareMeshes(c *cobra.Command, files []string, write bool) error {
	sources, err := readSources(files, c.InOrStdin())
	if err != nil {
		return err
	}
	wanted, err := parseDocs(c.Context(), sources, o.kinds)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		return fmt.Errorf("there is no document in %s", client.Plain(sources[0].name))
	}
	for _, d := range wanted {
		if o.mesh != "" && d.of() != o.mesh {
			return fmt.Errorf("%s: %s is not in mesh %s", d.where, d.label(), o.mesh)
		}
	}
	api, err := o.api(c)
	if err != nil {
		return err
	}
	defer api.Client.Close()
	p, err := o.planMeshes(c.Context(), api, wanted)
	if err != nil {
		return err
	}
	plan := p.compare()
	for _, name := range p.begun {
		plan.Warnings = append(plan.Warnings, textInitial(name))
	}
	if write && !o.dryRun && len(p.begun) > 0 {
		return o.syncNew(c, api, wanted, plan)
	}
	return o.finish(c, api, plan, write)
}

// planMeshes reads what there is, asks what would become of it, and says what may be deleted.
func (o *meshOptions) planMeshes(ctx context.Context, api *API, wanted []*meshDoc) (*meshPlanner, error) {
	current, err := readDocs(ctx, api, o.reads(wanted), o.mesh)
	if err != nil {
		return nil, err
	}
	named := map[string]bool{}
	for _, d := range wanted {
		named[d.of()] = true
	}
	p := &meshPlanner{wanted: wanted, current: current, prune: func(d *meshDoc) bool {
		switch {
		case ofProxies(d.kind) && !o.proxies, ofSecrets(d.kind) && !o.secrets:
			return false
		case d.kind.Scoping != model.Mesh: // what every mesh may need
			return o.allMeshes
		}
		return named[d.mesh] || o.allMeshes
	}}
	return p, p.ask(ctx, api)
}

// syncNew carries out a plan that creates meshes. These begin with policies of their own, so
// that a second plan is needed.
func (o *meshOptions) syncNew(c *cobra.Command, api *API, wanted []*meshDoc, plan *Plan) error {
	out := newPrinter(c.OutOrStdout(), o.silent || o.json)
	warned := &Plan{Ops: plan.Ops}
	warn := func(texts []string) {
		warned.Warnings = append(warned.Warnings, texts...)
		for _, text := range texts {
			_, _ = fmt.Fprintln(c.ErrOrStderr(), "meshgate:", text)
		}
	}
	warn(plan.Warnings)
	r := &runner{api: api, begin: out.op, progress: o.pacer(c, "operations are done").progress}
	done, failed := r.run(c.Context(), plan)
	if failed == nil {
		var p *meshPlanner
		if p, failed = o.planMeshes(c.Context(), api, wanted); failed == nil {
			var more []*Op
			rest := p.compare()
			warn(slices.DeleteFunc(rest.Warnings, func(text string) bool { return slices.Contains(warned.Warnings, text) }))
			more, failed = r.run(c.Context(), rest)
			done = append(done, more...)
		}
	}
	return o.told(c, out, warned, done, failed)
}
