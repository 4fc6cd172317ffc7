package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// wholeName finds the node that an unknown name means: the only node whose name ends with
// it. For example, logs, hosts and people say gateway-1 for cp/default/gateway-1. unknown is
// the error to return if no node can be meant; wholeName adds which one may have been.
func wholeName(ctx context.Context, api *client.Client, short string, unknown error) (string, error) {
	list, err := client.Read[nodes.Node](ctx, api, "/nodes", url.Values{"size": {strconv.Itoa(nodesPage)}}, true)
	if err != nil {
		return "", unknown // the error about the name says more
	}
	var meant, known []string
	for i := range list.Items {
		name := list.Items[i].Name
		end := lastPart(name)
		if end == short {
			meant = append(meant, name)
		}
		known = append(known, name, end)
	}
	slices.Sort(meant)
	switch len(meant) {
	case 0:
		return "", fmt.Errorf("%w%s (`meshgate status` lists all)", unknown, fault.Meant(short, known))
	case 1:
		return meant[0], nil
	}
	return "", fmt.Errorf("%d nodes have a name that ends with %s: say which one of %s", len(meant), short, client.Plain(strings.Join(meant, ", ")))
}

// lastPart returns the name of a node without its control plane or mesh.
func lastPart(name string) string {
	if strings.HasPrefix(name, "cp/") {
		return name[strings.LastIndexByte(name, '/')+1:]
	}
	_, end, _ := strings.Cut(name, ".")
	return end
}

// ofNode asks about a node by its name or a short form of it, and returns the whole name.
func ofNode[T any](ctx context.Context, api *client.Client, name string, ask func(context.Context, *client.Client, string) (T, error)) (T, string, error) {
	out, err := ask(ctx, api, name)
	if r, refused := errors.AsType[*client.Refusal](err); refused && r.Status == http.StatusNotFound {
		if name, err = wholeName(ctx, api, name, err); err == nil {
			out, err = ask(ctx, api, name)
		}
	}
	return out, name, err
}
