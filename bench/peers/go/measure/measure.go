// Package measure tells what this process has used so far, and prints what a
// run measured.
package measure

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Metrics are what a run measured, by the names of metrics.
type Metrics map[string]float64

// Print writes the metrics as the one line of JSON that a run ends with.
func (m Metrics) Print() {
	if err := json.NewEncoder(os.Stdout).Encode(m); err != nil {
		Fail(err)
	}
}

// Fail ends the process, telling why.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

// Stopwatch measures from its start on.
type Stopwatch struct {
	cpu   float64
	start time.Time
}

// Start begins to measure.
func Start() Stopwatch {
	return Stopwatch{cpu: CPUSeconds(), start: time.Now()}
}

// Stop gives the seconds since the start, of this process's CPU time and on
// the wall.
func (s Stopwatch) Stop() (cpu, wall float64) {
	wall = time.Since(s.start).Seconds()
	return CPUSeconds() - s.cpu, wall
}

// CPUSeconds is the CPU time of all threads, in user and kernel mode.
func CPUSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

// LiveBytes is how much the heap holds after its garbage was collected. Twice,
// because what is in a sync.Pool outlives the first time.
func LiveBytes() float64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc)
}

// SettledMiB is the memory of the process after the garbage was collected and
// its pages given back.
func SettledMiB() float64 {
	debug.FreeOSMemory()
	return StatusMiB("VmRSS")
}

// StatusMiB is a field of /proc/self/status that is in KiB, in MiB.
func StatusMiB(field string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				panic(err)
			}
			return kib / 1024
		}
	}
	panic("no " + field + " in /proc/self/status")
}
