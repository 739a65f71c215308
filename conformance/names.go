package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// names gives names to what servers number. Ids belong to a node; the node is its path without superfluous
// slashes.
type names struct {
	exact    bool
	sessions map[sessionKey]string
	ids      map[string]uint64 // session ids by name
	nodes    []string
	orders   [][]uint64 // shown so far, ascending, by the node's place in nodes
}

type sessionKey struct {
	node string
	id   uint64
}

func newNames(exact bool) *names {
	return &names{exact: exact, sessions: make(map[sessionKey]string), ids: make(map[string]uint64)}
}

// started binds a new session to the stream that created it.
func (n *names) started(node string, id uint64, stream string) {
	name := stream
	for n.ids[name] != 0 {
		name += "'"
	}
	n.ids[name] = id
	n.sessions[sessionKey{node, id}] = name
}

// sessionID reads a session by its name or its number.
func (n *names) sessionID(value string) (uint64, error) {
	if id, known := n.ids[value]; known {
		return id, nil
	}
	id, err := parseNumber(value)
	if err != nil {
		return 0, fmt.Errorf("no session %s", value)
	}
	return id, nil
}

// nodeNames shows the ids of one node.
type nodeNames struct {
	*names
	node string
}

func (n nodeNames) session(id uint64) string {
	if name := n.sessions[sessionKey{n.node, id}]; name != "" && !n.exact {
		return name
	}
	return ShowNumber(id)
}

// order shows an order id. Its rank is known only when all have been seen, so a mark stands for it until
// then.
func (n nodeNames) order(id uint64) string {
	if n.exact {
		return strconv.FormatUint(id, 10)
	}
	node := slices.Index(n.nodes, n.node)
	if node < 0 {
		node = len(n.nodes)
		n.nodes, n.orders = append(n.nodes, n.node), append(n.orders, nil)
	}
	if at, known := slices.BinarySearch(n.orders[node], id); !known {
		n.orders[node] = slices.Insert(n.orders[node], at, id)
	}
	return fmt.Sprintf("\x00%d\x00%d\x00", node, id)
}

var orderMark = regexp.MustCompile("\x00(\\d+)\x00(\\d+)\x00")

// resolve replaces the marks by ranks.
func (n *names) resolve(text string) string {
	return orderMark.ReplaceAllStringFunc(text, func(mark string) string {
		parts := orderMark.FindStringSubmatch(mark)
		node, _ := strconv.Atoi(parts[1])
		id, _ := strconv.ParseUint(parts[2], 10, 64)
		at, _ := slices.BinarySearch(n.orders[node], id)
		return "#" + strconv.Itoa(at+1)
	})
}

// CleanPath is a path without superfluous slashes.
func CleanPath(path string) string {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	return "/" + strings.Join(parts, "/")
}
