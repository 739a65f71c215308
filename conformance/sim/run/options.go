package main

import (
	"errors"
	"flag"
	"math/rand/v2"
	"runtime"
	"time"
)

// options are the flags.
type options struct {
	from         uint64
	n            int
	long         time.Duration
	jobs         int
	out, shm     string
	cpu, idle    time.Duration
	memory, disk int64
	seed         uint64
	plan, shrink string
	plans        string // a folder of plans to run; "": none
	planted      string // a defect; "": none
	repro        bool
	processes    bool
	times        int
	cover, need  bool
	sabotage     string // a pattern of names; "" is not to be done
	drawn        bool   // from was drawn
	operations   string // a folder; "": they are not wanted
	profile      string // the same
}

func flags() *options {
	var o options
	flag.Uint64Var(&o.from, "from", 0, "the first seed; 0 draws one, and prints it")
	flag.IntVar(&o.n, "n", 500, "how many seeds; 0 has no limit but -for")
	flag.DurationVar(&o.long, "for", 0, "for how long seeds are begun")
	flag.IntVar(&o.jobs, "jobs", runtime.GOMAXPROCS(0), "processes at a time")
	flag.StringVar(&o.out, "out", "bin/sim/out", "the folder that failures are described in")
	flag.StringVar(&o.shm, "shm", "/dev/shm", "a folder in memory for the data of the servers")
	flag.DurationVar(&o.cpu, "cpu", 10*time.Second, "processor time that a seed may take")
	flag.DurationVar(&o.idle, "idle", 30*time.Second, "time for which a seed may neither run nor wait for a processor")
	flag.Int64Var(&o.memory, "memory", 2<<30, "bytes of memory that a seed may take")
	flag.Int64Var(&o.disk, "disk", 512<<20, "bytes that the data of a seed's servers may take")
	flag.Uint64Var(&o.seed, "seed", 0, "run this seed only, and keep its trace and logs")
	flag.StringVar(&o.plan, "plan", "", "run this plan only, and keep its trace and logs")
	flag.StringVar(&o.shrink, "shrink", "", "make this plan, which fails, smaller")
	flag.StringVar(&o.plans, "plans", "", "run the plans in this folder, and want each to fail with its defects")
	flag.StringVar(&o.planted, "planted", "", "plant this defect, whatever is run")
	flag.BoolVar(&o.processes, "processes", false, "start a process for each server, three at least, in real time")
	flag.BoolVar(&o.repro, "repro", false, "compare the hashes of a seed in different surroundings")
	flag.IntVar(&o.times, "times", 0, "with -repro, the runs of each seed; once in each of the surroundings at least")
	flag.BoolVar(&o.cover, "cover", false, "measure which statements of raftstore, server and coordination are reached")
	flag.BoolVar(&o.need, "marks", false, "fail if a mark is not reached by any seed")
	flag.StringVar(&o.sabotage, "sabotage", "", "plant the defects whose names match, and want each to be found")
	flag.StringVar(&o.profile, "profile", "", "write a profile of the processor time of each seed into this folder")
	flag.StringVar(&o.operations, "operations", "", "write the clients' operations into this folder, a file a seed")
	flag.Parse()
	if o.from == 0 {
		o.from, o.drawn = 1+rand.Uint64N(1<<40), true
	}
	return &o
}

// program returns the built program with the bounds of the options.
func (o *options) program(b built, base string) *program {
	return &program{built: b, base: base, cpu: o.cpu, idle: o.idle, memory: o.memory, disk: o.disk}
}

// errFound means that something failed, and was printed.
var errFound = errors.New("not everything is as it should be")
