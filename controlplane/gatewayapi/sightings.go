package gatewayapi

import (
	"encoding/json"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

// sighting is an address of a target and its state as one gateway sees it.
type sighting struct {
	Node   string `json:"node"`
	IP     string `json:"ip"`
	Port   int    `json:"port"`
	Weight int    `json:"weight"`
	Health string `json:"health"`
}

// sightings holds what gateways report about the targets of one upstream, by the address of
// the target. It is nil if no gateway has the upstream.
type sightings map[string][]sighting

// clusterStatuses holds the needed parts of Envoy's GET /clusters?format=json
// (envoy.admin.v3.Clusters).
type clusterStatuses struct {
	Clusters []struct {
		Name  string `json:"name"`
		Hosts []struct {
			Address struct {
				Socket struct {
					Address string `json:"address"`
					Port    int    `json:"port_value"`
				} `json:"socket_address"`
			} `json:"address"`
			Hostname string `json:"hostname"`
			Weight   int    `json:"weight"`
			Health   struct {
				Active  bool   `json:"failed_active_health_check"`
				Outlier bool   `json:"failed_outlier_check"`
				Pending bool   `json:"pending_active_hc"`
				Timeout bool   `json:"active_hc_timeout"`
				EDS     string `json:"eds_health_status"`
			} `json:"health_status"`
		} `json:"host_statuses"`
	} `json:"cluster_statuses"`
}

// read reads the hosts of the clusters of services from the answer of a gateway. A gateway whose
// answer cannot be read counts as away.
func (s *sightings) read(node string, text []byte, services map[string]bool) {
	var doc clusterStatuses
	if json.Unmarshal(text, &doc) != nil {
		return
	}
	for i := range doc.Clusters {
		c := &doc.Clusters[i]
		id, isService := strings.CutPrefix(c.Name, "service:")
		if id, _, _ = strings.Cut(id, ":"); !isService || !services[id] {
			continue
		}
		if *s == nil {
			*s = sightings{}
		}
		for j := range c.Hosts {
			h := &c.Hosts[j]
			one := sighting{Node: node, IP: h.Address.Socket.Address, Port: h.Address.Socket.Port, Weight: h.Weight, Health: healthy}
			if h.Health.Active || h.Health.Outlier || h.Health.Pending || h.Health.Timeout || h.Health.EDS != "" && h.Health.EDS != healthy {
				one.Health = unhealthy
			}
			s.add(one, one.IP)
			if name := nameOf(h.Hostname); name != "" && name != one.IP {
				s.add(one, name)
			}
		}
	}
}

// nameOf returns the name of a host. If requests get its name as their Host, the name
// includes a port.
func nameOf(hostname string) string {
	if name, _, err := net.SplitHostPort(hostname); err == nil {
		return name
	}
	return hostname
}

// add adds a host. If several clusters of a gateway contain it, the worst state counts.
func (s sightings) add(one sighting, host string) {
	target := gateway.UpstreamTarget{Target: net.JoinHostPort(host, strconv.Itoa(one.Port))}
	key := target.Address()
	for i := range s[key] {
		if old := &s[key][i]; old.Node == one.Node && old.IP == one.IP {
			if one.Health == unhealthy {
				old.Health = unhealthy
			}
			return
		}
	}
	s[key] = append(s[key], one)
}

// of returns the state of a target, which is the worst that a gateway sees, and what each
// gateway sees.
func (s sightings) of(t *gateway.UpstreamTarget) (health string, data map[string]any) {
	list := slices.Clone(s[t.Address()])
	slices.SortFunc(list, func(a, b sighting) int { return strings.Compare(a.Node+" "+a.IP, b.Node+" "+b.IP) })
	data = map[string]any{"addresses": append([]sighting{}, list...)}
	switch {
	case s == nil || t.Weight < 1:
		return healthOff, data
	case len(list) == 0 && t.Named():
		return healthName, data
	case len(list) == 0, slices.ContainsFunc(list, func(o sighting) bool { return o.Health == unhealthy }):
		return unhealthy, data
	}
	return healthy, data
}

// unchecked returns the state of a target whose upstream has no health checks. Nothing is
// known about it except whether its name can be resolved.
func (s sightings) unchecked(t *gateway.UpstreamTarget) (health string, data map[string]any) {
	data = map[string]any{"addresses": []sighting{}}
	if s != nil && t.Weight > 0 && t.Named() && len(s[t.Address()]) == 0 {
		return healthName, data
	}
	return healthOff, data
}
