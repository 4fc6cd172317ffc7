package declare

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/client"
)

// envPrefix is how the environment variables of flags begin: MESHGATE_GATEWAY_ADDR is that of
// --gateway-addr.
const envPrefix = "MESHGATE_"

// The addresses of a control plane on this machine.
const (
	gatewayAddr = "http://localhost:8001"
	cloudAddr   = "http://localhost:5690"
	meshAddr    = "http://localhost:5681"
)

// The names of flags that others speak of.
const (
	flagGatewayAddr = "gateway-addr"
	flagWorkspace   = "workspace"
	flagCloudAddr   = "cloud-addr"
	flagCloudToken  = "cloud-token"
	flagCloudFile   = "cloud-token-file"
	flagPlane       = "cloud-control-plane-name"
	flagTags        = "select-tag"
	flagSkip        = "skip-consumers"
	flagTokens      = "with-tokens"
)

// options are the flags of all commands.
type options struct {
	// Where: one of the APIs.
	gatewayAddr, cloudAddr, cloudToken, cloudFile, plane, workspace string
	meshAddr, caFile, tokenFile                                     string
	headers                                                         []string
	parallel                                                        int
	// What.
	tags                        tagList
	skipConsumers, tokens       bool
	mesh                        string
	output, format              string
	withID, yes, json, silent   bool
	nonZero, dryRun, withoutAsk bool
}

// connection adds the flags that every command has. Help texts leave out those that few need.
func (o *options) connection(f *pflag.FlagSet) {
	f.StringVar(&o.caFile, "ca-cert-file", "", "`file` ca.pem of the control plane, for an https:// address")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the token, if the address wants one")
	f.StringArrayVar(&o.headers, "headers", nil, "name:value of a header for every request; may be given more than once")
	f.IntVar(&o.parallel, "parallelism", 10, "how many requests are made at the same time")
}

// toGateway adds the flags that say which gateway.
func (o *options) toGateway(f *pflag.FlagSet) {
	f.StringVar(&o.gatewayAddr, flagGatewayAddr, gatewayAddr, "`URL` of the admin API")
	f.StringVarP(&o.workspace, flagWorkspace, "w", "", "`name` of the workspace: there is only default")
	f.StringVar(&o.cloudAddr, flagCloudAddr, cloudAddr, "`URL` of the cloud API")
	f.StringVar(&o.cloudToken, flagCloudToken, "", "personal access `token`; not seen by others in a file")
	f.StringVar(&o.cloudFile, flagCloudFile, "", "`file` with the personal access token")
	f.StringVar(&o.plane, flagPlane, "", "`name` of a control plane of the cloud API; else default")
	o.connection(f)
}

// planned adds the flags of commands that show a plan.
func (o *options) planned(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json-output", false, "print the plan as JSON")
	f.BoolVar(&o.silent, "silence-events", false, "print only the summary")
}

// selected adds the flags that choose what a command is about.
func (o *options) selected(f *pflag.FlagSet) {
	f.Var(&o.tags, flagTags, "only what has this tag; more than one: all of them")
	f.BoolVar(&o.skipConsumers, flagSkip, false, "leave consumers alone, and all that belongs to one")
}

// asking adds the flags that answer questions beforehand.
func (o *options) asking(f *pflag.FlagSet) {
	f.BoolVar(&o.yes, "yes", false, "do not ask")
	f.BoolVarP(&o.withoutAsk, "force", "f", false, "the same")
}

// EnvName returns the environment variable of a flag.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that were not given and are in the environment.
func fromEnvironment(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		value, ok := os.LookupEnv(EnvName(f.Name))
		if f.Changed || !ok || f.Name == "help" || value == "" && f.Name != flagTags {
			return
		}
		if bad := f.Value.Set(value); bad != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", EnvName(f.Name), bad))
			return
		}
		if f.Annotations == nil {
			f.Annotations = map[string][]string{}
		}
		f.Annotations[EnvName(f.Name)] = nil
	})
	return err
}

// given reports whether a flag was given, on the command line or in the environment.
func given(c *cobra.Command, name string) bool {
	f := c.Flags().Lookup(name)
	if f == nil {
		return false
	}
	_, env := f.Annotations[EnvName(name)]
	return f.Changed || env
}

// header reads the flag --headers.
func (o *options) header() (http.Header, error) {
	h := http.Header{}
	for _, one := range o.headers {
		name, value, ok := strings.Cut(one, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return nil, errors.New("--headers: name:value is wanted") // the value may be a secret
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return h, nil
}

// waiting returns what tells people why nothing happens.
func waiting(c *cobra.Command) func(text string) {
	return func(text string) { _, _ = fmt.Fprintln(c.ErrOrStderr(), "meshgate:", text) }
}

// client returns a client for an address.
func (o *options) client(c *cobra.Command, address, flag string) (*client.Client, error) {
	header, err := o.header()
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{
		Address: address, CAFile: o.caFile, TokenFile: o.tokenFile, Header: header, Spelling: map[string]string{"--address": "--" + flag},
		Waiting: waiting(c),
	})
}

// confirm asks before something is lost. An end of the input is no.
func (o *options) confirm(c *cobra.Command, what string) error {
	if o.yes || o.withoutAsk {
		return nil
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "%s\nDo you want to continue? (yes/no) ", what)
	answer, _ := bufio.NewReader(c.InOrStdin()).ReadString('\n')
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("not done: --yes answers the question beforehand")
}

// Exit codes of the tool, which are those of others like it. Whatever is wrong is 1, so that 2
// says with certainty that there are differences.
const (
	exitFailed      = 1
	exitDifferences = 2
)

// coded returns an error with the exit code of the tool.
func coded(err error) error {
	if _, ok := errors.AsType[cli.CodedError](err); ok || err == nil {
		return err
	}
	return cli.CodedError{Code: exitFailed, Text: err.Error()}
}

// command completes a command: its flags may be in the environment, and whatever goes wrong
// has the exit code of the tool.
func command(c *cobra.Command, run func(c *cobra.Command, args []string) error) *cobra.Command {
	c.RunE = func(c *cobra.Command, args []string) error {
		err := fromEnvironment(c)
		if err == nil {
			err = caught(func() error { return run(c, args) })
		}
		return coded(interrupted(c.Context(), err))
	}
	return c
}

// caught returns a panic as an error: the exit code that the language gives it says that there
// are differences.
func caught(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("this is a mistake in the tool: %v\n%s", p, debug.Stack())
		}
	}()
	return do()
}

// interrupted says what has happened if the user ended a command.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

// progressEvery is how often a long run says how far it is.
const progressEvery = 3 * time.Second

// clock is what progress goes by. Tests replace it.
var clock = time.Now

// pacer returns what tells about progress on standard error.
func (o *options) pacer(c *cobra.Command, what string) *pacer {
	return newPacer(clock, progressEvery, func(done, all int) {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "meshgate: %d of %d %s\n", done, all, what)
	})
}

// reading returns what tells on standard error how much was read, of which nobody knows the end. It may be
// called at the same time.
func reading(c *cobra.Command, what string) func(more int) {
	var mu sync.Mutex
	read := 0
	p := newPacer(clock, progressEvery, func(done, _ int) {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "meshgate: %d %s are read so far\n", done, what)
	})
	return func(more int) {
		mu.Lock()
		defer mu.Unlock()
		read += more
		p.progress(read, read+1)
	}
}

// dumpFormat returns the format of the file to write.
func (o *options) dumpFormat() (string, error) {
	format := cmp.Or(o.format, asYAML)
	if format != asYAML && format != asJSON {
		return "", fmt.Errorf("--format %q is neither %s nor %s", o.format, asYAML, asJSON)
	}
	return format, nil
}
