package conformance_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/coordd/coordd"

// layer is a row of the table of packages: what a folder and those below it may import besides the standard
// library.
type layer struct {
	folder string
	// ours are folders of this module, with those below them; its own are always allowed.
	ours []string
	// foreign are the import paths that foreign packages must begin with.
	foreign []string
	// pure packages know no clock, chance, goroutine or outer world.
	pure bool
}

const (
	protobuf  = "google.golang.org/protobuf"
	grpc      = "google.golang.org/grpc"
	raft      = "go.etcd.io/raft/v3"
	ydbProtos = "github.com/ydb-platform/ydb-go-genproto"
	system    = "golang.org/x/sys"
	tokens    = "github.com/golang-jwt/jwt/v5"
	passwords = "golang.org/x/crypto/argon2"
	terminal  = "golang.org/x/term"

	prometheus = "github.com/prometheus/client_golang/"
)

// layers is the table of packages of the architecture, the innermost first.
var layers = []layer{
	{folder: "scheme/outcome", pure: true},
	{folder: "scheme", pure: true},
	{folder: "coordination", ours: []string{"scheme"}, pure: true},
	{folder: "coordination/accounts", ours: []string{"scheme"}, pure: true},
	{folder: "coordination/quota", ours: []string{"coordination"}, pure: true},
	{folder: "coordination/codec", ours: []string{"scheme", "coordination"}, foreign: []string{protobuf},
		pure: true},
	{folder: "coordination/codec/internal/logpb", foreign: []string{protobuf}}, // generated
	{folder: "internal/histogram"},
	{folder: "internal/lograte"},
	{folder: "internal/netguard"},
	{folder: "internal/testserver"},
	{folder: "internal/testmode"},
	{folder: "internal/turn"},
	{folder: "internal/notify"},
	{folder: "internal/budget"},
	{folder: "internal/clock", ours: []string{"coordination", "internal/hooks"}},
	{folder: "raftstore", ours: []string{"internal/histogram", "internal/lograte", "internal/turn"},
		foreign: []string{raft, grpc, protobuf}},
	{folder: "raftstore/files"},
	{folder: "raftstore/datadir", ours: []string{"raftstore/checkpoint", "raftstore/files", "raftstore/membership",
		"raftstore/wal", "internal/histogram"},
		foreign: []string{raft}},
	{folder: "raftstore/membership", ours: []string{"raftstore/peerpb"}, foreign: []string{raft, protobuf}, pure: true},
	{folder: "raftstore/peers", ours: []string{"raftstore/membership", "raftstore/peerpb", "internal/lograte",
		"internal/netguard", "internal/turn"},
		foreign: []string{raft, grpc, protobuf}},
	{folder: "raftstore/roster", ours: []string{"raftstore/datadir", "raftstore/membership", "raftstore/peerpb",
		"raftstore/peers", "internal/turn"},
		foreign: []string{grpc}},
	{folder: "raftstore/rig", ours: []string{"raftstore/files"}},
	{folder: "raftstore/wal", ours: []string{"raftstore/files"}},
	{folder: "raftstore/checkpoint", ours: []string{"raftstore/files"}},
	{folder: "server", ours: []string{"scheme", "coordination", "raftstore", "internal/budget", "internal/clock",
		"internal/hooks"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "internal/hooks", ours: []string{"coordination", "raftstore"}, foreign: []string{grpc}},
	{folder: "server/group", ours: []string{"scheme", "coordination", "raftstore", "internal/budget",
		"internal/clock", "internal/lograte", "internal/turn"},
		foreign: []string{grpc}},
	{folder: "server/group/compare", ours: []string{"coordination", "raftstore", "internal/turn",
		"server/group/relaypb"}},
	{folder: "server/group/events", ours: []string{"coordination", "internal/turn"}},
	{folder: "server/group/slowest", ours: []string{"coordination"}},
	{folder: "server/group/relaypb", ours: []string{"scheme", "coordination"}, foreign: []string{protobuf}},
	{folder: "server/group/streams", ours: []string{"coordination", "raftstore", "internal/budget", "internal/clock",
		"internal/hooks", "internal/turn", "server/group/relaypb", "server/group/slowest"},
		foreign: []string{grpc, protobuf}},
	{folder: "server/group/limiter", ours: []string{"scheme", "coordination", "internal/clock", "internal/hooks",
		"internal/turn", "server/group/streams"}},
	{folder: "server/auth", ours: []string{"scheme", "coordination", "server/filestamp", "server/listen",
		"server/share", "internal/lograte", "internal/netguard"},
		foreign: []string{grpc, tokens, passwords}},
	{folder: "server/listen", ours: []string{"raftstore", "server/filestamp", "server/share",
		"internal/lograte", "internal/netguard", "internal/budget"},
		foreign: []string{grpc}},
	{folder: "server/share"},
	{folder: "server/calls", ours: []string{"scheme", "coordination", "server/auth", "server/group", "server/wire",
		"internal/lograte", "internal/budget"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "server/meters", ours: []string{"scheme", "coordination", "server/calls", "internal/histogram",
		"internal/lograte"},
		foreign: []string{grpc}},
	{folder: "server/services", ours: []string{"scheme", "coordination", "server/calls", "server/group",
		"server/wire"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "server/discovery", ours: []string{"scheme", "raftstore", "server/auth", "server/calls", "server/listen"},
		foreign: []string{grpc, ydbProtos}},
	{folder: "server/sessions", ours: []string{"scheme", "coordination", "server/adminpb", "server/auth",
		"server/calls", "server/group", "server/inspect", "server/listen", "server/meters", "server/wire",
		"internal/lograte", "internal/budget"},
		foreign: []string{grpc, ydbProtos}},
	{folder: "server/readiness", ours: []string{"coordination", "scheme", "raftstore", "server/calls", "server/discovery",
		"server/group", "server/listen", "server/statelimit"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "server/statelimit", ours: []string{"coordination", "server/calls"}},
	{folder: "server/admin", ours: []string{"scheme", "coordination", "raftstore", "server/adminpb", "server/auth",
		"server/calls", "server/group", "server/inspect", "server/listen", "server/readiness",
		"server/statelimit", "internal/histogram", "internal/lograte"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "server/users", ours: []string{"scheme", "coordination", "server/adminpb", "server/auth",
		"server/calls", "server/meters"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "server/inspect", ours: []string{"scheme", "coordination", "raftstore", "server/adminpb", "server/calls",
		"server/clusterpb", "server/group", "server/history", "server/meters", "internal/lograte", "internal/budget"},
		foreign: []string{grpc, protobuf}},
	{folder: "server/console", ours: []string{"coordination", "internal/lograte", "server/adminpb", "server/auth",
		"server/listen"},
		foreign: []string{grpc, protobuf}},
	{folder: "server/history", ours: []string{"coordination", "raftstore", "server/adminpb", "server/group",
		"internal/lograte"},
		foreign: []string{protobuf}},
	{folder: "server/filestamp"},
	// Only this package imports Prometheus' library, so that a program that embeds the server does not get it.
	{folder: "server/monitor", ours: []string{"coordination", "server", "internal/budget", "internal/histogram"},
		foreign: []string{prometheus}},
	// What it imports, every test has that uses it: see TestStandInCarriesLittle.
	{folder: "server/standin/faults", ours: []string{"scheme", "server", "internal/hooks", "internal/turn"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "server/standin", ours: []string{"scheme", "coordination", "raftstore", "server", "internal/hooks"},
		foreign: []string{grpc, ydbProtos}},
	{folder: "conformance", ours: []string{"scheme", "coordination"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "conformance/record", ours: []string{"conformance", "server/standin/faults"},
		foreign: []string{grpc, protobuf, ydbProtos}},
	{folder: "conformance/sim", ours: []string{"coordination", "raftstore", "server", "internal/hooks",
		"conformance/model", "conformance/mutation/plant", "conformance/raw", "internal/exit",
		"internal/testserver"},
		foreign: []string{grpc, protobuf, ydbProtos, system}},
	{folder: "conformance/sim/process/simserver", ours: []string{"conformance/sim", "coordination", "internal/cmdline",
		"internal/exit", "internal/hooks", "internal/serve", "raftstore", "server"},
		foreign: []string{"github.com/spf13/pflag"}},
	{folder: "."}, // the notices of the repository
	{folder: "internal/exit"},
	{folder: "internal/devcert"},
	{folder: "internal/cmdline", ours: []string{".", "internal/exit"}, foreign: []string{"github.com/spf13/"}},
	{folder: "internal/serve", ours: []string{"scheme", "coordination", "raftstore", "server", "internal/cmdline",
		"internal/devcert", "internal/exit", "internal/notify"},
		foreign: []string{"github.com/spf13/pflag", "go.yaml.in/yaml/v3", system}},
	{folder: "internal/protocol", foreign: []string{grpc, protobuf, ydbProtos, system}},
	// Programs of others link it: neither the server nor anything of its modules.
	{folder: "client", ours: []string{"internal/protocol"}, foreign: []string{grpc, ydbProtos}},
	{folder: "internal/load"},
	{folder: "internal/tty", foreign: []string{system, terminal}},
	{folder: "cmd/coordd", ours: []string{"raftstore", "server", "internal/protocol", "internal/cmdline",
		"internal/devcert", "internal/exit", "internal/load", "internal/tty", "internal/serve"},
		foreign: []string{grpc, protobuf, ydbProtos, system, terminal, "github.com/spf13/",
			"go.yaml.in/yaml/v3"}},
	{folder: "cmd/coordd-standin", ours: []string{"server", "conformance/record", "internal/protocol",
		"internal/cmdline", "internal/exit", "internal/serve"},
		foreign: []string{grpc, protobuf, ydbProtos, "github.com/spf13/"}},
	{folder: "cmd/coordd-conformance", ours: []string{"conformance", "internal/protocol", "internal/cmdline",
		"internal/exit", "internal/tty"},
		foreign: []string{grpc, "github.com/spf13/"}},
}

// layerOf returns the row for a folder, or nil.
func layerOf(folder string) *layer {
	var found *layer
	for i := range layers {
		if within(folder, layers[i].folder) && (found == nil || len(found.folder) < len(layers[i].folder)) {
			found = &layers[i]
		}
	}
	return found
}

func within(folder, outer string) bool {
	return folder == outer || strings.HasPrefix(folder, outer+"/")
}

func (l *layer) allows(imported string) bool {
	if ours, found := strings.CutPrefix(imported, module+"/"); found && within(ours, l.folder) {
		return true
	}
	if first, _, _ := strings.Cut(imported, "/"); !strings.Contains(first, ".") {
		return true // the standard library
	}
	return slices.ContainsFunc(l.entries(), func(entry string) bool { return covers(entry, imported) })
}

// entries returns the import paths that the row lists.
func (l *layer) entries() []string {
	entries := slices.Clone(l.foreign)
	for _, folder := range l.ours {
		entries = append(entries, path.Join(module, folder))
	}
	return entries
}

// covers reports whether an entry allows an import. One of our folders covers those below it, except for the root; a
// foreign one is a prefix.
func covers(entry, imported string) bool {
	if within(entry, module) {
		return imported == entry || entry != module && within(imported, entry)
	}
	return strings.HasPrefix(imported, entry)
}

// Nothing imports what the architecture does not allow it to, and the pure packages are pure.
func TestArchitecture(t *testing.T) {
	imports := make(map[string][]string) // by the folder of their row
	for name, file := range moduleFiles(t) {
		folder := path.Dir(name)
		l := layerOf(folder)
		if l == nil {
			t.Errorf("%s: the table of packages has no row for %s", name, folder)
			continue
		}
		for _, spec := range file.Imports {
			imported := importPath(spec)
			imports[l.folder] = append(imports[l.folder], imported)
			if !l.allows(imported) {
				t.Errorf("%s imports %s, which %s may not", name, imported, l.folder)
			}
		}
		if l.pure {
			for _, impurity := range impurities(file) {
				t.Errorf("%s: %s in a pure package", name, impurity)
			}
		}
	}
	for i := range layers {
		folder := layers[i].folder
		if len(imports[folder]) == 0 {
			t.Errorf("no import of %s was checked", folder)
		}
		for _, entry := range layers[i].entries() {
			if !slices.ContainsFunc(imports[folder], func(imported string) bool { return covers(entry, imported) }) {
				t.Errorf("%s may import %s, and does not: strike that from the table", folder, entry)
			}
		}
	}
}

// TestStandInCarriesLittle: a test that uses the stand-in links the server, but nothing that only the program needs,
// and a program gets no flags of package testing.
func TestStandInCarriesLittle(t *testing.T) {
	imports := make(map[string][]string)
	for name, file := range moduleFiles(t) {
		for _, spec := range file.Imports {
			imports[path.Dir(name)] = append(imports[path.Dir(name)], importPath(spec))
		}
	}
	reached := map[string]bool{"server/standin": true}
	for queue := []string{"server/standin"}; len(queue) > 0; queue = queue[1:] {
		for _, imported := range imports[queue[0]] {
			ours, is := strings.CutPrefix(imported, module+"/")
			if is && !reached[ours] {
				reached[ours] = true
				queue = append(queue, ours)
			}
			for _, forbidden := range []string{"testing", "flag", prometheus, "github.com/spf13/",
				"go.yaml.in/", "go.opentelemetry.io/", terminal} {
				if imported == forbidden || strings.HasPrefix(imported, forbidden) &&
					strings.Contains(forbidden, "/") {
					t.Errorf("%s, which the stand-in has, imports %s", queue[0], imported)
				}
			}
		}
	}
	for _, folder := range []string{"server", "server/group", "raftstore", "coordination", "scheme"} {
		if !reached[folder] {
			t.Errorf("the stand-in has no %s: nothing was checked", folder)
		}
	}
	if reached["server/monitor"] || reached["conformance"] || reached["cmd/coordd"] {
		t.Errorf("the stand-in has %v", slices.Sorted(maps.Keys(reached)))
	}
}

// The names by which this module reaches into gRPC: methods of types that gRPC does not export, functions that lead
// to such types, and packages of its buffers.
var (
	grpcInternals = []string{"IsBelowBufferPoolingThreshold", "NewContextWithServerTransportStream", "RPCCompressor",
		"RPCDecompressor", "ReadOnReady", "RecvCompress", "SendCompress", "ServerTransportStream",
		"ServerTransportStreamFromContext", "SetSendCompressor"}
	grpcInternalPackages = []string{grpc + "/experimental", grpc + "/internal", grpc + "/mem"}
)

// TestGRPCInternalsAreInOneFile: an update of gRPC can break this file, and no other. Other files may write a
// status by listen.StatusWriter; only this file may assert that gRPC's stream has the method.
func TestGRPCInternalsAreInOneFile(t *testing.T) {
	const place = "server/listen/grpcinternals.go"
	seen := make(map[string]bool)
	for name, file := range moduleFiles(t) {
		for _, used := range usedGRPCInternals(file) {
			if seen[used] = true; name != place {
				t.Errorf("%s uses %s of gRPC, which only %s may", name, used, place)
			}
		}
	}
	for _, want := range []string{"WriteStatus", "SendCompress", "ReadOnReady", grpc + "/mem"} {
		if !seen[want] {
			t.Errorf("nothing uses %s: is the name still right?", want)
		}
	}
}

// usedGRPCInternals lists the uses of gRPC's internals in a file.
func usedGRPCInternals(file *ast.File) (used []string) {
	for _, spec := range file.Imports {
		imported := importPath(spec)
		if slices.ContainsFunc(grpcInternalPackages, func(outer string) bool { return within(imported, outer) }) {
			used = append(used, imported)
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if slices.Contains(grpcInternals, n.Name) {
				used = append(used, n.Name)
			}
		case *ast.InterfaceType:
			for _, method := range n.Methods.List {
				if len(method.Names) == 1 && method.Names[0].Name == "WriteStatus" {
					used = append(used, "WriteStatus")
				}
			}
		}
		return true
	})
	return used
}

// TestProgramHasNoStandIn: the program that serves in earnest has no code that has things go wrong on demand, or writes
// down what clients say.
func TestProgramHasNoStandIn(t *testing.T) {
	listed, err := exec.Command("go", "list", "-deps", "../cmd/coordd").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(listed))
	if !slices.Contains(linked, module+"/server") {
		t.Fatalf("the program has no server: %v", linked)
	}
	for _, name := range linked {
		folder := strings.TrimPrefix(name, module+"/")
		if within(folder, "server/standin") || within(folder, "conformance/record") ||
			within(folder, "conformance/sim") {
			t.Errorf("cmd/coordd is linked with %s", name)
		}
	}
}

// TestCompatHasTheStandInOnly: the tests on SDKs see the server from outside, as a process that testserver starts, but
// for those on the stand-in, and the examples, which show it.
func TestCompatHasTheStandInOnly(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("../compat", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		folder := path.Dir(filepath.ToSlash(strings.TrimPrefix(name, "../")))
		for _, spec := range file.Imports {
			ours, is := strings.CutPrefix(importPath(spec), module+"/")
			switch {
			case !is || within(ours, "compat") || ours == "internal/testserver":
			case within(ours, "server/standin") &&
				(within(folder, "compat/go/standin") || within(folder, "compat/go/examples")):
				seen++
			default:
				t.Errorf("%s imports %s", name, importPath(spec))
			}
		}
		return nil
	})
	if err != nil || seen == 0 {
		t.Errorf("%d files use the stand-in: %v", seen, err)
	}
}

// moduleFiles returns the files of this module by name, for every operating system, without its tests and
// without the modules inside it.
func moduleFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files, err := parseModule()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// parseModule parses them once for all tests.
var parseModule = sync.OnceValues(func() (map[string]*ast.File, error) {
	const root = ".."
	files := make(map[string]*ast.File)
	return files, filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return enter(name, relative)
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files[filepath.ToSlash(relative)] = file
		}
		return nil
	})
})

// enter skips the folders that Go skips, and those of other modules.
func enter(name, relative string) error {
	if relative == "." {
		return nil
	}
	base := filepath.Base(name)
	_, err := os.Stat(filepath.Join(name, "go.mod"))
	if err == nil || base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") ||
		strings.HasPrefix(base, "_") {
		return filepath.SkipDir
	}
	return nil
}

func importPath(spec *ast.ImportSpec) string {
	imported, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(err) // the parser has accepted it
	}
	return imported
}

// The standard library's doors to the clock, to chance, to other goroutines and to the outer world. Of time
// only its types and constants are left.
var (
	impurePackages = []string{"context", "crypto/rand", "log", "math/rand", "net", "os", "runtime", "sync",
		"syscall", "unsafe"}
	clockNames = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick",
		"Until"}
)

// impurities lists what makes a file impure.
func impurities(file *ast.File) []string {
	var found []string
	clock := ""
	for _, spec := range file.Imports {
		imported := importPath(spec)
		for _, impure := range impurePackages {
			if within(imported, impure) {
				found = append(found, "import of "+imported)
			}
		}
		if imported == "time" {
			clock = "time"
			if spec.Name != nil {
				clock = spec.Name.Name
			}
		}
	}
	if clock == "." {
		found = append(found, "dot import of time")
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, "go statement")
		case *ast.ChanType:
			found = append(found, "channel")
		case *ast.SelectorExpr:
			x, ok := n.X.(*ast.Ident)
			if ok && clock != "" && x.Name == clock && slices.Contains(clockNames, n.Sel.Name) {
				found = append(found, "time."+n.Sel.Name)
			}
		}
		return true
	})
	return found
}

// The check itself sees what it should.
func TestImpuritiesAreSeen(t *testing.T) {
	cases := map[string]string{
		`import "time"; var t = time.Now()`:                         "time.Now",
		`import clock "time"; var t = clock.Since`:                  "time.Since",
		`import . "time"; var t = Now()`:                            "dot import of time",
		`import "time"; const second = time.Second`:                 "",
		`import "math/rand/v2"; var n = rand.Int()`:                 "import of math/rand/v2",
		`import "math"; var n = math.Pi`:                            "",
		`import "sync/atomic"; var n atomic.Int64`:                  "import of sync/atomic",
		`import "log/slog"; func f() { slog.Info("x") }`:            "import of log/slog",
		`import "net/url"; var u url.URL`:                           "import of net/url",
		`import "os"; var a = os.Args`:                              "import of os",
		`import "context"; func f(context.Context) {}`:              "import of context",
		`func f() { go f() }`:                                       "go statement",
		`var c chan int`:                                            "channel",
		`type T struct{ Now int }; func f(time T) { _ = time.Now }`: "",
	}
	for _, source := range slices.Sorted(maps.Keys(cases)) {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+source,
			parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(impurities(file), ", "); got != cases[source] {
			t.Errorf("%s: %q, want %q", source, got, cases[source])
		}
	}
}

func TestLayersAreSeen(t *testing.T) {
	cases := []struct {
		folder, imported string
		allowed          bool
	}{
		{"scheme/outcome", "strings", true},
		{"scheme/outcome", module + "/scheme", false},
		{"scheme", "strings", true},
		{"scheme", module + "/scheme/outcome", true},
		{"scheme", module + "/coordination", false},
		{"scheme", protobuf + "/proto", false},
		{"coordination", module + "/scheme", true},
		{"coordination", module + "/coordination/codec", true}, // a cycle, which the compiler refuses
		{"coordination", protobuf + "/proto", false},
		{"coordination/codec", module + "/coordination", true},
		{"coordination/codec", protobuf + "/encoding/protowire", true},
		{"coordination/codec", grpc, false},
		{"raftstore", module + "/coordination", false},
		{"raftstore", module + "/scheme", false},
		{"raftstore", raft + "/raftpb", true},
		{"server", module + "/raftstore", true},
		{"server", module + "/conformance/raw", false},
		{"server/console", module + "/server", false},
		{"server", "github.com/ydb-platform/ydb-go-sdk/v3", false},
		{"internal/hooks", module + "/server/group", false},
		{"server/monitor", prometheus + "prometheus", true},
		{"server", prometheus + "prometheus", false},
		{"server/standin", prometheus + "prometheus", false},
		{"server/standin", module + "/internal/testserver", false},
		{"server/group", prometheus + "prometheus", false},
		{"raftstore", prometheus + "prometheus", false},
		{"internal/histogram", module + "/raftstore", false},
		{"conformance/model", module + "/conformance/rings", true},
		{"cmd/coordd", "github.com/spf13/cobra", true},
		{"cmd/coordd", "github.com/ydb-platform/ydb-go-sdk/v3", false},
		{"internal/protocol", "github.com/ydb-platform/ydb-go-sdk/v3", false},
		{"internal/protocol", module + "/server", false},
		{"internal/protocol", "github.com/spf13/cobra", false},
		{"client", module + "/server", false},
	}
	for _, c := range cases {
		if got := layerOf(c.folder).allows(c.imported); got != c.allowed {
			t.Errorf("%s imports %s: allowed %v", c.folder, c.imported, got)
		}
	}
	if l := layerOf("schemes"); l != nil {
		t.Errorf("schemes is taken for %s", l.folder)
	}
}
