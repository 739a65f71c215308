// Command sdkload works on a cluster through the unmodified SDK until its standard input ends, and writes what
// happened to standard output, a JSON object a line (see event). Its connections go to one server, and to the
// others while that one does not serve. The cluster tests start one for each server and judge the lines.
//
// It exits with 0 when everything it began has ended well, whatever happened to its sessions meanwhile.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// event is one line of output. Times are the machine's monotonic clock in nanoseconds, which all its
// processes share.
type event struct {
	At   int64  `json:"at"`
	Kind string `json:"kind"`
	// Worker is the name of the session's owner, Session its id, Server the number of the one that it is
	// connected to.
	Worker  string `json:"worker,omitempty"`
	Server  int    `json:"server,omitempty"`
	Session uint64 `json:"session,omitempty"`
	// Name is a semaphore. Count and Order are of a link to it.
	Name  string `json:"name,omitempty"`
	Count uint64 `json:"count,omitempty"`
	Order uint64 `json:"order,omitempty"`
	// From and Until bound the time during which the worker may have believed that it held something.
	From  int64 `json:"from,omitempty"`
	Until int64 `json:"until,omitempty"`
	// Value is the counter that an update wrote.
	Value uint64 `json:"value,omitempty"`
	// Silence is the time without a message, in nanoseconds.
	Silence int64  `json:"silence,omitempty"`
	Text    string `json:"text,omitempty"`
}

// Kinds of events.
const (
	attached = "attached" // a stream was opened for a session: the first, or a further one
	expired  = "expired"  // the server reported the end of the session, Silence after the last message
	closed   = "closed"   // the SDK gave a session up, Text has the error
	held     = "held"     // something was held, From to Until
	updated  = "updated"  // an update of Value was acknowledged
	acked    = "acked"    // another operation was acknowledged
	problem  = "problem"  // something that must not happen, described by Text
	ready    = "ready"    // all workers have a session
)

// settings are shared by all workers.
type settings struct {
	servers        []string // addresses
	home           int      // the one to connect to
	node           string
	sessionTimeout time.Duration
	keepAlive      time.Duration
	pause          time.Duration
}

// journal writes events.
type journal struct {
	mutex sync.Mutex
	out   *json.Encoder
}

func (j *journal) write(e event) {
	e.At = monotonic()
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if err := j.out.Encode(e); err != nil {
		log.Fatal(err) // nobody listens any more
	}
}

func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		log.Fatal(err)
	}
	return t.Nano()
}

func main() {
	var s settings
	var name string
	var workers int
	var seed uint64
	servers := flag.String("servers", "127.0.0.1:2136", "addresses of the servers, separated by commas")
	flag.IntVar(&s.home, "home", 0, "number of the server to connect to, from 0")
	flag.StringVar(&s.node, "node", "/local/load", "coordination node, which must exist")
	flag.DurationVar(&s.sessionTimeout, "session-timeout", 12*time.Second, "session timeout")
	flag.DurationVar(&s.keepAlive, "keep-alive", 7*time.Second, "silence after which the SDK reconnects")
	flag.DurationVar(&s.pause, "pause", 10*time.Millisecond, "pause between two operations of a worker")
	flag.StringVar(&name, "name", "load", "prefix of the workers' names")
	flag.IntVar(&workers, "workers", 2, "number of sessions")
	flag.Uint64Var(&seed, "seed", 1, "what the workers' choices depend on")
	flag.Parse()
	if s.servers = strings.Split(*servers, ","); s.home < 0 || s.home >= len(s.servers) {
		log.Fatalf("-home=%d: want a number of -servers", s.home)
	}

	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	j := &journal{out: json.NewEncoder(os.Stdout)}
	var started, ended sync.WaitGroup
	failed := make([]error, workers)
	for i := range workers {
		started.Add(1)
		w := newWorker(s, j, fmt.Sprintf("%s-%d", name, i), seed, uint64(i))
		ended.Go(func() { failed[i] = w.run(ctx, sync.OnceFunc(started.Done)) })
	}
	started.Wait()
	j.write(event{Kind: ready})
	ended.Wait()
	for _, err := range failed {
		if err != nil {
			log.Fatal(err)
		}
	}
}
