package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
)

// Names of the workload.
const (
	meshName     = "fleet"
	otherMesh    = "elsewhere" // nobody connects to it
	backendName  = "root"
	tagService   = "mesh.io/service"
	tagProtocol  = "mesh.io/protocol"
	basePort     = 10000
	outboundPort = 20000
)

// workload is the shape of the mesh.
type workload struct {
	N           int  `json:"proxies"`
	Services    int  `json:"services"`
	Outbounds   int  `json:"outbounds"`
	Transparent bool `json:"transparent_proxying"`
	// Alike says that the instances of a service consume the same services, as instances of
	// one program do.
	Alike bool `json:"alike"`
}

type object = map[string]any

func (w workload) check() error {
	switch {
	case w.N < 1 || w.N > 60000:
		return fmt.Errorf("-n is %d; it must be between 1 and 60000", w.N)
	case w.Services < 3:
		return fmt.Errorf("-services is %d; it must be at least 3", w.Services)
	case !w.Transparent && (w.Outbounds < 1 || w.Outbounds > w.Services-1):
		return fmt.Errorf("-outbounds is %d; it must be between 1 and the number of services less one", w.Outbounds)
	}
	return nil
}

func service(i int) string { return fmt.Sprintf("svc-%d", i) }

func dataplaneName(i int) string { return fmt.Sprintf("dp-%d", i) }

// address is the loopback address of a proxy.
func address(i int) string { return fmt.Sprintf("127.%d.%d.%d", 1+i/62500, i/250%250, 1+i%250) }

// narrow is the service that few consume.
func (w workload) narrow() int { return w.Services - 1 }

// consumes lists the services of a proxy: the first for everybody, the narrow
// one for one proxy in a hundred, others in turn.
func (w workload) consumes(i int) []int {
	if w.Alike {
		i %= w.Services
	}
	out := []int{0}
	if i%100 == 0 && w.Outbounds > 1 {
		out = append(out, w.narrow())
	}
	for k := 0; len(out) < w.Outbounds; k++ {
		out = append(out, 1+(i+k)%(w.Services-2))
	}
	return out
}

// dataplane is the document of a proxy.
func (w workload) dataplane(mesh string, i, port int, svc string) object {
	networking := object{
		"address": address(i),
		"inbound": []object{{
			"port": port, "servicePort": 8080,
			"tags": object{tagService: svc, tagProtocol: "http"},
		}},
	}
	if w.Transparent {
		networking["transparentProxying"] = object{"redirectPortInbound": 15006, "redirectPortOutbound": 15001}
	} else {
		var outbounds []object
		for k, s := range w.consumes(i) {
			outbounds = append(outbounds, object{"port": outboundPort + k, "tags": object{tagService: service(s)}})
		}
		networking["outbound"] = outbounds
	}
	return object{"type": "Dataplane", "mesh": mesh, "name": dataplaneName(i), "networking": networking}
}

func meshDocument(name string) object {
	return object{
		"type": "Mesh", "name": name,
		"mtls": object{
			"enabledBackend": backendName,
			"backends":       []object{{"name": backendName, "type": "builtin", "mode": "STRICT"}},
		},
		"logging": object{"backends": []object{{"name": "log", "type": "file", "conf": object{"path": "bench.log"}}}},
		"tracing": object{"backends": []object{{"name": "trace", "type": "zipkin", "conf": object{"url": "http://127.0.0.1:9411/api/v2/spans"}}}},
	}
}

// selector is sources or destinations with one service.
func selector(svc string) []object { return []object{{"match": object{tagService: svc}}} }

func circuitBreaker(name, destination string, connections uint64) object {
	return object{
		"type": "CircuitBreaker", "mesh": meshName, "name": name, "sources": selector("*"), "destinations": selector(destination),
		"conf": object{"thresholds": object{"maxConnections": connections}},
	}
}

// putDataplane writes a proxy of the mesh.
func (b *bench) putDataplane(ctx context.Context, mesh string, i, port int, svc string) error {
	_, err := b.plane.call(ctx, http.MethodPut, "/meshes/"+mesh+"/dataplanes/"+dataplaneName(i), b.work.dataplane(mesh, i, port, svc))
	return err
}

// setUp creates the meshes and proxies, and makes one client with a token for
// each. One proxy more serves what nobody consumes, and never connects.
func (b *bench) setUp(ctx context.Context) error {
	for _, m := range []string{meshName, otherMesh} {
		if _, err := b.plane.call(ctx, http.MethodPut, "/meshes/"+m, meshDocument(m)); err != nil {
			return err
		}
	}
	if err := b.install(ctx); err != nil {
		return err
	}
	if err := b.unrelated(ctx, basePort); err != nil {
		return err
	}
	b.fleet.clients = make([]*client, b.work.N)
	errs := make(chan error, b.work.N)
	limit := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for i := range b.work.N {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			c, err := b.enrol(ctx, i)
			if err != nil {
				errs <- err
			}
			b.fleet.clients[i] = c
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return fmt.Errorf("%d of %d proxies could not be set up, the first: %w", len(errs)+1, b.work.N, err)
	default:
		return nil
	}
}

func (b *bench) enrol(ctx context.Context, i int) (*client, error) {
	if err := b.putDataplane(ctx, meshName, i, basePort, service(i%b.work.Services)); err != nil {
		return nil, err
	}
	token, err := b.plane.call(ctx, http.MethodPost, "/tokens/dataplane", object{"mesh": meshName, "name": dataplaneName(i), "validFor": "24h"})
	if err != nil {
		return nil, err
	}
	return newClient(b.fleet, i, dataplaneName(i), string(token)), nil
}

// unrelated writes a proxy that concerns nobody. With transparent proxying
// everybody reaches every service of the mesh, so it is one of another mesh.
func (b *bench) unrelated(ctx context.Context, port int) error {
	mesh := meshName
	if b.work.Transparent {
		mesh = otherMesh
	}
	return b.putDataplane(ctx, mesh, b.work.N, port, "svc-lonely")
}
