package operator

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/nodes"
)

// wholeName finds the node that is meant by a name under which none is known: the only
// one whose name ends with it. Logs, hosts and people say gateway-1 where the name is
// cp/default/gateway-1. unknown is the error if none can be meant; it says which one may
// have been.
func wholeName(ctx context.Context, api *client.Client, short string, unknown error) (string, error) {
	list, err := client.Read[nodes.Node](ctx, api, "/nodes", url.Values{"size": {strconv.Itoa(nodesPage)}}, true)
	if err != nil {
		return "", unknown // that of the name says more
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

// lastPart is what a node is called without its control plane or mesh.
func lastPart(name string) string {
	if strings.HasPrefix(name, "cp/") {
		return name[strings.LastIndexByte(name, '/')+1:]
	}
	_, end, _ := strings.Cut(name, ".")
	return end
}
