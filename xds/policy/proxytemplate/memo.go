package proxytemplate

import (
	"runtime"
	"sync"
	"weak"
)

// compilations remembers what configurations come to, as long as these are in use: a modification
// is made on every resource of every proxy, and reading a template costs much more than that.
var compilations sync.Map // weak.Pointer[Conf] to *compilation

// compilation is what a Conf comes to. It is made once.
type compilation struct {
	once    sync.Once
	program *program
	err     error
}

// programOf returns what a configuration comes to. The error is for what was stored when other
// rules held.
func (c *Conf) programOf() (*program, error) {
	key := weak.Make(c)
	found, known := compilations.LoadOrStore(key, new(compilation))
	if !known {
		runtime.AddCleanup(c, func(key weak.Pointer[Conf]) { compilations.Delete(key) }, key)
	}
	made, _ := found.(*compilation)
	made.once.Do(func() { made.program, made.err = compile(c) })
	return made.program, made.err
}
