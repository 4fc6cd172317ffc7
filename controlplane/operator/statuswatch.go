package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/xds/alarm"
)

// statusPause is the pause after a control plane did not answer. statusWait is how long an
// answer may wait for a change, and nodesPage the number of nodes on a page.
const (
	statusPause = time.Second
	statusWait  = 25 * time.Second
	nodesPage   = 1000
)

// roster prints what is wrong and which nodes exist.
type roster struct {
	api   *client.Client
	print func(io.Writer, fleetStatus) error
	out   io.Writer
	// clear says that the output is a terminal, which is cleared before each output.
	clear bool
}

// news changes a status. mark is the value of the parameter since for the next question.
type news struct {
	apply func(*fleetStatus)
	mark  string
	err   error
}

// question is one of the questions whose answers make up a status. With a mark, the answer
// comes when the current mark is a different one, or when the time is up.
type question func(ctx context.Context, mark string) news

func (r *roster) questions() []question { return []question{r.conditions, r.nodes} }

func waiting(mark string) url.Values {
	query := url.Values{}
	if mark != "" {
		query.Set("since", mark)
		query.Set("wait", statusWait.String())
	}
	return query
}

func (r *roster) nodes(ctx context.Context, mark string) news {
	query := waiting(mark)
	query.Set("size", strconv.Itoa(nodesPage))
	list, err := client.Read[nodes.Node](ctx, r.api, "/nodes", query, true)
	return news{func(l *fleetStatus) { l.nodes = list.Items }, list.Mark, err}
}

func (r *roster) conditions(ctx context.Context, mark string) news {
	var list health.Report
	err := r.api.Get(ctx, "/conditions", waiting(mark), &list)
	return news{func(l *fleetStatus) { l.conditions = list }, list.Mark, err}
}

// once prints the current status.
func (r *roster) once(ctx context.Context) error {
	l, _, err := r.ask(ctx)
	if err != nil {
		return err
	}
	if err := r.show(ctx, l); err != nil {
		return err
	}
	return l.verdict()
}

// ask asks all questions and returns the marks of the answers.
func (r *roster) ask(ctx context.Context) (l fleetStatus, marks []string, err error) {
	for _, q := range r.questions() {
		n := q(ctx, "")
		if n.err != nil {
			return l, nil, n.err
		}
		n.apply(&l)
		marks = append(marks, n.mark)
	}
	return l, marks, nil
}

// watch prints the status whenever it has changed, until ctx ends.
func (r *roster) watch(ctx context.Context) error {
	l, marks, err := r.ask(ctx)
	if err != nil {
		return err
	}
	if err := r.show(ctx, l); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	told := make(chan news)
	var asking sync.WaitGroup
	for i, q := range r.questions() {
		asking.Go(func() { follow(ctx, q, marks[i], told) })
	}
	defer asking.Wait()
	defer cancel()
	said := ""
	for {
		select {
		case <-ctx.Done():
			return l.verdict()
		case n := <-told:
			if n.err != nil {
				// Both questions fail together and repeatedly. One line is enough.
				if text := n.err.Error(); text != said {
					said = text
					_, _ = fmt.Fprintln(r.out, "meshgate: it cannot be said how it is now, and is asked again:", text)
				}
				continue
			}
			said = ""
			n.apply(&l)
			if err := r.show(ctx, l); err != nil {
				return err
			}
		}
	}
}

// follow reports each answer with a new mark, each error, and the first answer after an
// error, until ctx ends. It pauses before the next question if an answer brings nothing new,
// because the server may not wait by itself.
func follow(ctx context.Context, ask question, mark string, told chan<- news) {
	for ctx.Err() == nil {
		n := ask(ctx, mark)
		if n.err == nil && n.mark == "" {
			n.err = errors.New("the answer says nothing by which one could wait for the next: this program and the control plane are of different versions")
		}
		news := n.err != nil || n.mark != mark
		if ctx.Err() != nil {
			return
		}
		if news {
			select {
			case told <- n:
			case <-ctx.Done():
				return
			}
		}
		if mark = n.mark; n.err != nil {
			mark = "" // another process may answer next
		}
		if n.err != nil || !news {
			_ = alarm.Rest(ctx, statusPause) // the loop checks ctx
		}
	}
}

// show prints a status, with what is known about policies at this moment.
func (r *roster) show(ctx context.Context, l fleetStatus) error {
	l.closed = r.refusing(ctx)
	if r.clear {
		_, _ = io.WriteString(r.out, "\x1b[H\x1b[2J")
	}
	return r.print(r.out, l)
}
