package tokencache

import (
	"encoding/json"
	"errors"
	"os"
	"slices"

	"github.com/meshgate/meshgate/filter/contract"
)

// level2File holds what the control plane last said about the second level, so that a filter
// that starts while the control plane is away can read Redis.
const level2File = contract.Level2File

// rememberedLevel2 is the content of that file. It is not used if another control plane said
// it, or if it was said to another node.
type rememberedLevel2 struct {
	Address string          `json:"address"`
	Node    string          `json:"node"`
	Level2  contract.Level2 `json:"level2"`
}

// effective applies what the control plane said on top of the settings.
func effective(s *contract.Settings, l *contract.Level2) *contract.Settings {
	if l == nil || s.ControlPlane == nil {
		return s
	}
	out := *s
	out.RecordKeys = slices.Concat(s.RecordKeys, l.Keys)
	if l.Redis != nil {
		out.Redis = l.Redis
	}
	return &out
}

// recall reads what an earlier process was told. It returns nil if there is nothing usable.
func (c *Cache) recall(s *contract.Settings) *contract.Level2 {
	if c.disk.files == nil || s.ControlPlane == nil {
		return nil
	}
	data, err := c.disk.files.read(level2File)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var r rememberedLevel2
	if err == nil {
		err = contract.DecodeJSON(data, &r)
	}
	if err == nil {
		err = r.Level2.Check()
	}
	if err != nil {
		c.log.Warn("what the control plane said about the second level is forgotten", "error", err)
		return nil
	}
	if r.Address != s.ControlPlane.Address || r.Node != s.ControlPlane.Node {
		return nil
	}
	return &r.Level2
}

// told puts into force what the control plane says about the second level.
func (c *Cache) told(cp *contract.ControlPlaneSettings, l *contract.Level2) {
	if err := l.Check(); err != nil {
		c.log.Error("what the control plane says about the second level is not used", "error", err)
		return
	}
	c.configuring.Lock()
	defer c.configuring.Unlock()
	now := c.base.ControlPlane
	if now == nil || *now != *cp {
		return // the settings name another control plane by now
	}
	if err := c.apply(c.base, l, c.standing.Load().trust); err != nil {
		c.log.Error("what the control plane says about the second level is not used", "error", err)
		return
	}
	c.level2 = l
	c.logConfig()
	c.inUse.look()
	c.disk.keepLevel2(&rememberedLevel2{cp.Address, cp.Node, *l})
}

func writeLevel2(to files, r *rememberedLevel2) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return to.write(level2File, data)
}
