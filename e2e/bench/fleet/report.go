package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// machine is where the figures come from.
type machine struct {
	Cores  int    `json:"cores"`
	CPU    string `json:"cpu"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Memory uint64 `json:"memory_mib"`
}

// report is the outcome of a run.
type report struct {
	Date     time.Time `json:"date"`
	Command  []string  `json:"command"`
	Plane    []string  `json:"control_plane"`
	Machine  machine   `json:"machine"`
	Workload workload  `json:"workload"`
	Rounds   int       `json:"rounds"`
	Quiet    float64   `json:"quiet_s"`
	// SetUp is how long writing the mesh and getting tokens took, in seconds.
	SetUp    float64 `json:"set_up_s"`
	SetUpCPU float64 `json:"set_up_cpu_s"`
	// Written is after the set-up, without clients; Connected is after the idle time.
	Written   memory   `json:"memory_written"`
	Connected memory   `json:"memory_connected"`
	End       memory   `json:"memory_end"`
	Results   []result `json:"scenarios"`
}

func thisMachine() machine {
	m := machine{Cores: runtime.NumCPU(), Go: runtime.Version()}
	var u syscall.Utsname
	if syscall.Uname(&u) == nil {
		var b strings.Builder
		for _, c := range u.Release {
			if c == 0 {
				break
			}
			b.WriteByte(byte(c))
		}
		m.Kernel = b.String()
	}
	var s syscall.Sysinfo_t
	if syscall.Sysinfo(&s) == nil {
		m.Memory = s.Totalram * uint64(s.Unit) >> 20
	}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			m.CPU = strings.TrimSpace(v)
			break
		}
	}
	return m
}

// perType shows the types that are not zero.
func perType(m map[string]int64) string {
	var parts []string
	for _, k := range shortTypes {
		if m[k] != 0 {
			parts = append(parts, fmt.Sprintf("%s %d", k, m[k]))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// idleCores is what the control plane uses while nothing happens, and whether it
// was measured.
func (r *report) idleCores() (float64, bool) {
	for _, s := range r.Results {
		if s.Name == "idle" && len(s.Rounds) > 0 {
			return s.Rounds[0].CPU / s.Rounds[0].Window, true
		}
	}
	return 0, false
}

// print writes the table for people.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n%s\n", r.Date.Format(time.RFC3339), strings.Join(r.Command, " "))
	fmt.Fprintf(w, "%d cores, %s, %d MiB, Linux %s, %s\n", r.Machine.Cores, r.Machine.CPU, r.Machine.Memory, r.Machine.Kernel, r.Machine.Go)
	fmt.Fprintf(w, "N=%d services=%d outbounds=%d transparent=%t; the clients share the cores with the control plane\n",
		r.Workload.N, r.Workload.Services, r.Workload.Outbounds, r.Workload.Transparent)
	fmt.Fprintf(w, "set-up %.1f s (%.1f CPU-s); RSS %.0f MiB before the clients, %.0f connected, %.0f at the end, %.0f at its peak\n",
		r.SetUp, r.SetUpCPU, r.Written.RSS, r.Connected.RSS, r.End.RSS, r.End.Peak)
	idle, known := r.idleCores()
	if known {
		fmt.Fprintf(w, "idle: %.4f cores\n", idle)
	}
	fmt.Fprintf(w, "Averages of the rounds. CPU is that of the control plane from before the change until %s without a message; \"idle in it\" is what idling for that long costs.\n\n", quiet)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "scenario\tok\tclients\tp50 ms\tp99 ms\tlast ms\tworst ms\tCPU s\tidle in it\twindow s\tharness s\tturned away\tmessages\tKiB\t")
	for i := range r.Results {
		r.line(t, &r.Results[i], idle)
	}
	_ = t.Flush()
	fmt.Fprintln(w)
	for i := range r.Results {
		s := &r.Results[i]
		if len(s.Rounds) > 0 {
			last := &s.Rounds[len(s.Rounds)-1]
			fmt.Fprintf(w, "%s: %s. Messages of the last round: %s; resources: %s; removed: %d\n", s.Name, s.What, perType(last.Messages), perType(last.Resources), last.Removed)
			if last.Turned.Times > 0 {
				fmt.Fprintf(w, "%s: %d times in the last round a client had to come back; the first was told: %s\n", s.Name, last.Turned.Times, last.Turned.First)
			}
		}
		if s.Failed != "" {
			fmt.Fprintf(w, "%s: FAILED: %s\n", s.Name, s.Failed)
		}
	}
}

func (r *report) line(w io.Writer, s *result, idle float64) {
	ok := fmt.Sprintf("%d", len(s.Rounds))
	if s.Failed != "" {
		ok = "FAILED"
	}
	if len(s.Rounds) == 0 {
		fmt.Fprintf(w, "%s\t%s\t\t\t\t\t\t\t\t\t\t\t\t\t\n", s.Name, ok)
		return
	}
	of := func(f func(*round) float64) float64 { return mean(s.Rounds, f) }
	last := func(x *round) float64 { return x.Last }
	window := of(func(x *round) float64 { return x.Window })
	fmt.Fprintf(w, "%s\t%s\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t%.3f\t%.3f\t%.1f\t%.2f\t%.0f\t%.0f\t%.0f\t\n", s.Name, ok, s.Rounds[0].Clients,
		of(func(x *round) float64 { return x.P50 }), of(func(x *round) float64 { return x.P99 }), of(last), worst(s.Rounds, last),
		of(func(x *round) float64 { return x.CPU }), idle*window, window, of(func(x *round) float64 { return x.HarnessCPU }),
		of(func(x *round) float64 { return float64(x.Turned.Times) }),
		of(func(x *round) float64 { return float64(total(x.Messages)) }), of(func(x *round) float64 { return float64(total(x.Bytes)) / 1024 }))
}
