package declare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/client"
	"github.com/meshgate/meshgate/controlplane/declarative"
)

// defaultName is the name of the workspace, and of the control plane, that is meant if none
// is named.
const defaultName = "default"

// keyCloud is the section of a file that names a control plane in the cloud.
const keyCloud = "_cloud"

// typeGroup is the cluster type of a group of control planes.
const typeGroup = "CLUSTER_TYPE_CONTROL_PLANE_GROUP"

// textNoWorkspace refuses a workspace that there is not.
const textNoWorkspace = "workspace '%s' does not exist: there is only '" + defaultName + "'"

// target is the gateway that a command is about.
type target struct {
	api *API
	// plane is the name of the control plane in the cloud; empty for a gateway of one's own.
	plane, id string
	group     bool
}

// cloud reports whether flags or a file choose a control plane in the cloud. A flag overrides
// the environment, which must not name both a gateway and a control plane.
func (o *options) cloud(c *cobra.Command, h declarative.Header) (bool, error) {
	chosen, byFlag, variable := h.Cloud, false, keyCloud+" in the file"
	for _, name := range []string{flagCloudAddr, flagCloudToken, flagCloudFile, flagPlane} {
		if given(c, name) && !h.Cloud {
			variable = EnvName(name)
		}
		chosen = chosen || given(c, name)
		byFlag = byFlag || c.Flags().Changed(name)
	}
	if !chosen || byFlag && !c.Flags().Changed(flagGatewayAddr) || !given(c, flagGatewayAddr) {
		return chosen, nil
	}
	if !c.Flags().Changed(flagGatewayAddr) {
		return false, fmt.Errorf("%s names a gateway of your own, and %s a control plane in the cloud: leave one of them out, or say with --gateway-addr or --cloud-... what is meant", EnvName(flagGatewayAddr), variable)
	}
	if byFlag || h.Cloud {
		return false, errors.New("--gateway-addr names a gateway of your own, and --cloud-... or the file a control plane in the cloud: leave one of them out")
	}
	return false, nil
}

// target finds the gateway that flags and files name. It calls the API only if it is in the
// cloud.
func (o *options) target(ctx context.Context, c *cobra.Command, h declarative.Header) (*target, error) {
	inCloud, err := o.cloud(c, h)
	if err != nil {
		return nil, err
	}
	if inCloud {
		return o.inCloud(ctx, c, h)
	}
	if o.workspace != "" && h.Workspace != "" && o.workspace != h.Workspace {
		return nil, fmt.Errorf("--workspace is '%s', and _workspace in the file is '%s'", o.workspace, h.Workspace)
	}
	if name := cmp.Or(o.workspace, h.Workspace, defaultName); name != defaultName {
		return nil, fmt.Errorf(textNoWorkspace, name)
	}
	api, err := o.client(c, o.gatewayAddr, flagGatewayAddr)
	if err != nil {
		return nil, err
	}
	return &target{api: &API{Client: api, Parallel: o.parallel, Waiting: waiting(c), Progress: reading(c, "entities")}}, nil
}

// inCloud finds a control plane in the cloud by its name.
func (o *options) inCloud(ctx context.Context, c *cobra.Command, h declarative.Header) (*target, error) {
	switch {
	case given(c, flagWorkspace):
		return nil, errors.New("--workspace flag is not supported when the target is a control plane in the cloud")
	case h.Workspace != "":
		return nil, errors.New(textWorkspaces)
	case o.plane != "" && h.ControlPlane != "" && o.plane != h.ControlPlane:
		return nil, fmt.Errorf("--cloud-control-plane-name is '%s', and control_plane_name in the file is '%s'", o.plane, h.ControlPlane)
	}
	api, err := o.cloudClient(c)
	if err != nil {
		return nil, err
	}
	t := &target{api: &API{Client: api, Parallel: o.parallel, Waiting: waiting(c), Progress: reading(c, "entities")}, plane: cmp.Or(o.plane, h.ControlPlane, defaultName)}
	return t, t.find(ctx)
}

// cloudClient returns a client of the cloud API with a personal access token.
func (o *options) cloudClient(c *cobra.Command) (*client.Client, error) {
	header, err := o.header()
	if err != nil {
		return nil, err
	}
	file := cmp.Or(o.cloudFile, o.tokenFile)
	if o.cloudToken != "" && o.cloudFile != "" {
		return nil, errors.New("--cloud-token and --cloud-token-file are both given: leave one of them out")
	}
	if o.cloudToken != "" {
		file = ""
	}
	if strings.ContainsFunc(o.cloudToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("--cloud-token holds more than a token")
	}
	return client.New(client.Options{
		Address: o.cloudAddr, CAFile: o.caFile, TokenFile: file, Token: o.cloudToken, Header: header,
		Spelling: map[string]string{
			"--address": "--" + flagCloudAddr, "--token-file": "--" + flagCloudFile,
			" (the control plane has it as admin.token or admin.tokenFile)":            "",
			"put the control plane's (admin.token or admin.tokenFile) there, or name ": "name ",
		},
		Waiting: waiting(c),
	})
}

// find looks the control plane up.
func (t *target) find(ctx context.Context) error {
	var answer struct {
		Data []struct {
			ID     string `json:"id"`
			Name   string `json:"name"`
			Config struct {
				Type string `json:"cluster_type"`
			} `json:"config"`
		} `json:"data"`
	}
	query := url.Values{"filter[name][eq]": {t.plane}}
	if err := t.api.call(ctx, http.MethodGet, "/v2/control-planes", query, nil, &answer); err != nil {
		return err
	}
	for _, one := range answer.Data {
		if one.Name == t.plane && one.ID != "" {
			t.id, t.group = one.ID, one.Config.Type == typeGroup
			t.api.Base = "/v2/control-planes/" + url.PathEscape(one.ID) + "/core-entities"
			return nil
		}
	}
	return fmt.Errorf("control plane not found: %s", t.plane)
}

// writable refuses a group, which compiles the configuration of its members. Source:
// requirement "Migration rules", 2.
func (t *target) writable() error {
	if !t.group {
		return nil
	}
	return fmt.Errorf("control plane '%s' is a group: configuration cannot be synced to a group (migration rule 2); sync to one of its members", t.plane)
}

// mostMembers bounds the members of a group that a refusal names.
const mostMembers = 100

// readable refuses to dump a group: it has no entities of its own, so the file would be empty, and
// whoever syncs it to another control plane would delete everything there.
func (t *target) readable(ctx context.Context) error {
	if !t.group {
		return nil
	}
	var answer struct {
		Data []struct {
			Name string `json:"name"`
		} `json:"data"`
	}
	above := *t.api
	above.Base = ""
	path := "/v2/control-planes/" + url.PathEscape(t.id) + "/group-memberships"
	if err := above.call(ctx, http.MethodGet, path, url.Values{"page[size]": {strconv.Itoa(mostMembers)}}, nil, &answer); err != nil {
		return err
	}
	names := make([]string, len(answer.Data))
	for i, one := range answer.Data {
		names[i] = "'" + client.Plain(one.Name) + "'"
	}
	instead := "it has none"
	if len(names) > 0 {
		instead = strings.Join(names, ", ")
	}
	return fmt.Errorf("control plane '%s' is a group and has no configuration of its own: the file would be empty, and syncing it would delete everything; dump its members: %s", t.plane, instead)
}

// exists reports whether a file exists.
func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
