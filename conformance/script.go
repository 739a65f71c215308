package conformance

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coordd/coordd/coordination"
)

//go:embed testdata
var testdata embed.FS

// Script is one transcript. Make one with Parse.
type Script struct {
	Name    string // such as acquire/try_behind_queue
	Title   string // the first sentences of the head
	Rules   []string
	Differs []string // where coordd differs from YDB on purpose
	Needs   []Need   // what a target must offer
	Limits  coordination.Limits
	// NotFailOver is why a change of the leader between the steps would show; empty if clients must not
	// notice one.
	NotFailOver string

	// Recorded marks a recording, see Recorder: it shows no rule, and may wait for as long as it took.
	Recorded bool

	node  string // fields of the node's config, or "none"
	exact bool   // ids as numbers
	lines []string
	steps []step
}

// step is some requests and what is expected of them.
type step struct {
	requests []request
	anyOrder bool
	expected []Line
	// The lines of the script that hold the dashes and the expected messages: [from, to).
	from, to int
	dashes   bool
}

// request is one request line.
type request struct {
	line     int // in Script.lines
	together bool
	stream   string // "" for what is not a stream's
	words    []string
	fields   map[string]string
}

// Line is one expected or actual message, possibly of several lines.
type Line struct {
	From string // the stream, or node or scheme
	Text string // what follows the arrow
}

func (m Line) String() string { return m.From + " <- " + m.Text }

// Scripts returns all scripts of this package, by name.
func Scripts() ([]*Script, error) {
	var scripts []*Script
	err := fs.WalkDir(testdata, "testdata", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".txt" {
			return err
		}
		text, err := testdata.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txt")
		script, err := Parse(name, string(text))
		scripts = append(scripts, script)
		return err
	})
	return scripts, err
}

// Parse reads a script. Errors name the script and the line.
func Parse(name, text string) (*Script, error) {
	s := &Script{Name: name, Limits: coordination.DefaultLimits(),
		lines: strings.Split(strings.TrimRight(text, "\n"), "\n")}
	p := parser{script: s}
	for p.at < len(s.lines) {
		if err := p.block(); err != nil {
			return nil, fmt.Errorf("script %s, line %d: %w", name, p.at+1, err)
		}
	}
	switch {
	case s.Title == "":
		return nil, fmt.Errorf("script %s: no sentence at its head", name)
	case len(s.Rules) == 0 && !s.Recorded:
		return nil, fmt.Errorf("script %s: no rule at its head", name)
	case len(s.steps) == 0:
		return nil, fmt.Errorf("script %s: no steps", name)
	}
	s.deriveNeeds()
	return s, nil
}

// parser goes through the lines of a script, block by block.
type parser struct {
	script *Script
	at     int
}

func (p *parser) line() string {
	if p.at < len(p.script.lines) {
		return p.script.lines[p.at]
	}
	return ""
}

// block reads the lines up to the next blank one: a piece of the head, or a step.
func (p *parser) block() error {
	if p.line() == "" {
		p.at++
		return nil
	}
	for strings.HasPrefix(p.line(), "#") {
		if err := p.comment(); err != nil {
			return err
		}
		p.at++
	}
	if p.line() == "" {
		return nil
	}
	var s step
	for p.line() != "" && !strings.HasPrefix(p.line(), "----") {
		r, err := parseRequest(p.line())
		if err != nil {
			return err
		}
		r.line = p.at
		s.requests = append(s.requests, r)
		p.at++
	}
	s.from = p.at
	if err := p.expected(&s); err != nil {
		return err
	}
	s.to = p.at
	p.script.steps = append(p.script.steps, s)
	return nil
}

var headLine = regexp.MustCompile(`^# (rule|needs|differs|not|limits|node|ids|recorded): (.*)$`)

func (p *parser) comment() error {
	s := p.script
	head := headLine.FindStringSubmatch(p.line())
	if head == nil {
		if len(s.Rules) == 0 && len(s.steps) == 0 {
			s.Title = strings.TrimSpace(s.Title + " " + strings.TrimSpace(strings.TrimLeft(p.line(), "#")))
		}
		return nil
	}
	if len(s.steps) > 0 {
		return fmt.Errorf("%q belongs to the head", head[1])
	}
	switch value := head[2]; head[1] {
	case "rule":
		rules, err := parseRules(value)
		s.Rules = append(s.Rules, rules...)
		return err
	case "needs":
		for need := range strings.FieldsSeq(value) {
			s.Needs = append(s.Needs, Need(need))
		}
	case "differs":
		s.Differs = append(s.Differs, value)
	case "not":
		why, found := strings.CutPrefix(value, "failover because ")
		if s.NotFailOver = why; !found {
			return fmt.Errorf("not: want \"failover because ...\", got %q", value)
		}
		s.Needs = append(s.Needs, NeedSameLeader)
	case "limits":
		return s.parseLimits(value)
	case "recorded":
		s.Recorded = true
	case "node":
		s.node = value
	case "ids":
		if s.exact = value == "exact"; !s.exact {
			return fmt.Errorf("ids: want exact, got %q", value)
		}
	}
	return nil
}

func (s *Script) parseLimits(value string) error {
	for field := range strings.FieldsSeq(value) {
		key, number, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(number)
		switch {
		case err != nil:
			return err
		case key == "sessions":
			s.Limits.Sessions = n
		case key == "semaphores":
			s.Limits.Semaphores = n
		case key == "state":
			s.Limits.State = uint64(n)
		case key == "links":
			s.Limits.Links = uint64(n)
		case key == "bytes":
			s.Limits.Bytes = uint64(n)
		case key == "described":
			s.Limits.Described = n
		default:
			return fmt.Errorf("limits: no limit %q", key)
		}
	}
	return nil
}

var requestLine = regexp.MustCompile(`^(\+ )?(?:([a-z][a-z0-9]*): )?(.+)$`)

func parseRequest(line string) (request, error) {
	parts := requestLine.FindStringSubmatch(line)
	if parts == nil || strings.HasPrefix(line, "#") {
		return request{}, fmt.Errorf("not a request: %q", line)
	}
	r := request{together: parts[1] != "", stream: parts[2], fields: make(map[string]string)}
	tokens, err := tokenize(parts[3])
	if err != nil {
		return request{}, err
	}
	for _, token := range tokens {
		switch {
		case token.key == "":
			r.words = append(r.words, token.value)
		case r.fields[token.key] != "":
			return request{}, fmt.Errorf("%q is given twice", token.key)
		default:
			r.fields[token.key] = token.value
		}
	}
	return r, nil
}

const (
	dashes         = "----"
	dashesAnyOrder = "---- in any order"
)

var messageLine = regexp.MustCompile(`^([a-z][a-z0-9]*) <- (.+)$`)

func (p *parser) expected(s *step) error {
	if !strings.HasPrefix(p.line(), dashes) {
		return nil
	}
	s.dashes, s.anyOrder = true, p.line() == dashesAnyOrder
	if !s.anyOrder && p.line() != dashes {
		return fmt.Errorf("want %q or %q", dashes, dashesAnyOrder)
	}
	for p.at++; p.line() != ""; p.at++ {
		if rest, continued := strings.CutPrefix(p.line(), "  "); continued && len(s.expected) > 0 {
			last := &s.expected[len(s.expected)-1]
			last.Text += "\n  " + rest
			continue
		}
		parts := messageLine.FindStringSubmatch(p.line())
		if parts == nil {
			return fmt.Errorf("not a message: %q", p.line())
		}
		s.expected = append(s.expected, Line{From: parts[1], Text: parts[2]})
	}
	return nil
}

// deriveNeeds adds what the steps and limits imply to what the head names.
func (s *Script) deriveNeeds() {
	if s.Limits != coordination.DefaultLimits() {
		s.Needs = append(s.Needs, NeedLimits)
	}
	for _, step := range s.steps {
		for _, r := range step.requests {
			if r.stream == "" && len(r.words) > 1 && r.words[0] == "limiter" && r.words[1] == "acquire" {
				s.Needs = append(s.Needs, NeedWire) // units are handed out beside the rings
			}
			switch {
			case r.stream == "" && r.words[0] == "restart":
				s.Needs = append(s.Needs, NeedRestart)
			case r.stream == "" && r.words[0] == "hold":
				s.Needs = append(s.Needs, NeedHold)
			case r.fields["server"] != "":
				s.Needs = append(s.Needs, NeedServers)
			case r.fields["user"] != "":
				s.Needs = append(s.Needs, NeedUsers)
			case r.stream != "" && r.words[0] == "raw":
				s.Needs = append(s.Needs, NeedWire)
			}
		}
	}
	if s.waits() > longestRealWait && !s.Recorded {
		s.Needs = append(s.Needs, NeedClock)
	}
	slices.Sort(s.Needs)
	s.Needs = slices.Compact(s.Needs)
}

// parseRules reads a head line: the document, then sections with their rules, such as "coordination §3.4 8c,
// §3.5 1".
func parseRules(value string) ([]string, error) {
	document, list, found := strings.Cut(value, " ")
	if !found {
		return nil, fmt.Errorf("rule: want a document and a section, got %q", value)
	}
	var rules []string
	for rule := range strings.SplitSeq(list, ", ") {
		if !strings.HasPrefix(rule, "§") {
			return nil, fmt.Errorf("rule: %q does not begin with §", rule)
		}
		rules = append(rules, document+" "+rule)
	}
	return rules, nil
}

// waits is the sum of the script's waits.
func (s *Script) waits() time.Duration {
	var sum time.Duration
	s.eachWait(func(d time.Duration) { sum += d })
	return sum
}
