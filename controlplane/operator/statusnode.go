package operator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/inspect"
	"github.com/meshgate/meshgate/xds/machine"
)

// nodeConfiguration is the configuration that a node has, and the one that it should have.
type nodeConfiguration struct {
	// Proxy is the dump of its Envoy, or null if Envoy could not be asked.
	Proxy json.RawMessage `json:"proxy"`
	// ControlPlane is what the node was sent, and what became of it.
	ControlPlane json.RawMessage `json:"controlPlane"`
}

// showNode prints the configuration of one node. The error ends the program with its code.
func showNode(c *cobra.Command, f *apiFlags, name, output string, watch bool) error {
	if watch {
		return errors.New("--watch is for the list of all nodes: leave out the name, or the flag")
	}
	if err := checkOutput(output); err != nil {
		return err
	}
	api, err := f.open(c)
	if err != nil {
		return err
	}
	defer api.Close()
	n, name, err := ofNode(c.Context(), api, name, dump)
	if err != nil {
		return err
	}
	held, should, err := n.read()
	if err != nil {
		return fmt.Errorf("the answer cannot be read: %w", err)
	}
	if held.Source != "" { // the control plane answered in its place, and says why
		n.Proxy, should.Source = json.RawMessage("null"), held.Source
	}
	rows := compareNode(held, should)
	if output == asJSON {
		err = json.NewEncoder(c.OutOrStdout()).Encode(n)
	} else {
		err = printNode(c.OutOrStdout(), name, cmp.Or(held.Source, "the proxy itself and the control plane"), rows)
	}
	return errors.Join(err, verdictOfNode(held, rows))
}

// dump asks for the configuration that a node has, and for the one that it should have.
func dump(ctx context.Context, api *client.Client, name string) (n nodeConfiguration, err error) {
	path := "/nodes/" + url.PathEscape(name) + "/xds"
	if err := api.Get(ctx, path, url.Values{"source": {inspect.FromProxy}}, &n.Proxy); err != nil {
		return n, err
	}
	return n, api.Get(ctx, path, url.Values{"source": {inspect.FromControlPlane}}, &n.ControlPlane)
}

// sentConfiguration is a record of the control plane. It is also used to read the source of
// a dump; a dump of Envoy has none.
type sentConfiguration struct {
	Source  string `json:"source"`
	Configs []struct {
		Type      string `json:"type"`
		Resources []struct {
			Name, Version, State, Error string
			Config                      json.RawMessage
		}
	} `json:"configs"`
}

// heldConfiguration is what Envoy reports to have.
type heldConfiguration struct {
	Source  string       `json:"source"`
	Configs []heldByType `json:"configs"`
}

// heldByType has the members of all types. Static resources, which Envoy has from its start,
// are left out.
type heldByType struct {
	ActiveClusters  []heldCluster  `json:"dynamic_active_clusters"`
	WarmingClusters []heldCluster  `json:"dynamic_warming_clusters"`
	Listeners       []heldListener `json:"dynamic_listeners"`
	Routes          []struct {
		Version string                `json:"version_info"`
		Config  struct{ Name string } `json:"route_config"`
	} `json:"dynamic_route_configs"`
	Endpoints []struct {
		Config struct {
			Name string `json:"cluster_name"`
		} `json:"endpoint_config"`
	} `json:"dynamic_endpoint_configs"`
	Secrets []struct{ Name string } `json:"dynamic_active_secrets"`
}

type heldCluster struct {
	Version string                `json:"version_info"`
	Cluster struct{ Name string } `json:"cluster"`
}

type heldListener struct {
	Name    string
	Active  *heldState `json:"active_state"`
	Warming *heldState `json:"warming_state"`
}

type heldState struct {
	Version string          `json:"version_info"`
	Config  json.RawMessage `json:"listener"`
}

func (c nodeConfiguration) read() (held heldConfiguration, should sentConfiguration, err error) {
	return held, should, errors.Join(json.Unmarshal(c.Proxy, &held), json.Unmarshal(c.ControlPlane, &should))
}

// What Envoy reports about a resource that it was sent.
const (
	heldSame    = "same"
	heldDiffers = "differs"
	heldWarming = "warming"
	heldAbsent  = "absent"
	// heldPartly means that the agent has left out endpoints that lead to places on its
	// machine where nothing may connect.
	heldPartly = "partly"
	// heldExtra means that Envoy has a resource that it should not have. This happens for a
	// moment after a change.
	heldExtra = "extra"
	// heldThere means that Envoy has the resource but does not report its version.
	heldThere = "held"
)

// found is what Envoy has under a name.
type found struct {
	active, warming string
	// listener is the active one.
	listener json.RawMessage
}

// Types of resources. Envoy reports the versions of some of them; see versioned.
const (
	typeCluster  = "Cluster"
	typeListener = "Listener"
	typeRoute    = "RouteConfiguration"
	typeEndpoint = "ClusterLoadAssignment"
	typeSecret   = "Secret"
)

// index returns what Envoy has, by type and name.
func (h heldConfiguration) index() map[[2]string]found {
	out := map[[2]string]found{}
	for _, c := range h.Configs {
		for _, x := range c.WarmingClusters {
			out[[2]string{typeCluster, x.Cluster.Name}] = found{warming: x.Version}
		}
		for _, x := range c.ActiveClusters {
			key := [2]string{typeCluster, x.Cluster.Name}
			out[key] = found{active: x.Version, warming: out[key].warming}
		}
		for _, x := range c.Listeners {
			var f found
			if x.Active != nil {
				f.active, f.listener = x.Active.Version, x.Active.Config
			}
			if x.Warming != nil {
				f.warming = x.Warming.Version
			}
			if x.Active != nil || x.Warming != nil { // otherwise it is being drained, or was refused
				out[[2]string{typeListener, x.Name}] = f
			}
		}
		for _, x := range c.Routes {
			out[[2]string{typeRoute, x.Config.Name}] = found{active: x.Version}
		}
		for _, x := range c.Endpoints {
			out[[2]string{typeEndpoint, x.Config.Name}] = found{}
		}
		for _, x := range c.Secrets {
			out[[2]string{typeSecret, x.Name}] = found{}
		}
	}
	return out
}

// nodeRow is the row of one resource.
type nodeRow struct{ typ, name, version, held, state, err string }

// compareNode lists the resources that a node should have and those that it has.
func compareNode(held heldConfiguration, should sentConfiguration) (rows []nodeRow) {
	index, asked := held.index(), held.Source == ""
	for _, c := range should.Configs {
		typ := c.Type[strings.LastIndexByte(c.Type, '.')+1:]
		for _, x := range c.Resources {
			row := nodeRow{typ: typ, name: x.Name, version: x.Version, state: x.State, err: x.Error}
			if key := [2]string{typ, x.Name}; asked {
				f, there := index[key]
				row.held = f.against(typ, x.Version, there, x.Config)
				delete(index, key)
			}
			rows = append(rows, row)
		}
	}
	for key, f := range index {
		if versioned(key[0]) && asked {
			rows = append(rows, nodeRow{typ: key[0], name: key[1], version: f.active, held: heldExtra})
		}
	}
	slices.SortStableFunc(rows, func(a, b nodeRow) int { return cmp.Or(cmp.Compare(a.typ, b.typ), cmp.Compare(a.name, b.name)) })
	return rows
}

// versioned reports whether Envoy reports the versions of a type.
func versioned(typ string) bool { return typ == typeCluster || typ == typeListener || typ == typeRoute }

// against compares a resource with the one that should be there. For listeners the content
// counts too, because Envoy changes their filter chains without changing the version that it
// shows.
func (f found) against(typ, version string, there bool, config json.RawMessage) string {
	switch {
	case !there:
		return heldAbsent
	case !versioned(typ):
		return heldThere
	case f.active == version:
		return heldSame
	case f.active == version+machine.Partly:
		return heldPartly
	case f.warming == version:
		return heldWarming
	case typ == typeListener && equal(f.listener, config):
		return heldSame
	}
	return heldDiffers
}

// equal reports whether two resources in the JSON form of Any are the same. It ignores the
// spelling, and the files on the proxy's machine that its agent has put in. A resource that
// cannot be read equals no other.
func equal(a, b json.RawMessage) bool {
	x, y := new(anypb.Any), new(anypb.Any)
	return protojson.Unmarshal(a, x) == nil && protojson.Unmarshal(b, y) == nil && machine.Alike(x, y)
}

// shortVersion is the number of characters of a version that a table shows.
const shortVersion = 12

func printNode(out io.Writer, name, source string, rows []nodeRow) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "TYPE\tNAME\tVERSION\tENVOY\tSTATE\tERROR")
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.state]++
		counts[r.held]++
		cells := []string{r.typ, r.name, r.version[:min(len(r.version), shortVersion)], r.held, r.state, r.err}
		for i := range cells {
			cells[i] = cmp.Or(client.Plain(cells[i]), "-")
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	partly := ""
	if n := counts[heldPartly]; n > 0 {
		partly = fmt.Sprintf("%d lack endpoints, ", n)
	}
	_, err := fmt.Fprintf(out, "%s: %d resources: %d acknowledged, %d sent and not answered, %d rejected; in Envoy %d differ, %s%d are absent, %d extra\nsaid by %s\n",
		client.Plain(name), len(rows), counts[inspect.Acknowledged], counts[inspect.Sent], counts[inspect.Rejected],
		counts[heldDiffers]+counts[heldWarming], partly, counts[heldAbsent], counts[heldExtra], client.Plain(source))
	return err
}

// verdictOfNode returns the error that ends the program with the exit code for a node. The
// code is 0 only if the node was asked and has what it should have.
func verdictOfNode(held heldConfiguration, rows []nodeRow) error {
	even := held.Source == ""
	for _, r := range rows {
		missing := versioned(r.typ) && r.held != heldSame
		even = even && !missing && r.state == inspect.Acknowledged
	}
	if !even {
		return cli.CodedError{Code: ExitUneven}
	}
	return nil
}
