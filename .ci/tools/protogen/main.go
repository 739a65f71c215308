// Command protogen turns .proto files into Go code. It is what protoc does with
// its Go plugins, but built from Go modules alone, so that a fresh machine needs
// nothing but Go.
//
//	protogen -plugin FILE[,FILE...] [-check] ROOT PROTO...
//
// ROOT is the folder that import paths start from. The PROTO files are named
// relative to it, and each result is written next to its source. With -check
// nothing is written: the results are compared with the files that are there,
// and a difference ends the program with status 1.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	plugins := flag.String("plugin", "", "the protoc-gen-go program, and others behind commas")
	check := flag.Bool("check", false, "compare instead of write")
	flag.Parse()
	if *plugins == "" || flag.NArg() < 2 {
		fmt.Fprintln(os.Stderr, "usage: protogen -plugin FILE[,FILE...] [-check] ROOT PROTO...")
		os.Exit(2)
	}
	if err := run(strings.Split(*plugins, ","), flag.Arg(0), flag.Args()[1:], *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// run generates the code of the given sources and writes it, or compares it
// where check is set.
func run(plugins []string, root string, sources []string, check bool) error {
	request, err := compile(root, sources)
	if err != nil {
		return err
	}
	results := map[string][]byte{}
	for _, plugin := range plugins {
		made, err := generate(plugin, request)
		if err != nil {
			return err
		}
		maps.Copy(results, made)
	}
	if check {
		return compare(root, sources, results)
	}
	for name, content := range results {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compile parses the sources and everything they import. The sources are sorted,
// so the order on the command line cannot reach the output.
func compile(root string, sources []string) (*pluginpb.CodeGeneratorRequest, error) {
	sources = slices.Clone(sources)
	slices.Sort(sources)
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(
			&protocompile.SourceResolver{ImportPaths: []string{root}}),
		// comments of the .proto become comments of the Go code
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), sources...)
	if err != nil {
		return nil, err
	}
	return &pluginpb.CodeGeneratorRequest{
		FileToGenerate: sources,
		Parameter:      proto.String("paths=source_relative"),
		ProtoFile:      importsFirst(files),
	}, nil
}

// importsFirst lists the files and all they import, each once and behind its own
// imports, which is the order that plugins rely on.
func importsFirst(files linker.Files) []*descriptorpb.FileDescriptorProto {
	var list []*descriptorpb.FileDescriptorProto
	seen := map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		list = append(list, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	return list
}

// generate runs the plugin and returns the content of each file it made, by name
// relative to the root.
func generate(plugin string, request *pluginpb.CodeGeneratorRequest) (map[string][]byte, error) {
	input, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return nil, err
	}
	command := exec.Command(plugin)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", plugin, err)
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &response); err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", plugin, err)
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	results := map[string][]byte{}
	for _, file := range response.File {
		results[file.GetName()] = []byte(file.GetContent())
	}
	return results, nil
}

// compare reports every result that differs from the file on disk, and every
// generated file beside the sources that no source makes any more.
func compare(root string, sources []string, results map[string][]byte) error {
	var stale []string
	for name, content := range results {
		current, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(current, content) {
			stale = append(stale, name)
		} else if err != nil {
			return err
		}
	}
	folders := map[string]bool{}
	for _, source := range sources {
		folders[filepath.Dir(source)] = true
	}
	for folder := range folders {
		generated, err := filepath.Glob(filepath.Join(root, folder, "*.pb.go"))
		if err != nil {
			return err
		}
		for _, path := range generated {
			name := filepath.ToSlash(filepath.Join(folder, filepath.Base(path)))
			if _, made := results[name]; !made {
				stale = append(stale, name+" (no source)")
			}
		}
	}
	if len(stale) > 0 {
		slices.Sort(stale)
		return fmt.Errorf("not up to date, run `make generate`: %s", strings.Join(stale, ", "))
	}
	return nil
}
