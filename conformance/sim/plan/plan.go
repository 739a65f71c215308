package plan

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"regexp"
	"time"
)

// Plan is one run of the simulation. Its JSON leaves out zero values.
type Plan struct {
	Seed    uint64   `json:"seed"`
	Profile string   `json:"profile,omitzero"`  // the mixture that the plan was drawn from; decides nothing
	Defects []string `json:"defects,omitempty"` // planted defects with which it fails, in testdata only
	Virtual Duration `json:"virtual"`           // how long faults happen
	Settle  Duration `json:"settle"`            // how long everything may take to be well after all faults have ended
	Yield   uint32   `json:"yield,omitzero"`    // of 65536: how often a goroutine that gets ready does not go first
	Servers []Server `json:"servers"`
	Limits  Limits   `json:"limits,omitzero"`
	Links   Links    `json:"links,omitzero"`
	Nodes   []Node   `json:"nodes,omitempty"`
	Clients []Client `json:"clients,omitempty"`
	Events  []Event  `json:"events,omitempty"` // in the order of At
	// Neighbours are processes that take processors beside those of the servers. A simulation has no place for them.
	Neighbours int `json:"neighbours,omitzero"`
}

// Server is one server. Those that are no members at the beginning have an empty directory and are started by an add.
type Server struct {
	Name     string `json:"name"`
	Member   bool   `json:"member,omitzero"`
	ClockPPM int64  `json:"clockPPM,omitzero"` // how much faster its clock goes than the world's, in millionths
	Version  int    `json:"version,omitzero"`  // newest version of commands that it reads; 0: the program's own
}

// Limits are settings of all servers that make rare things frequent; 0 leaves the default.
type Limits struct {
	SegmentBytes       int    `json:"segmentBytes,omitzero"`
	CheckpointCommands int64  `json:"checkpointCommands,omitzero"`
	TailEntries        uint64 `json:"tailEntries,omitzero"` // kept in the log below a checkpoint
	LagEntries         uint64 `json:"lagEntries,omitzero"`  // kept for a member that lags
	TailBytes          int    `json:"tailBytes,omitzero"`   // recent entries kept in memory
	StateBytes         uint64 `json:"stateBytes,omitzero"`  // of the whole state
}

// Links is the delay of all connections: even between Min and Max, and a share of TailShare up to Tail.
type Links struct {
	Min       Duration `json:"min,omitzero"`
	Max       Duration `json:"max,omitzero"`
	Tail      Duration `json:"tail,omitzero"`
	TailShare float64  `json:"tailShare,omitzero"`
}

// Node is a coordination node, made before the clients begin. Zero values are the server's defaults.
type Node struct {
	SelfCheck     Duration `json:"selfCheck,omitzero"`
	Grace         Duration `json:"grace,omitzero"`
	StrictReads   bool     `json:"strictReads,omitzero"`
	RelaxedAttach bool     `json:"relaxedAttach,omitzero"`
}

// ClientKind names what a client does.
type ClientKind string

// The kinds of clients.
const (
	Mutex    ClientKind = "mutex"    // takes and returns one of a few semaphores with one token
	Counting ClientKind = "counting" // the same with several tokens, tries and lower counts
	Mixed    ClientKind = "mixed"    // all requests, several under way
	Watcher  ClientKind = "watcher"  // describes with watches, and changes data
	Thief    ClientKind = "thief"    // attaches its session elsewhere while a stream of it is open
	Short    ClientKind = "short"    // starts, takes an ephemeral semaphore, and stops or leaves
	Limited  ClientKind = "limited"  // acquires units of a rate limiter
	Hoarder  ClientKind = "hoarder"  // holds many semaphores
	Large    ClientKind = "large"    // stores values of up to a megabyte
	Mute     ClientKind = "mute"     // does not read for a while
	Keeper   ClientKind = "keeper"   // takes a semaphore once, and sees that it stays so; in tests only
	Caller   ClientKind = "caller"   // makes and drops coordination nodes; in tests only
)

// Kinds lists the kinds of clients that Generate draws.
var Kinds = []ClientKind{Mutex, Counting, Mixed, Watcher, Thief, Short, Limited, Hoarder, Large, Mute}

// Client is one client with a session of its own.
type Client struct {
	Kind     ClientKind `json:"kind"`
	Node     int        `json:"node,omitzero"`     // index of Plan.Nodes
	Server   int        `json:"server,omitzero"`   // where it attaches first; afterwards anywhere
	Timeout  Duration   `json:"timeout"`           // of its session
	Think    Duration   `json:"think,omitzero"`    // between two steps, on average
	Pipeline int        `json:"pipeline,omitzero"` // requests under way at a time, at least 1
	Requests int        `json:"requests,omitzero"` // after so many it only keeps its session; 0: no end
	Shared   bool       `json:"shared,omitzero"`   // its streams are on connections that others use as well
	Names    int        `json:"names,omitzero"`    // how many semaphores it shares with others of its kind, at least 1
	Stays    bool       `json:"stays,omitzero"`    // on its stream until that ends; others move now and then
}

// Kind names what happens in an event.
type Kind string

// The kinds of events. Where For is given, the fault ends by itself after that long, at the latest at the end of
// Plan.Virtual; For 0 is until then.
const (
	Cut        Kind = "cut"        // Server and Other do not reach each other, For; sent bytes wait
	OneWay     Kind = "oneway"     // the same from Server to Other only
	Partial    Kind = "partial"    // servers in the bit set N do not reach the others, For; Server reaches all
	Isolate    Kind = "isolate"    // Server reaches nobody, nor do its clients reach it, For
	Reset      Kind = "reset"      // all connections of Server are reset
	ResetOne   Kind = "resetone"   // the N-th of its connections, modulo their number
	HalfOpen   Kind = "halfopen"   // all connections of Server die, and neither end notices
	Delay      Kind = "delay"      // N ms more between Server and Other, For
	SlowLink   Kind = "slowlink"   // N bytes a second between Server and Other, For
	Freeze     Kind = "freeze"     // no goroutine of Server runs, For
	FreezeSync Kind = "freezesync" // the same, from its next sync on
	Clock      Kind = "clock"      // Server's clock goes N ppm fast from now on
	Jump       Kind = "jump"       // Server's wall clock jumps by N ms
	Suspend    Kind = "suspend"    // Server stands still and so does its monotonic clock, its wall clock does not, For
	Kill       Kind = "kill"       // Server's process ends at once and is started again after For
	Power      Kind = "power"      // Server loses power; of unsynced writes a Share survives, see N; For
	CrashAt    Kind = "crashat"    // power is lost in the N-th write or sync from now on; Share; For
	EIO        Kind = "eio"        // the N-th write or sync from now on fails and ends Server; started after For
	ENOSPC     Kind = "enospc"     // writes that need room fail, For
	ShortWrite Kind = "shortwrite" // the N-th write from now on is cut short
	LowSpace   Kind = "lowspace"   // N bytes are free, For
	SlowSync   Kind = "slowsync"   // each sync takes N ms, For
	Rot        Kind = "rot"        // Server is killed, a bit of a file at rest is turned, and it is started after For
	Wipe       Kind = "wipe"       // Server is killed and its directory emptied: its start has to be refused
	Remove     Kind = "remove"     // Server is removed from the members, by way of Other
	Add        Kind = "add"        // Server is added, by way of Other, started empty, and given a vote unless N is 1
	Promote    Kind = "promote"    // Server, a learner, is made a voter, by way of Other
	Transfer   Kind = "transfer"   // the leader is asked to hand over to Server
	Stop       Kind = "stop"       // Server stops gracefully and is started again after For
	Upgrade    Kind = "upgrade"    // Server stops and is started with command version N
)

// What survives of unsynced writes in a Power or CrashAt, by N.
const (
	WholeWrites int64 = iota // each file is as of its last sync, or with all written since
	TornWrites               // each sector of 512 bytes for itself
)

// Event is one thing that happens to the world.
type Event struct {
	At     Duration `json:"at"`
	Kind   Kind     `json:"kind"`
	Server int      `json:"server,omitzero"` // index of Plan.Servers
	Other  int      `json:"other,omitzero"`
	All    bool     `json:"all,omitzero"` // to all servers at once, Server aside
	For    Duration `json:"for,omitzero"`
	N      int64    `json:"n,omitzero"`
	Share  float64  `json:"share,omitzero"`
}

// Chance returns the stream of random numbers of one part of the world. The same name gives the same stream, whatever
// else the plan contains.
func (p *Plan) Chance(name string) *rand.Rand { return chance(p.Seed, name) }

func chance(seed uint64, name string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // never fails
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// Duration is a time.Duration whose JSON is a text such as "1.5s".
type Duration time.Duration

// Std returns it as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	value, err := time.ParseDuration(string(text))
	*d = Duration(value)
	return err
}

// Read reads a plan from a file. Fields that it does not know are an error.
func Read(file string) (Plan, error) {
	var p Plan
	text, err := os.ReadFile(file)
	if err != nil {
		return p, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return p, decoder.Decode(&p)
}

// Write writes the plan into a file, one event a line.
func (p *Plan) Write(file string) error {
	text, err := json.MarshalIndent(p, "", "\t")
	if err != nil {
		return err
	}
	text = deepBreak.ReplaceAll(text, []byte(" "))
	text = deepEnd.ReplaceAll(text, []byte(" }"))
	return os.WriteFile(file, append(text, '\n'), 0o600)
}

// These are the line breaks within an element of a list.
var deepBreak, deepEnd = regexp.MustCompile(`\n\t\t\t+`), regexp.MustCompile(`\n\t\t}`)
