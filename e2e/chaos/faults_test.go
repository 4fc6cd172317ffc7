package chaos_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"syscall"

	"github.com/meshgate/meshgate/e2e/framework"
)

// fault is something bad that begins and ends.
type fault struct {
	name string
	// part is what it hurts: two faults of one part are no pair.
	part string
	// make chooses a victim and returns what hurts it and what ends that.
	make func(w *world, rng *rand.Rand) (begin, heal func())
}

const goOn = syscall.SIGCONT

// signalEnvoy sends a signal to the Envoy of a proxy, if there is one.
func signalEnvoy(p *proxy, s syscall.Signal) {
	if pid := framework.RunningEnvoy(p.stateDir); pid != 0 && framework.Alive(pid) {
		_ = syscall.Kill(pid, s)
	}
}

// frozenEnvoy stops an Envoy. Its supervisor may have replaced it when the fault
// ends, so it is remembered.
func frozenEnvoy(w *world, rng *rand.Rand) (begin, heal func()) {
	p, pid := w.victim(rng), 0
	return func() {
			pid = framework.RunningEnvoy(p.stateDir)
			signalEnvoy(p, syscall.SIGSTOP)
		}, func() {
			if pid != 0 && framework.Alive(pid) {
				_ = syscall.Kill(pid, goOn)
			}
		}
}

// victim is a random proxy.
func (w *world) victim(rng *rand.Rand) *proxy { return w.proxies[rng.IntN(len(w.proxies))] }

// faults are all single ones.
func faults() []fault {
	all := append(processFaults(), redisFaults()...)
	proxyLink := func(w *world, rng *rand.Rand) []*wire { return []*wire{w.victim(rng).link} }
	all = append(all, wireFaults("a proxy's link", "link", proxyLink)...)
	all = append(all, wireFaults("the control plane's way to Redis", "cpRedis", func(w *world, _ *rand.Rand) []*wire { return []*wire{w.cpRedis} })...)
	all = append(all, wireFaults("the proxies' way to Redis", "proxyRedis", func(w *world, _ *rand.Rand) []*wire { return []*wire{w.proxyRedis} })...)
	return append(all, wireFault("all links frozen", "link", freeze, func(w *world, _ *rand.Rand) (links []*wire) {
		for _, p := range w.proxies {
			links = append(links, p.link)
		}
		return links
	}))
}

func wireFaults(what, part string, which func(*world, *rand.Rand) []*wire) []fault {
	all := []fault{{what + " reset once", part, func(w *world, rng *rand.Rand) (begin, heal func()) {
		wires := which(w, rng)
		return func() {
			for _, wire := range wires {
				wire.cut()
			}
		}, func() {}
	}}}
	for _, m := range []struct {
		name string
		mode mode
	}{{"frozen", freeze}, {"frozen upwards", freezeUp}, {"frozen downwards", freezeDown}, {"refused", refuse}, {"slow", slow}, {"a black hole", blackhole}} {
		all = append(all, wireFault(what+" "+m.name, part, m.mode, which))
	}
	return all
}

func wireFault(name, part string, m mode, which func(*world, *rand.Rand) []*wire) fault {
	return fault{name, part, func(w *world, rng *rand.Rand) (begin, heal func()) {
		wires := which(w, rng)
		set := func(m mode) func() {
			return func() {
				for _, wire := range wires {
					wire.set(m)
				}
			}
		}
		return set(m), set(pass)
	}}
}

func processFaults() []fault {
	cp := func(begin, heal func(w *world)) func(*world, *rand.Rand) (func(), func()) {
		return func(w *world, _ *rand.Rand) (func(), func()) { return func() { begin(w) }, func() { heal(w) } }
	}
	one := func(begin, heal func(p *proxy)) func(*world, *rand.Rand) (func(), func()) {
		return func(w *world, rng *rand.Rand) (func(), func()) {
			p := w.victim(rng)
			return func() { begin(p) }, func() { heal(p) }
		}
	}
	return []fault{
		{"control plane killed", "cp", cp(func(w *world) { w.cp.Kill() }, func(w *world) { w.cp.Launch() })},
		{"control plane stopped", "cp", cp(func(w *world) { w.cp.Stop() }, func(w *world) { w.cp.Launch() })},
		{"control plane frozen", "cp", cp(func(w *world) { w.cp.Signal(syscall.SIGSTOP) }, func(w *world) { w.cp.Signal(goOn) })},
		{"an Envoy killed", "envoy", one(func(p *proxy) { signalEnvoy(p, syscall.SIGKILL) }, func(*proxy) {})},
		{"an Envoy frozen", "envoy", frozenEnvoy},
		{"an agent killed", "agent", one(func(p *proxy) { p.agent().Kill() }, func(p *proxy) { p.launch() })},
		{"an agent stopped", "agent", one(func(p *proxy) { p.agent().Stop() }, func(p *proxy) { p.launch() })},
		{"an agent frozen", "agent", one(func(p *proxy) { p.agent().Signal(syscall.SIGSTOP) }, func(p *proxy) { p.agent().Signal(goOn) })},
	}
}

func redisFaults() []fault {
	simple := func(name string, begin, heal func(r *framework.Redis)) fault {
		return fault{name, "redis", func(w *world, _ *rand.Rand) (func(), func()) {
			return func() { begin(w.redis) }, func() { heal(w.redis) }
		}}
	}
	// kept restarts Redis with what it held: when it died, or long before.
	kept := func(name string, die bool) fault {
		return fault{name, "redis", func(w *world, _ *rand.Rand) (func(), func()) {
			var snapshot []byte
			return func() {
					if snapshot = w.redis.Save(); die {
						w.redis.Kill()
					}
				}, func() {
					w.redis.Kill()
					w.redis.RestartFrom(snapshot)
				}
		}}
	}
	commands := func(lines ...string) func(*framework.Redis) {
		return func(r *framework.Redis) {
			for _, line := range lines {
				r.CLI(strings.Fields(line)...)
			}
		}
	}
	nothing := func(*framework.Redis) {}
	unbounded := commands("CONFIG SET maxmemory 0", "CONFIG SET maxmemory-policy noeviction")
	return []fault{
		simple("Redis killed, empty afterwards", (*framework.Redis).Kill, (*framework.Redis).Restart),
		kept("Redis killed, as it was afterwards", true),
		kept("Redis goes back", false),
		simple("Redis frozen", (*framework.Redis).Pause, (*framework.Redis).Resume),
		simple("Redis asleep", commands("DEBUG SLEEP 1.5"), nothing),
		simple("Redis emptied", commands("FLUSHALL"), nothing),
		simple("Redis drops its clients", commands("CLIENT KILL TYPE normal"), nothing),
		simple("Redis evicts", evict, unbounded),
		simple("Redis full", commands("CONFIG SET maxmemory 1mb"), unbounded),
		simple("Redis a replica", commands("REPLICAOF 127.0.0.1 1"), commands("REPLICAOF NO ONE")),
	}
}

// evict makes Redis forget half of what it holds, and go on so.
func evict(r *framework.Redis) {
	figure := func(name string) int {
		for line := range strings.Lines(r.CLI("INFO", "memory")) {
			if value, ok := strings.CutPrefix(line, name+":"); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(value))
				return n
			}
		}
		return 0
	}
	r.CLI("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	r.CLI("CONFIG", "SET", "maxmemory", strconv.Itoa(figure("used_memory")-figure("used_memory_dataset")/2))
}
