package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ydb-platform/ydb-go-genproto/protos/Ydb"
)

// Controls takes the orders that come from outside of the process of a stand-in, by HTTP and by `coordd-standin ctl`:
// orders, each with a name and arguments. It is an http.Handler for server.HTTP.Faults, which sees to who may
// ask.
type Controls struct {
	mutex  sync.Mutex
	orders map[string]order
	// log is called before an order that changes something, and what it returns after that.
	log func(name string, values map[string]any) (done func(any, error))
}

type order struct {
	help string
	do   func(context.Context, *Arguments) (any, error)
	look bool // it changes nothing
}

// Arguments are those of an order. What cannot be read, and what nobody has asked for, is an error of Done.
type Arguments struct {
	values map[string]any
	err    error
}

// take removes an argument.
func (a *Arguments) take(key string) (string, bool) {
	value, found := a.values[key]
	delete(a.values, key)
	switch value := value.(type) {
	case nil:
		return "", false
	case string:
		return value, found
	case json.Number:
		return value.String(), found
	case bool:
		return strconv.FormatBool(value), found
	}
	a.fail(key, fmt.Errorf("want a text, a number, true or false"))
	return "", false
}

func (a *Arguments) fail(key string, err error) {
	if a.err == nil && err != nil {
		a.err = fmt.Errorf("%s: %w", key, err)
	}
}

// Text is an argument that is a text, empty if it is missing.
func (a *Arguments) Text(key string) string {
	text, _ := a.take(key)
	return text
}

// Number is an argument that is a number.
func (a *Arguments) Number(key string, absent uint64) uint64 {
	text, found := a.take(key)
	if !found {
		return absent
	}
	n, err := strconv.ParseUint(text, 10, 64)
	a.fail(key, err)
	return n
}

// Count is an argument that is a number.
func (a *Arguments) Count(key string, absent int) int {
	text, found := a.take(key)
	if !found {
		return absent
	}
	n, err := strconv.Atoi(text)
	a.fail(key, err)
	return n
}

// Fraction is an argument that is a number from 0 to 1.
func (a *Arguments) Fraction(key string) float64 {
	text, _ := a.take(key)
	p, err := strconv.ParseFloat(text, 64)
	a.fail(key, err)
	return p
}

// Duration is an argument such as 10s.
func (a *Arguments) Duration(key string) time.Duration {
	text, _ := a.take(key)
	d, err := time.ParseDuration(text)
	a.fail(key, err)
	return d
}

// Flag is an argument that is true or false; false if it is missing.
func (a *Arguments) Flag(key string) bool { return a.Switch(key, false) }

// Switch is an argument that is true or false.
func (a *Arguments) Switch(key string, absent bool) bool {
	text, found := a.take(key)
	if !found {
		return absent
	}
	flag, err := strconv.ParseBool(text)
	a.fail(key, err)
	return flag
}

// Filter is the arguments node, session, client and server.
func (a *Arguments) Filter() Filter {
	return Filter{Node: a.Text("node"), Session: a.Number("session", 0), Client: a.Text("client"),
		Server: a.Count("server", 0)}
}

// status is an argument that is a status of YDB, by its name.
func (a *Arguments) status(key string) Status {
	text, found := a.take(key)
	if !found {
		return Ydb.StatusIds_STATUS_CODE_UNSPECIFIED
	}
	number, known := Ydb.StatusIds_StatusCode_value[strings.ToUpper(text)]
	if !known {
		a.fail(key, fmt.Errorf("there is no status %q", text))
	}
	return Ydb.StatusIds_StatusCode(number)
}

// Done reports the first argument that cannot be used. Nothing may be done before.
func (a *Arguments) Done() error {
	if a.err == nil && len(a.values) > 0 {
		return fmt.Errorf("nobody wants %s", strings.Join(slices.Sorted(maps.Keys(a.values)), ", "))
	}
	return a.err
}

// Controls are the orders for the faults of a set. More may be added.
func (s *Set) Controls() *Controls {
	c := &Controls{orders: make(map[string]order), log: s.messages.order}
	s.messages.watched.Store(true)
	c.Look("help", "what can be ordered", func(context.Context, *Arguments) (any, error) {
		return c.help(), nil
	})
	c.Add("reset", "take all faults back; answers which of them have met no request", plain(func() any {
		if missed := s.Reset(); len(missed) > 0 {
			return map[string]any{"missed": missed}
		}
		return nil
	}))
	c.Look("requests", "what clients have asked for", plain(func() any {
		return map[string]any{"requests": s.Requests(), "dropped": s.RequestsDropped()}
	}))
	c.Add("forget-requests", "empty the list of requests",
		plain(func() any { s.ForgetRequests(); return nil }))
	c.Look("pending", "how many faults wait for a request", plain(func() any { return s.Pending() }))
	c.Look("rules", "the faults that wait for requests, or have waited, with what each has met",
		plain(func() any { return s.Rules() }))
	c.Look("kinds", "the kinds of requests, each with the statuses with which it may fail",
		plain(func() any { return statusesByKind() }))
	c.Look("messages", "[after=0]: the last 200 messages of clients and servers, and the orders between them",
		func(_ context.Context, a *Arguments) (any, error) {
			after := a.Number("after", 0)
			return a.Then(func() (any, error) { return s.Messages(after), nil })
		})
	s.addRules(c)
	s.addDrops(c)
	s.addServers(c)
	return c
}

func plain(do func() any) func(context.Context, *Arguments) (any, error) {
	return func(_ context.Context, a *Arguments) (any, error) {
		if err := a.Done(); err != nil {
			return nil, err
		}
		return do(), nil
	}
}

const filterHelp = " [node= session= client= server=] [may_miss=true]"

func (s *Set) addRules(c *Controls) {
	c.Add("fail-next", "kind= [n=1] status= [text=] [impossible=true]"+filterHelp+
		": the next requests fail, before they are executed",
		func(_ context.Context, a *Arguments) (any, error) {
			kind, n, status, text, more := Kind(a.Text("kind")), a.Count("n", 1), a.status("status"),
				a.Text("text"), a.options()
			return a.Then(func() (any, error) {
				return troubledBy(s.FailNext(kind, n, status, text, more...))
			})
		})
	c.Add("fail-some", "kind= p= seed= [status= text=] [impossible=true]"+filterHelp+
		": requests fail with a probability, until reset",
		func(_ context.Context, a *Arguments) (any, error) {
			kind, p, seed, more := Kind(a.Text("kind")), a.Fraction("p"), a.Number("seed", 0), a.options()
			if status, text := a.status("status"),
				a.Text("text"); status != Ydb.StatusIds_STATUS_CODE_UNSPECIFIED {
				more = append(more, With(status, text))
			}
			return a.Then(func() (any, error) { return troubledBy(s.FailSome(kind, p, seed, more...)) })
		})
	c.Add("delay-next", "kind= [n=1] d=1s"+filterHelp+": the next requests reach the server later",
		func(_ context.Context, a *Arguments) (any, error) {
			kind, n, d, more := Kind(a.Text("kind")), a.Count("n", 1), a.Duration("d"), a.options()
			return a.Then(func() (any, error) { return nil, s.DelayNext(kind, n, d, more...) })
		})
	for name, fault := range map[string]struct {
		help string
		add  func(Kind, int, ...Option) error
	}{
		"answer-lost": {": the next requests are executed, and their streams end before the answer",
			s.AnswerLost},
		"repeat-next": {": as answer-lost, and once more when the session is back", s.RepeatNext},
	} {
		c.Add(name, "kind= [n=1]"+filterHelp+fault.help, func(_ context.Context, a *Arguments) (any, error) {
			kind, n, more := Kind(a.Text("kind")), a.Count("n", 1), a.options()
			return a.Then(func() (any, error) { return nil, fault.add(kind, n, more...) })
		})
	}
}

func (s *Set) addDrops(c *Controls) {
	c.Add("drop-streams", "how=clean|reset|silence|black-hole"+filterHelp+": lose the streams that are open",
		func(_ context.Context, a *Arguments) (any, error) {
			how, f, more := Drop(a.Text("how")), a.Filter(), a.mayMiss()
			return a.Then(func() (any, error) { return s.DropStreams(f, how, more...) })
		})
	c.Add("detach-session",
		"node= session= [may_miss=true]: end the stream of a session, whose timeout runs from now on",
		func(_ context.Context, a *Arguments) (any, error) {
			node, session, more := a.Text("node"), a.Number("session", 0), a.mayMiss()
			return a.Then(func() (any, error) { return nil, s.DetachSession(node, session, more...) })
		})
	c.Add("spurious-notice", "[semaphore=]"+filterHelp+": tell watches of a change that was none",
		func(_ context.Context, a *Arguments) (any, error) {
			semaphore, f, more := a.Text("semaphore"), a.Filter(), a.mayMiss()
			return a.Then(func() (any, error) { return s.SpuriousNotice(f, semaphore, more...) })
		})
}

func (a *Arguments) options() []Option {
	options := append(a.mayMiss(), Where(a.Filter()))
	if a.Flag("impossible") {
		options = append(options, Impossible())
	}
	return options
}

// mayMiss is the argument of that name, as an option.
func (a *Arguments) mayMiss() []Option {
	if a.Flag("may_miss") {
		return []Option{MayMiss()}
	}
	return nil
}

// Then does something once all arguments are read.
func (a *Arguments) Then(do func() (any, error)) (any, error) {
	if err := a.Done(); err != nil {
		return nil, err
	}
	return do()
}

// troubledBy is the answer to an order that some SDKs do not get over.
func troubledBy(troubled string, err error) (any, error) {
	if err != nil || troubled == "" {
		return nil, err
	}
	return map[string]string{"troubled": troubled}, nil
}

// Add adds an order. help begins with its arguments.
func (c *Controls) Add(name, help string, do func(context.Context, *Arguments) (any, error)) {
	c.add(name, order{help: help, do: do})
}

// Look is Add for an order that changes nothing: Messages does not have it.
func (c *Controls) Look(name, help string, do func(context.Context, *Arguments) (any, error)) {
	c.add(name, order{help: help, do: do, look: true})
}

func (c *Controls) add(name string, o order) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.orders[name] = o
}

func (c *Controls) help() map[string]string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	help := make(map[string]string, len(c.orders))
	for name, o := range c.orders {
		help[name] = o.help
	}
	return help
}

// Do carries out an order. Its values are texts, json.Numbers and bools.
func (c *Controls) Do(ctx context.Context, name string, values map[string]any) (any, error) {
	c.mutex.Lock()
	o, known := c.orders[name]
	c.mutex.Unlock()
	if !known {
		return nil, fmt.Errorf("no order is called %q; there are %s", name,
			strings.Join(slices.Sorted(maps.Keys(c.help())), ", "))
	}
	done := func(any, error) {}
	if !o.look {
		done = c.log(name, values)
	}
	result, err := o.do(ctx, &Arguments{values: values})
	done(result, err)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return result, nil
}

// orderPatience limits the duration of an order.
const orderPatience = time.Minute

// answer is the JSON answer to an order.
type answer struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
}

// ServeHTTP takes an order as a JSON object, whose "do" is the name and whose other fields are the arguments.
func (c *Controls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	values := map[string]any{}
	decoder := json.NewDecoder(r.Body)
	decoder.UseNumber()
	err := decoder.Decode(&values)
	name, _ := values["do"].(string)
	if delete(values, "do"); err == nil && name == "" {
		err = fmt.Errorf(`want an object with "do", the name of an order; {"do":"help"} lists them`)
	}
	var result any
	if err == nil {
		result, err = c.Do(r.Context(), name, values)
	}
	// What is ordered may take longer than what monitoring programs ask for.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(orderPatience)) // best effort
	code, said := http.StatusOK, answer{Result: result}
	switch {
	case errors.Is(err, ErrMissed):
		code, said = http.StatusNotFound, answer{Error: err.Error()}
	case err != nil:
		code, said = http.StatusBadRequest, answer{Error: err.Error()}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(said) // who has gone does not need it
}
