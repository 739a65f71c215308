package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coordd/coordd/conformance/raw"
	"github.com/coordd/coordd/server/adminpb"
)

const (
	consoles = 20
	alone    = "without a console"
	looked   = "20 consoles"
	// holders counts the sessions that hold the rows.
	holders = 64
	// The pages' rules, of web/polls.mjs and web/live.mjs: the time between calls of a view that a question covers, the
	// changes one after another after which a view is polled, and the views of a question.
	coveredPeriod = 15 * time.Second
	mostChanges   = 3
	mostViews     = 8
)

// measureConsoles measures W1 on a server with so many held semaphores, beside twenty browsers with the console and
// without them: half of them show the list of locks, half one lock.
func (b *bench) measureConsoles(ctx context.Context) error {
	t := newTurn(ctx)
	defer t.end()
	s, err := newCoordd("coordd", b.coordd).launchIn(t, filepath.Join(b.dir, "consoles"))
	if err != nil {
		return err
	}
	say(fmt.Sprintf("%d held semaphores", b.rows))
	sessions, err := rawSessions(t, s.address, holders)
	if err != nil {
		return err
	}
	if err := spread(sessions, b.rows, func(s *raw.Session, i int) error {
		return holdNew(s, rowName(i))
	}); err != nil {
		return err
	}
	for _, session := range sessions { // which answers pings until the end
		go func() { _, _ = session.Receive() }()
	}
	token, err := b.consoleToken(ctx, s)
	if err != nil {
		return err
	}
	b.book.contestants = []string{alone, looked}
	all := []*contestant{{name: alone, client: rawClient, servers: servers{s}},
		{name: looked, client: rawClient, servers: servers{s}}}
	b.warm(ctx, all)
	var asked, same int
	b.inTurns(ctx, w1, all, b.runs, func(t *turn, c *contestant) error {
		if c.name == looked {
			look, stop := context.WithCancel(t)
			var pages sync.WaitGroup
			tabs := make([]*tab, consoles)
			defer func() {
				stop()
				pages.Wait()
				for _, tab := range tabs {
					asked, same = asked+tab.asked, same+tab.same
					tab.client.CloseIdleConnections()
				}
			}()
			for i := range tabs {
				tabs[i] = newTab("http://"+s.metrics+"/api", token, i)
				pages.Go(func() { tabs[i].show(look) })
				pages.Go(func() { tabs[i].question(look) })
			}
			wait(t, 2*time.Second) // the first answers
			idle, err := c.servers.spent(func() error { wait(t, b.length); return nil })
			if err != nil {
				return err
			}
			b.book.add(cell{w1, b.n, shareFigure}, c.name, 100*idle.Seconds()/b.length.Seconds())
			for _, tab := range tabs {
				if err := tab.failed(); err != nil {
					return err
				}
			}
		}
		r, err := b.lockAt(t, c, s.address, false, b.n)
		return b.add(w1, b.n, c.name, pairsFigure, r, err)
	})
	fmt.Printf("%d requests of consoles, %d of them with nothing new.\n", asked, same)
	ratios := b.book.roundRatios(cell{w1, b.n, cpuFigure}, looked, alone)
	if low, high, known := interval(ratios); known {
		fmt.Printf("CPU per pair with %d consoles: %.3f times, 95 %% interval %.3f to %.3f, of %d rounds.\n", consoles,
			ratios[len(ratios)/2], low, high, len(ratios))
	}
	return b.compared(alone)
}

// interval returns a 95 % interval of the median of sorted values, by their order alone; it is unknown of fewer than 6.
func interval(sorted []float64) (low, high float64, known bool) {
	n, below, k := len(sorted), 0.0, 0
	for choose := math.Pow(0.5, float64(n)); k < n; k++ {
		if below+choose > 0.025 {
			break
		}
		below += choose
		choose *= float64(n-k) / float64(k+1)
	}
	if k == 0 || k > n/2 {
		return 0, 0, false
	}
	return sorted[k-1], sorted[n-k], true
}

// consoleToken signs in.
func (b *bench) consoleToken(ctx context.Context, s *process) (string, error) {
	data := s.config.Args[slices.Index(s.config.Args, "--data-dir")+1]
	printed, err := exec.CommandContext(ctx, b.coordd, "console", "--data-dir", data).Output()
	_, key, found := strings.Cut(string(printed), "#key=")
	if err != nil || !found {
		return "", fmt.Errorf("coordd console: %q, %w", printed, cmp.Or(err, errors.New("no link")))
	}
	var session struct{ Token string }
	c := &tab{base: "http://" + s.metrics + "/api"}
	_, _, err = c.post(ctx, "/session", map[string]string{"key": strings.Fields(key)[0]}, "", &session)
	return session.Token, err
}

// tab makes the calls of a page that is shown.
type tab struct {
	base, token string
	client      http.Client
	wake        chan struct{} // a question is over, or has to be another one

	mutex       sync.Mutex
	views       []*shownView
	asked, same int
	err         error
}

// shownView is a poll of web/polls.mjs.
type shownView struct {
	method  string
	request map[string]any
	every   time.Duration
	version string
	last    time.Time
	now     bool // it is to be asked for at once
	changes int
	quiet   bool
	covered string // the version about which a question is under way
}

func newTab(base, token string, i int) *tab {
	list := adminpb.Inspect_List_FullMethodName
	board := func(size int) map[string]any {
		return map[string]any{"kind": "SEMAPHORES", "order": "OLDEST_WAIT", "pageSize": size}
	}
	c := &tab{base: base, token: token, wake: make(chan struct{}, 1),
		client: http.Client{Transport: &http.Transport{}}}
	add := func(method string, every time.Duration, request map[string]any) {
		c.views = append(c.views, &shownView{method: method, every: every, request: request})
	}
	add(adminpb.Cluster_Status_FullMethodName, 2*time.Second, map[string]any{})
	add(list, 3*time.Second, board(1))
	add(list, 5*time.Second, map[string]any{"kind": "NODES"})
	if i%2 == 0 {
		add(list, time.Second, board(256))
		return c
	}
	name := base64.StdEncoding.EncodeToString([]byte(rowName(i)))
	add(list, time.Second/2, map[string]any{"kind": "SEMAPHORES", "path": nodePath, "prefix": name, "exact": true,
		"dataBytes": 4096})
	add(list, time.Second/2, map[string]any{"kind": "SESSIONS", "path": nodePath, "session": fmt.Sprint(1 + i)})
	add(adminpb.Inspect_Events_FullMethodName, 3*time.Second,
		map[string]any{"path": nodePath, "semaphore": name, "limit": 100})
	return c
}

// post makes a request as the page does.
func (c *tab) post(ctx context.Context, path string, body any, have string, into any) (code int, version string,
	err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(text))
	if err != nil {
		return 0, "", err
	}
	request.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + c.token},
		"X-Coordd-Have": {have}}
	answer, err := c.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	read, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
	case answer.StatusCode == http.StatusOK && into != nil:
		err = json.Unmarshal(read, into)
	case answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotModified:
		err = fmt.Errorf("%s: %s %s", path, answer.Status, read)
	}
	return answer.StatusCode, answer.Header.Get("X-Coordd-Version"), err
}

// failed returns the first error of a call.
func (c *tab) failed() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.err
}

// show makes the calls for the views.
func (c *tab) show(ctx context.Context) {
	for wait(ctx, time.Duration(40+rand.IntN(20))*time.Millisecond) {
		for _, v := range c.views {
			c.mutex.Lock()
			period, hinted := v.every, v.now
			if v.quiet && v.covered == v.version {
				period = coveredPeriod
			}
			due, have := hinted || time.Since(v.last) >= period, v.version
			v.now = false
			c.mutex.Unlock()
			if !due {
				continue
			}
			code, version, err := c.post(ctx, v.method, v.request, have, nil)
			if ctx.Err() != nil {
				return
			}
			c.mutex.Lock()
			c.asked++
			same := code == http.StatusNotModified
			if same {
				c.same++
			} else {
				v.version = version
			}
			if same || time.Since(v.last) > v.every {
				v.changes = 0
			} else {
				v.changes++
			}
			v.last, c.err = time.Now(), cmp.Or(c.err, err)
			v.quiet = v.changes < mostChanges && !(same && hinted) && v != c.views[0]
			again := v.quiet && v.covered != v.version
			c.mutex.Unlock()
			if again {
				select {
				case c.wake <- struct{}{}:
				default:
				}
			}
		}
	}
}

// question asks for changes of the quiet views, again where there is another one.
func (c *tab) question(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		for again := true; again && ctx.Err() == nil; {
			again = c.ask(ctx)
		}
	}
}

// ask asks once, and reports whether to go on without a wake.
func (c *tab) ask(ctx context.Context) bool {
	var views []any
	var about []*shownView
	c.mutex.Lock()
	for _, v := range slices.SortedFunc(slices.Values(c.views),
		func(a, b *shownView) int { return cmp.Compare(a.every, b.every) }) {
		if v.covered = ""; v.quiet && !v.now && len(about) < mostViews {
			v.covered = v.version
			about = append(about, v)
			every := v.every
			if every <= time.Second/2 {
				every /= 2
			}
			views = append(views, map[string]any{"method": v.method, "request": v.request, "have": v.version,
				"everyMillis": every.Milliseconds()})
		}
	}
	c.mutex.Unlock()
	if len(views) == 0 {
		return false
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{})
	var answer struct{ Changed []int }
	var err error
	go func() {
		defer close(over)
		_, _, err = c.post(asking, "/live", map[string]any{"views": views}, "", &answer)
	}()
	select {
	case <-c.wake: // by another question
		stop()
		<-over
		return true
	case <-over:
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.asked++
	if ctx.Err() == nil {
		c.err = cmp.Or(c.err, err)
	}
	for _, i := range answer.Changed {
		about[i].now, about[i].quiet, about[i].covered = true, false, ""
	}
	return err == nil
}

// holdNew makes a lock and takes it.
func holdNew(s *raw.Session, name string) error {
	if err := s.Create(name, 1); err != nil {
		return err
	}
	return s.Hold(name, nil)
}
