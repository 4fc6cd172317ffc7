package relay

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/meshgate/meshgate/xds/resource"
)

// cacheMagic begins every cache file; the digit is the version of its layout.
const cacheMagic = "meshgate-xds-cache-1\n"

// maxCacheBytes bounds what is read back.
const maxCacheBytes = 512 << 20

// errForeign is a cache of another node.
var errForeign = errors.New("the cache belongs to another node")

// cached is one resource on disk.
type cached struct {
	Type    resource.TypeURL `json:"t"`
	Name    string           `json:"n"`
	Version string           `json:"v"`
	Body    []byte           `json:"b"`
}

// cacheFile is the content behind magic, length and SHA-256.
type cacheFile struct {
	Node      string   `json:"node"`
	Resources []cached `json:"resources"`
}

// saveCache writes the file beside its place, syncs and renames it: a crash
// leaves the old one. It holds private keys, hence the mode.
func saveCache(path, node string, rs []*resource.Resource) (err error) {
	f := cacheFile{Node: node, Resources: make([]cached, 0, len(rs))}
	for _, r := range rs {
		f.Resources = append(f.Resources, cached{Type: r.Type, Name: r.Name, Version: r.Version, Body: r.Body})
	}
	body, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode the cache: %w", err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".cache-*") // 0600
	if err != nil {
		return fmt.Errorf("create the cache: %w", err)
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	sum := sha256.Sum256(body)
	head := binary.BigEndian.AppendUint64([]byte(cacheMagic), uint64(len(body)))
	if _, err = tmp.Write(slices.Concat(head, sum[:], body)); err != nil {
		return fmt.Errorf("write the cache: %w", err)
	}
	if err = tmp.Sync(); err != nil {
		return fmt.Errorf("sync the cache: %w", err)
	}
	if err = tmp.Close(); err != nil {
		return fmt.Errorf("close the cache: %w", err)
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return fmt.Errorf("put the cache in place: %w", err)
	}
	return nil
}

// loadCache reads the file back; os.ErrNotExist if there is none.
func loadCache(path, node string) ([]*resource.Resource, error) {
	file, err := os.Open(path) //nolint:gosec // the path is the agent's own run directory
	if err != nil {
		return nil, fmt.Errorf("open the cache: %w", err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, maxCacheBytes))
	if err != nil {
		return nil, fmt.Errorf("read the cache: %w", err)
	}
	return parseCache(raw, node)
}

// parseCache checks everything before it believes anything.
func parseCache(raw []byte, node string) ([]*resource.Resource, error) {
	const head = len(cacheMagic) + 8 + sha256.Size
	if len(raw) < head || string(raw[:len(cacheMagic)]) != cacheMagic {
		return nil, errors.New("the file is not a cache")
	}
	body := raw[head:]
	sum := sha256.Sum256(body)
	if binary.BigEndian.Uint64(raw[len(cacheMagic):]) != uint64(len(body)) ||
		string(sum[:]) != string(raw[len(cacheMagic)+8:head]) {
		return nil, errors.New("the cache is damaged")
	}
	var f cacheFile
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("decode the cache: %w", err)
	}
	if f.Node != node {
		return nil, errForeign
	}
	out := make([]*resource.Resource, 0, len(f.Resources))
	for _, c := range f.Resources {
		if !slices.Contains(resource.Types[:], c.Type) {
			return nil, errors.New("the cache holds an unknown type")
		}
		out = append(out, resource.Received(c.Type, c.Name, c.Version, c.Body))
	}
	return out, nil
}
