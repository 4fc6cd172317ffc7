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
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/operator"
	"github.com/meshgate/meshgate/controlplane/version"
)

const rootHelp = `An OAuth 2.0 gateway and a service mesh on one Envoy fleet.

Exit codes: 0 if all went well; 1 if something failed; 2 if nothing was begun, because of
the arguments, the settings, or something that has to be there first. status: see there.`

// begun marks a root command whose arguments were understood.
const begun = "begun"

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "meshgate",
		Short:         "An OAuth 2.0 gateway and a service mesh on one Envoy fleet",
		Long:          rootHelp,
		Example:       "  meshgate demo",
		Version:       version.Program, // makes --version, which prints what the command does
		SilenceUsage:  true,
		SilenceErrors: true,
		// It is called when arguments and flags have been understood, before anything else.
		PersistentPreRun: func(c *cobra.Command, _ []string) { c.Root().Annotations = map[string]string{begun: ""} },
	}
	root.SetFlagErrorFunc(cli.BadFlag)
	cli.BriefHelp(root)
	root.SetVersionTemplate(version.Line())
	root.AddCommand(runCommand(), standaloneCommand(), demoCommand(), dataplaneCommand(), authzCommand(), operator.StatusCommand(), backupCommand(), restoreCommand(), operator.ChangesCommand(), operator.KeysCommand(), cli.ConfigCommand(), cli.VersionCommand())
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

// verdict is how the program ends because of an error, and what it says.
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

// leftUnread reports whether the reader of standard output went away, as head does when it
// has seen enough. There is nobody to whom that would be news.
func leftUnread(err error) bool {
	write, ok := errors.AsType[*fs.PathError](err)
	return ok && write.Path == os.Stdout.Name() && errors.Is(write, syscall.EPIPE)
}

// abortTime is what is left to kill children after a second signal.
const abortTime = 2 * time.Second

type abortKey struct{}

// aborted is closed at the second signal: nothing may be waited for any more.
func aborted(ctx context.Context) <-chan struct{} {
	c, _ := ctx.Value(abortKey{}).(chan struct{})
	return c
}

// untilSignal returns a context that ends at the first SIGTERM, SIGINT or SIGHUP,
// upon which the program drains. A second one ends the process at once. A terminal
// that closes may send SIGHUP more than once, from the kernel and from the shell, so
// that one never counts as the second.
func untilSignal(parent context.Context) (context.Context, func()) {
	abort := make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithValue(parent, abortKey{}, abort))
	ends, hangups, pipes := make(chan os.Signal, 2), make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	if !signal.Ignored(syscall.SIGHUP) { // nohup wants the program to outlive its terminal
		signal.Notify(hangups, syscall.SIGHUP)
	}
	// A log that nobody reads any more, as after the end of a terminal, would
	// otherwise end the program at its next line and leave Envoys behind.
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
		// That of pipes stays: the last line of the log can be one that nobody reads.
		signal.Stop(ends)
		signal.Stop(hangups)
		close(done)
		cancel()
	}
}
