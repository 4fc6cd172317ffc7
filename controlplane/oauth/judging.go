package oauth

import (
	"encoding/json"
	"sync"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/recall"
)

// judging returns a cache of what requests are judged by. Tokens and codes are not among it:
// most of them are read once.
func judging(s store.Store) *recall.Cache {
	return recall.New(s, gateway.Plugins, gateway.Applications, gateway.Services, gateway.Routes, gateway.SNIs)
}

// maxConfigurations bounds the configurations that are kept.
const maxConfigurations = 256

// configurations holds the decoded configurations of plugin instances. A resource that was
// read never changes, so its configuration does not either. Nobody may change one.
type configurations struct {
	mu   sync.Mutex
	kept map[*model.Resource]*gateway.OAuth2Config
}

// of returns the configuration of an oauth2 plugin instance.
func (c *configurations) of(plugin *model.Resource) (*gateway.OAuth2Config, error) {
	if cfg := c.get(plugin); cfg != nil {
		return cfg, nil
	}
	cfg := new(gateway.OAuth2Config)
	if err := json.Unmarshal(plugin.Spec.(*gateway.Plugin).Config, cfg); err != nil {
		return nil, err
	}
	c.keep(plugin, cfg)
	return cfg, nil
}

func (c *configurations) get(plugin *model.Resource) *gateway.OAuth2Config {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept[plugin]
}

func (c *configurations) keep(plugin *model.Resource, cfg *gateway.OAuth2Config) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxConfigurations {
		c.kept = map[*model.Resource]*gateway.OAuth2Config{}
	}
	c.kept[plugin] = cfg
}
