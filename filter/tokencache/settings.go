package tokencache

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/fsnotify/fsnotify"

	"github.com/meshgate/meshgate/filter/contract"
)

// maxSettings bounds the settings file in bytes.
const maxSettings = 1 << 20

// settingsFile follows one file by watching its directory, because writers
// replace files by renaming, and mounted secrets by swapping a link.
type settingsFile struct {
	path    string
	last    []byte
	watcher *fsnotify.Watcher
}

// watchSettings starts to watch before it reads, so that no change is missed.
func watchSettings(path string) (*settingsFile, *contract.Settings, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, nil, fmt.Errorf("token cache: watch settings: %w", err)
	}
	f := &settingsFile{path: path, watcher: w}
	if err := w.Add(filepath.Dir(path)); err != nil {
		f.close()
		return nil, nil, fmt.Errorf("token cache: watch settings: %w", err)
	}
	s, err := f.read()
	if err != nil {
		f.close()
		return nil, nil, err
	}
	return f, s, nil
}

// close ends the watch; a nil file has none.
func (f *settingsFile) close() {
	if f != nil {
		_ = f.watcher.Close() // nothing is lost that was not read already
	}
}

// read returns the settings, or nil if the file has not changed since the last
// version that could be parsed.
func (f *settingsFile) read() (*contract.Settings, error) {
	data, err := readLimited(f.path, maxSettings)
	if err != nil {
		return nil, fmt.Errorf("token cache: settings: %w", err)
	}
	if f.last != nil && bytes.Equal(data, f.last) {
		return nil, nil
	}
	s, err := contract.ParseSettings(data)
	if err != nil {
		return nil, fmt.Errorf("token cache: settings %s: %w", f.path, err)
	}
	f.last = data
	return s, nil
}

// followSettings applies every new version of the file until the cache closes.
func (c *Cache) followSettings(f *settingsFile) {
	defer f.close()
	for {
		select {
		case <-c.ctx.Done():
			return
		case _, ok := <-f.watcher.Events:
			if !ok {
				return
			}
		case err, ok := <-f.watcher.Errors:
			if !ok {
				return
			}
			// Events may have been lost: read the file in any case.
			c.log.Warn("watching the settings reported an error", "error", err)
		}
		s, err := f.read()
		if err == nil && s != nil {
			if err = c.reconfigure(s); err != nil {
				f.last = nil // the next event tries again
			}
		}
		if err != nil {
			c.log.Error("changed settings are not used", "error", err)
		}
	}
}

// reconfigure puts new settings in force. What a control plane said that they
// no longer name is forgotten. One goroutine calls it at a time.
func (c *Cache) reconfigure(s *contract.Settings) error {
	if err := c.checkRedis(s); err != nil {
		return err
	}
	var to *remembered
	c.configuring.Lock()
	if !sameControlPlane(c.base.ControlPlane, s.ControlPlane) {
		// The link's reader needs the lock, and must not wait for the disk. A Welcome comes
		// before the move or behind it: amid, it would leave one half of what is remembered.
		c.configuring.Unlock()
		to = c.readRemembered(s)
		c.believing.Lock()
		defer c.believing.Unlock()
		c.configuring.Lock()
	}
	defer c.configuring.Unlock()
	if to != nil {
		return c.moveTo(s, to)
	}
	if err := c.apply(s, c.level2, c.standing.Load().trust); err != nil {
		return err
	}
	c.base = s
	c.logConfig()
	return nil
}

// remembered is what a control plane said to an earlier process.
type remembered struct {
	level2 *contract.Level2
	trust  *rememberedTrust
	// number is that of the newest wish when the reading began.
	number uint64
}

func (c *Cache) readRemembered(s *contract.Settings) *remembered {
	number := c.disk.newest()
	return &remembered{level2: c.recall(s), trust: c.recallTrust(s), number: number}
}

// moveTo turns to another control plane. Until that one has spoken, only what it
// said to an earlier process counts, unless a goodbye is taking that from the disk:
// then nobody would know that it is believed. believing and configuring are held.
func (c *Cache) moveTo(s *contract.Settings, to *remembered) error {
	if !c.disk.still(to.number) {
		to.trust = nil
	}
	former := c.standing.Load().trust
	c.amend(func(st *standing) { st.trust = contract.Trust{} })
	next := contract.Trust{}
	if to.trust != nil {
		next = to.trust.Trust
	}
	if err := c.apply(s, to.level2, next); err != nil {
		c.amend(func(st *standing) { st.trust = former })
		return err
	}
	c.base, c.level2 = s, to.level2
	_, scopes := c.recalled(to.trust)
	c.rescope(scopes)
	c.amend(func(st *standing) { st.trust = next })
	c.logConfig()
	return nil
}

// apply makes settings and what the link said the configuration. A changed bound
// empties L1; floors stay in any case. configuring is held.
func (c *Cache) apply(s *contract.Settings, told *contract.Level2, trust contract.Trust) error {
	last := c.config.Load()
	next, err := c.configure(effective(s, told), trust, last)
	if err != nil {
		return err
	}
	c.config.Store(next)
	if next.maxBytes != last.maxBytes {
		c.table.resize(next.maxBytes)
	}
	if !sameControlPlane(last.settings.ControlPlane, s.ControlPlane) {
		if session := c.session.Load(); session != nil {
			session.depart()
		}
		select {
		case c.changed <- struct{}{}:
		default: // the link's goroutine will look at the newest settings anyway
		}
	}
	if last.l2 != next.l2 {
		c.retireRedis(last.l2)
	}
	return nil
}

func (c *Cache) logConfig() {
	cfg := c.config.Load()
	c.log.Info("settings changed", "static", cfg.static(), "redis", cfg.settings.Redis != nil)
}

// names reports whether the settings name a control plane.
func (c *Cache) names(cp *contract.ControlPlaneSettings) bool {
	c.configuring.Lock()
	defer c.configuring.Unlock()
	return sameControlPlane(c.base.ControlPlane, cp)
}

func sameControlPlane(a, b *contract.ControlPlaneSettings) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
