// Package record writes what clients and a stand-in say to each other as a script of package conformance.
package record

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Coordination"
	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb_Operations"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/coordd/coordd/conformance"
	"github.com/coordd/coordd/server/standin/faults"
)

// Recorder writes what clients and a stand-in say to each other as a script, which shows the same again on
// any server. It is a faults.Tap. Make one with Start or InMemory.
//
// What came of requests that race must be in the script as it came. So a Recorder lets the server have one
// request at a time, and the next only once everything has come that came of it: the answers that are owed,
// and behind them those to a describe on every stream, as where a script is replayed. Clients see a server
// that takes a little longer.
//
// It follows a replay of the lines that it writes: it expects the messages that the runner would show.
type Recorder struct {
	file  *os.File // nil: none
	fence uint64   // the number of the Recorder's own describes
	queue chan func()
	done  chan struct{}

	closing sync.RWMutex
	over    bool // nothing is recorded any more

	mutex    sync.Mutex
	shadow   *conformance.Replay
	database string
	byClient map[*recordedStream]bool
	streams  int
	news     chan struct{} // closed when something has come
	since    time.Time     // when the last step was over
	lag      time.Duration // how much earlier than that the server may have carried it out
	ahead    time.Duration // how much longer the script waits than the clients did
	late     []time.Time   // when each message of shadow.came came, between steps
	nodes    map[string]bool
	keys     map[string]string
	text     strings.Builder // with marks for order ids
	most     int             // bytes of text
	full     bool
	err      error
	implied  string // the node of a start that nobody has seen being made
}

const (
	// shortestRecorded is the shortest silence that is written as a wait.
	shortestRecorded = 100 * time.Millisecond
	// recordPatience limits a Recorder's wait for an answer.
	recordPatience = 10 * time.Second
	// MaxBytes is the usual bound of a recording.
	MaxBytes = 16 << 20
	// recordQueue bounds the requests that wait for their turn; beyond it streams and calls wait for the queue.
	recordQueue = 1024
)

// describe is the verb of the requests by which the Recorder finds out that nothing more is on its way.
const describe = "describe"

type (
	sessionRequest = Ydb_Coordination.SessionRequest
	sessionReply   = Ydb_Coordination.SessionResponse
)

const recordingHead = `# What clients and a server have said to each other.
# recorded: replay it with: go run ./cmd/coordd-conformance --file FILE
# node: none
`

// Start begins a recording of a database's clients in a file, which must not be there yet. It ends at most bytes:
// what comes after that is not recorded.
func Start(name, database string, most int) (*Recorder, error) {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	r := newRecorder(file, database, most)
	return r, r.err
}

// InMemory is Start without a file: Text has the script.
func InMemory(database string, most int) *Recorder { return newRecorder(nil, database, most) }

func newRecorder(file *os.File, database string, most int) *Recorder {
	r := &Recorder{file: file, fence: rand.Uint64(), queue: make(chan func(), recordQueue),
		done: make(chan struct{}), shadow: conformance.NewReplay(environment{database: database}), database: database,
		byClient: make(map[*recordedStream]bool), news: make(chan struct{}),
		since: time.Now(), most: most, nodes: make(map[string]bool), keys: make(map[string]string)}
	r.write(recordingHead)
	go r.work()
	return r
}

// Text returns the script, once Close has returned.
func (r *Recorder) Text() string {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.shadow.Resolve(r.text.String())
}

// Close ends the recording. Clients may go on, unseen.
func (r *Recorder) Close() error {
	r.closing.Lock()
	if r.over {
		r.closing.Unlock()
		return nil
	}
	r.over = true
	close(r.queue)
	r.closing.Unlock()
	<-r.done
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.idle()
	r.full = true
	if r.file == nil {
		return r.err
	}
	if r.err == nil { // now all order ids are known, and so their ranks
		_, r.err = r.file.WriteAt([]byte(r.shadow.Resolve(r.text.String())), 0)
	}
	return errors.Join(r.err, r.file.Close())
}

// work gives requests their turns.
func (r *Recorder) work() {
	defer close(r.done)
	for turn := range r.queue {
		turn()
	}
}

// enqueue has something done in its turn, or, if the recording is over, at once.
func (r *Recorder) enqueue(turn func(), otherwise func()) {
	r.closing.RLock()
	defer r.closing.RUnlock()
	if r.over {
		otherwise()
		return
	}
	r.queue <- turn
}

// write adds to the recording. What is in the file before Close has the ranks of order ids as they are known
// so far. The mutex is held.
func (r *Recorder) write(text string) {
	switch {
	case r.full || r.err != nil:
		return
	case r.text.Len()+len(text) > r.most:
		r.full = true
		text = fmt.Sprintf("\n# The recording ends here: there is more than %d KiB.\n", r.most>>10)
	}
	r.text.WriteString(text)
	if r.file != nil {
		_, r.err = r.file.WriteString(r.shadow.Resolve(text))
	}
}

// step writes requests and what came of them. The mutex is held.
func (r *Recorder) step(requests []string, came []conformance.Line, anyOrder bool) {
	r.write("\n" + conformance.StepText(requests, came, anyOrder))
}

// idle writes what came since the last step without a request, and how long nobody has asked for anything.
// The mutex is held.
func (r *Recorder) idle() {
	came, late := r.shadow.Came, r.late
	r.forget()
	for len(came) > 0 {
		n := 1
		for n < len(came) && late[n].Sub(late[n-1]) < shortestRecorded {
			n++
		}
		r.waitFor(late[n-1].Sub(r.since), came[:n])
		r.since, r.lag = late[n-1], 0
		came, late = came[n:], late[n:]
	}
	gap := time.Since(r.since)
	if shorter := min(gap, r.ahead); shorter > 0 {
		gap -= shorter
		r.ahead -= shorter
	}
	if gap >= shortestRecorded {
		r.step([]string{waitLine(gap)}, nil, false)
	}
}

// forget begins a new step. The mutex is held.
func (r *Recorder) forget() {
	r.shadow.Came = nil
	r.late = nil
}

// waitFor writes a wait and what came then. Two messages of one stream may have come in any order: clocks run
// as they like. The mutex is held.
func (r *Recorder) waitFor(d time.Duration, came []conformance.Line) {
	requests, from, anyOrder := []string(nil), make(map[string]bool), false
	wait := max(d+r.lag, shortestRecorded)
	for _, m := range came {
		anyOrder = anyOrder || from[m.From]
		if from[m.From] = true; strings.HasPrefix(m.Text, pingTimeout) {
			requests = append(requests, m.From+": no pong")
			wait = max(wait, 2*r.pingPeriod(m.From))
		}
	}
	r.ahead += wait - d
	r.step(append(requests, waitLine(wait)), came, anyOrder)
}

const pingTimeout = `failure TIMEOUT "Ping timeout"`

func waitLine(d time.Duration) string {
	return "wait " + strconv.FormatInt(max(1, d.Milliseconds()), 10) + "ms"
}

// pingPeriod is the interval between a stream's pings. The mutex is held.
func (r *Recorder) pingPeriod(stream string) time.Duration {
	for s := range r.byClient {
		if s.name == stream {
			return min(max(s.timeout/3, 10*time.Millisecond), 5*time.Second)
		}
	}
	return 5 * time.Second
}

// act writes a request in its turn, has the server get it, and waits for what comes of it. lines makes the
// request; empty: it is not recorded.
func (r *Recorder) act(lines func() []string, deliver func(), executed <-chan []conformance.Line) {
	r.mutex.Lock()
	r.idle()
	requests := lines()
	r.mutex.Unlock()
	begun := time.Now()
	deliver()
	if len(requests) == 0 {
		return
	}
	var said []conformance.Line
	if executed != nil {
		said = <-executed
	}
	r.await(r.shadow.AllAnswered)
	r.fenceAll()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.imply()
	r.step(requests, append(said, r.shadow.Came...), false)
	r.forget()
	r.since = time.Now()
	r.lag = r.since.Sub(begun)
}

// imply writes the creation of a node that turned out to be there. The mutex is held.
func (r *Recorder) imply() {
	missing := slices.ContainsFunc(r.shadow.Came,
		func(m conformance.Line) bool { return m.Text == `failure NOT_FOUND "Kesus not found"` })
	if r.implied != "" && !missing {
		r.nodes[r.implied] = true
		r.step([]string{"node create " + r.scriptPath(r.implied)},
			[]conformance.Line{{From: "node", Text: "SUCCESS..."}}, false)
	}
	r.implied = ""
}

// await returns when something is so, or the Recorder's patience is at its end.
func (r *Recorder) await(is func() bool) {
	patience := time.NewTimer(recordPatience)
	defer patience.Stop()
	for {
		r.mutex.Lock()
		so, news := is(), r.news
		r.mutex.Unlock()
		if so {
			return
		}
		select {
		case <-news:
		case <-patience.C:
			r.mutex.Lock()
			r.shadow.Forgive()
			r.mutex.Unlock()
			return
		}
	}
}

// fenceAll returns when nothing more is on its way to any stream (see Replay.fence).
func (r *Recorder) fenceAll() {
	r.mutex.Lock()
	var asked []*recordedStream
	for s := range r.byClient {
		if s.shadow != nil && s.shadow.Attached() && !s.parting {
			s.fenced = true
			asked = append(asked, s)
		}
	}
	r.mutex.Unlock()
	for _, s := range asked {
		s.injector.Inject(&sessionRequest{Request: &Ydb_Coordination.SessionRequest_DescribeSemaphore_{
			DescribeSemaphore: &Ydb_Coordination.SessionRequest_DescribeSemaphore{ReqId: r.fence,
				Name: "no such semaphore"}}})
	}
	r.await(func() bool {
		return !slices.ContainsFunc(asked, func(s *recordedStream) bool {
			return s.fenced && !s.closed && !s.shadow.Over()
		})
	})
}

// play hands a line to the shadow and returns the number of the request. The mutex is held.
func (r *Recorder) play(line string) uint64 {
	number, err := r.shadow.Request(line)
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("record %q: %w", line, err)
	}
	return number
}

// It wakes the waiters because something has come. The mutex is held.
func (r *Recorder) tell() {
	for now := time.Now(); len(r.late) < len(r.shadow.Came); {
		r.late = append(r.late, now)
	}
	close(r.news)
	r.news = make(chan struct{})
}

// recordedStream is a Recorder's record of a stream. All of it is guarded by the Recorder's mutex.
type recordedStream struct {
	*Recorder
	name     string
	injector faults.Injector
	shadow   *conformance.Played // nil before its start
	timeout  time.Duration
	ids      map[recordedID]uint64 // of the shadow's requests
	fenced   bool
	parting  bool // the client has ended it
	closed   bool
}

// recordedID is a request as its client numbers it.
type recordedID struct {
	verb string
	id   uint64
}

// Open implements faults.Tap.
func (r *Recorder) Open(injector faults.Injector) faults.StreamTap {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.streams++
	s := &recordedStream{Recorder: r, name: fmt.Sprint("s", r.streams), injector: injector,
		ids: make(map[recordedID]uint64)}
	r.byClient[s] = true
	return s
}

// Request implements faults.StreamTap.
func (s *recordedStream) Request(m *sessionRequest, deliver func()) {
	m = proto.CloneOf(m)
	s.enqueue(func() { s.act(func() []string { return s.begin(m) }, deliver, nil) }, deliver)
}

// begin has the shadow make a request. The mutex is held.
func (s *recordedStream) begin(m *sessionRequest) []string {
	if s.closed || s.shadow != nil && s.shadow.Over() || s.err != nil || s.full {
		return nil
	}
	line := s.name + ": " + s.line(m)
	number := s.play(line)
	if s.shadow == nil {
		if s.shadow = s.Recorder.shadow.Stream(s.name); s.shadow == nil {
			return nil
		}
	}
	if verb, of, id := conformance.Numbered(m); id != nil {
		s.ids[recordedID{verb, of.Get(id).Uint()}] = number
	}
	return []string{line}
}

// Gone implements faults.StreamTap.
func (s *recordedStream) Gone(halfClosed bool, deliver func()) {
	s.enqueue(func() { s.act(func() []string { return s.part(halfClosed) }, deliver, nil) }, deliver)
}

func (s *recordedStream) part(halfClosed bool) []string {
	s.parting = true
	if s.shadow == nil || s.shadow.Ending() || s.err != nil || s.full {
		return nil
	}
	line := s.name + ": cancel"
	if halfClosed {
		line = s.name + ": half-close"
	}
	s.play(line)
	return []string{line}
}

// Reply implements faults.StreamTap.
func (s *recordedStream) Reply(m *sessionReply) (pass bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	verb, id, numbered := conformance.Answered(m)
	if numbered && verb == describe && id == s.fence {
		s.fenced = false
		s.tell()
		return false
	}
	if s.shadow == nil || s.full || s.err != nil || m.GetPong() != nil {
		return true
	}
	m = proto.CloneOf(m)
	if numbered {
		own, known := s.ids[recordedID{string(verb), id}]
		if !known {
			return true
		}
		if lastOf(m) {
			delete(s.ids, recordedID{string(verb), id})
		}
		_, of, number := conformance.Numbered(m)
		of.Set(number, protoreflect.ValueOfUint64(own))
	}
	s.Recorder.shadow.Handle(conformance.Event{Stream: s.shadow.Connection(), Message: m})
	s.tell()
	return true
}

// lastOf reports whether nothing more belongs to the request that a reply answers.
func lastOf(m *sessionReply) bool {
	return m.GetAcquireSemaphorePending() == nil && !m.GetDescribeSemaphoreResult().GetWatchAdded()
}

// Ended implements faults.StreamTap.
func (s *recordedStream) Ended(end *status.Status) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.shadow != nil && s.err == nil && !s.full {
		s.Recorder.shadow.Handle(conformance.Event{Stream: s.shadow.Connection(), Status: end})
	}
	s.tell()
}

// Close implements faults.StreamTap.
func (s *recordedStream) Close() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.closed = true
	delete(s.byClient, s)
	s.tell()
}

// line is a request as a script has it. The mutex is held.
func (s *recordedStream) line(m *sessionRequest) string {
	switch r := m.GetRequest().(type) {
	case *Ydb_Coordination.SessionRequest_SessionStart_:
		return s.startLine(r.SessionStart)
	case *Ydb_Coordination.SessionRequest_SessionStop_:
		return "stop"
	case *Ydb_Coordination.SessionRequest_AcquireSemaphore_:
		a := r.AcquireSemaphore
		line := "acquire " + scriptText(a.GetName())
		if a.GetCount() != 1 {
			line += " count=" + conformance.ShowNumber(a.GetCount())
		}
		if a.GetTimeoutMillis() != 0 {
			line += " timeout=" + conformance.ShowMillis(a.GetTimeoutMillis())
		}
		return line + scriptData(a.GetData()) + flagIf(" ephemeral", a.GetEphemeral())
	case *Ydb_Coordination.SessionRequest_ReleaseSemaphore_:
		return "release " + scriptText(r.ReleaseSemaphore.GetName())
	case *Ydb_Coordination.SessionRequest_CreateSemaphore_:
		return "create " + scriptText(r.CreateSemaphore.GetName()) + " limit=" +
			conformance.ShowNumber(r.CreateSemaphore.GetLimit()) + scriptData(r.CreateSemaphore.GetData())
	case *Ydb_Coordination.SessionRequest_UpdateSemaphore_:
		return "update " + scriptText(r.UpdateSemaphore.GetName()) + scriptData(r.UpdateSemaphore.GetData())
	case *Ydb_Coordination.SessionRequest_DeleteSemaphore_:
		return "delete " + scriptText(r.DeleteSemaphore.GetName()) + flagIf(" force",
			r.DeleteSemaphore.GetForce())
	case *Ydb_Coordination.SessionRequest_DescribeSemaphore_:
		d := r.DescribeSemaphore
		return "describe " + scriptText(d.GetName()) + flagIf(" owners",
			d.GetIncludeOwners()) + flagIf(" waiters", d.GetIncludeWaiters()) +
			flagIf(" watch_data", d.GetWatchData()) + flagIf(" watch_owners", d.GetWatchOwners())
	}
	return "empty"
}

func flagIf(text string, set bool) string {
	if set {
		return text
	}
	return ""
}

// startLine writes a SessionStart. The node's creation has to come before it if nobody has seen that.
func (s *recordedStream) startLine(start *Ydb_Coordination.SessionRequest_SessionStart) string {
	s.timeout = time.Duration(min(start.GetTimeoutMillis(),
		uint64(time.Hour/time.Millisecond))) * time.Millisecond
	node := conformance.CleanPath(start.GetPath())
	if _, seen := s.nodes[node]; !seen && s.inDatabase(node) {
		s.implied = node
	}
	line := "start path=" + s.scriptPath(start.GetPath())
	if id := start.GetSessionId(); id != 0 {
		line += " session=" + s.Recorder.shadow.Session(node, id)
	}
	if seq := start.GetSeqNo(); seq != 0 {
		line += " seq=" + conformance.ShowNumber(seq)
	}
	line += " timeout=" + conformance.ShowMillis(start.GetTimeoutMillis())
	if key := start.GetProtectionKey(); len(key) > 0 {
		line += " key=" + s.keyName(key)
	}
	if description := start.GetDescription(); description != "" {
		line += " description=" + scriptText(description)
	}
	return line
}

// keyName is the name that stands for a protection key: keys are secrets.
func (r *Recorder) keyName(key []byte) string {
	name, known := r.keys[string(key)]
	if !known {
		if name = fmt.Sprint("key", len(r.keys)+1); len(key) > maxKeyBytes {
			name = fmt.Sprintf("{%d*k}", len(key))
		}
		r.keys[string(key)] = name
	}
	return name
}

// maxKeyBytes bounds a protection key; a longer one is refused, whatever its content.
const maxKeyBytes = 16

func (r *Recorder) inDatabase(path string) bool {
	return strings.HasPrefix(path, r.database+"/")
}

// scriptPath writes a path so that it names the same thing in a script's own directory.
func (r *Recorder) scriptPath(path string) string {
	database := r.database
	for _, place := range []struct{ prefix, name string }{{database + "/", "{dir}/"},
		{database[1:] + "/", "{reldir}/"}} {
		if rest, found := strings.CutPrefix(path, place.prefix); found {
			if text := scriptText(rest); text == rest {
				return place.name + rest
			}
			return strconv.QuoteToASCII(place.name + rest)
		}
	}
	return scriptText(path)
}

var plainText = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// scriptText writes a text so that parseText reads it again.
func scriptText(text string) string {
	switch {
	case plainText.MatchString(text) && !strings.HasPrefix(text, "0x"):
		return text
	case utf8.ValidString(text) && !strings.ContainsFunc(text,
		func(r rune) bool { return r == '{' || !strconv.IsPrint(r) }):
		return strconv.QuoteToASCII(text)
	}
	return "0x" + hex.EncodeToString([]byte(text))
}

func scriptData(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	return " data=" + scriptText(string(data))
}

// Call implements faults.Tap. Of calls those are recorded that make and remove nodes and directories.
func (r *Recorder) Call(ctx context.Context, method string,
	request any) (done func(response any, err error)) {
	line, node := r.callLine(request)
	if line == "" {
		return func(any, error) {}
	}
	turn, executed := make(chan struct{}), make(chan []conformance.Line, 1)
	r.enqueue(func() {
		r.act(func() []string { return []string{line} }, func() { close(turn) }, executed)
	}, func() { close(turn) })
	<-turn
	return func(response any, err error) {
		service, _, _ := strings.Cut(line, " ")
		said := conformance.Line{From: service,
			Text: "gRPC " + strings.TrimPrefix(conformance.ShowEnd(status.Convert(err)), "end ")}
		if answer, is := response.(interface {
			GetOperation() *Ydb_Operations.Operation
		}); is && err == nil {
			operation := answer.GetOperation()
			said.Text = operation.GetStatus().String()
			if len(operation.GetIssues()) > 0 { // which differ between servers
				said.Text += "..."
			}
			if operation.GetStatus() == Ydb.StatusIds_SUCCESS && node != "" {
				r.mutex.Lock()
				r.nodes[node] = true
				r.mutex.Unlock()
			}
		}
		executed <- []conformance.Line{said}
	}
}

// callLine is a call as a script has it, and the node that it is about; empty if it is not recorded.
func (r *Recorder) callLine(request any) (line, node string) {
	switch q := request.(type) {
	case *Ydb_Coordination.CreateNodeRequest:
		return "node create " + r.scriptPath(q.GetPath()) + scriptConfig(q.GetConfig()),
			conformance.CleanPath(q.GetPath())
	case *Ydb_Coordination.AlterNodeRequest:
		return "node alter " + r.scriptPath(q.GetPath()) + scriptConfig(q.GetConfig()), ""
	case *Ydb_Coordination.DropNodeRequest:
		return "node drop " + r.scriptPath(q.GetPath()), conformance.CleanPath(q.GetPath())
	}
	return "", ""
}

func scriptConfig(c *Ydb_Coordination.Config) string {
	if c == nil {
		return ""
	}
	return strings.TrimPrefix(strings.ReplaceAll(conformance.ShowConfig(c), "\n  ", " "), " config")
}
