// Command meshgate is the whole system in one binary: the control plane, the
// supervisor of an Envoy, and a demonstration of both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/declare"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/operator"
	"github.com/meshgate/meshgate/controlplane/transparent"
	"github.com/meshgate/meshgate/controlplane/version"
	"github.com/meshgate/meshgate/xds/policy/all"
)

const rootHelp = `OAuth 2.0 gateway and service mesh on one Envoy fleet. Exit codes: 0 well, 1 failed, 2 not begun.`

// begun marks a root command after its arguments were understood.
const begun = "begun"

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "meshgate",
		Short:         "An OAuth 2.0 gateway and a service mesh on one Envoy fleet",
		Long:          rootHelp,
		Example:       "  meshgate demo",
		Version:       version.Program, // makes the flag --version, which prints the same as the command
		SilenceUsage:  true,
		SilenceErrors: true,
		// It runs after arguments and flags were understood, and before anything else.
		PersistentPreRun: func(c *cobra.Command, _ []string) { c.Root().Annotations = map[string]string{begun: ""} },
	}
	root.SetFlagErrorFunc(cli.BadFlag)
	cli.BriefHelp(root)
	root.SetVersionTemplate(version.Line())
	root.InitDefaultHelpFlag()
	root.Flags().Lookup("help").Hidden = true // the last line of the help names it
	root.AddCommand(runCommand(), standaloneCommand(), demoCommand(), dataplaneCommand(), authzCommand(), transparent.Command(), operator.StatusCommand(), declare.GatewayCommand(), declare.MeshCommand(slices.Concat(mesh.Kinds(), all.Kinds())), backupCommand(), restoreCommand(), operator.ChangesCommand(), operator.ExplainCommand(), operator.KeysCommand(), operator.TokenCommand(), cli.ConfigCommand(), cli.VersionCommand())
	return root
}

func main() {
	root := rootCommand()
	ctx, stop := untilSignal(context.Background())
	err := root.ExecuteContext(ctx)
	stop()
	if err == nil {
		select {
		case <-aborted(ctx):
			os.Exit(cli.ExitFailed)
		default:
			return
		}
	}
	code, text := verdict(root, err)
	if text != "" {
		fmt.Fprintln(os.Stderr, "meshgate:", text)
	}
	os.Exit(code)
}

// verdict returns the exit code for an error, and the text to print.
func verdict(root *cobra.Command, err error) (code int, text string) {
	if leftUnread(err) {
		return cli.ExitFailed, ""
	}
	if coded, ok := errors.AsType[cli.CodedError](err); ok {
		return coded.Code, coded.Text
	}
	_, understood := root.Annotations[begun]
	if !fault.Begun(err) || !understood {
		return cli.ExitNotBegun, strings.Join(strings.Fields(err.Error()), " ")
	}
	return cli.ExitFailed, err.Error()
}

// leftUnread reports whether the reader of standard output went away, as head does. Nobody
// needs to be told about that.
func leftUnread(err error) bool {
	write, ok := errors.AsType[*fs.PathError](err)
	return ok && write.Path == os.Stdout.Name() && errors.Is(write, syscall.EPIPE)
}

// abortTime is the time for killing children after a second signal.
const abortTime = 2 * time.Second

type abortKey struct{}

// aborted returns a channel that is closed at the second signal. After that, nothing may be
// waited for.
func aborted(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(abortKey{}).(chan struct{})
	return c
}

// untilSignal returns a context that ends at the first SIGTERM, SIGINT or SIGHUP, after which
// the program drains. A second signal ends the process at once. SIGHUP never counts as the
// second one, because a terminal that closes may send it twice: from the kernel and from the
// shell.
func untilSignal(parent context.Context) (context.Context, func()) {
	abort := make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithValue(parent, abortKey{}, abort))
	ends, hangups, pipes := make(chan os.Signal, 2), make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) { // with nohup, the program must outlive its terminal
		signal.Notify(hangups, syscall.SIGHUP)
	}
	// If nobody reads the log any more, as after the end of a terminal, the next line would
	// otherwise end the program and leave Envoys behind.
	signal.Notify(pipes, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		select {
		case <-ends:
		case <-hangups:
		case <-done:
			return
		}
		cancel()
		select {
		case <-ends:
			close(abort)
		case <-done:
			return
		}
		select {
		case <-time.After(abortTime):
			os.Exit(cli.ExitFailed)
		case <-done:
		}
	}()
	return ctx, func() {
		// pipes stays, because nobody may read the last line of the log.
		signal.Stop(ends)
		signal.Stop(hangups)
		close(done)
		cancel()
	}
}
