package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
)

// batchLineMost bounds a line of a batch: data has room in it, also where much of it is escaped.
const batchLineMost = 4 << 20

const batchText = `Do what the lines on stdin say, each a command as it would stand behind 'coordd', by one
connection and one login. It stops at the first that fails, and ends with its exit code.

Words can be quoted as for a shell: nothing in 'single quotes' is special, and in "double
quotes" a backslash keeps a quote or a backslash from being so. Lines that begin with # and
empty ones are left out. Commands that go on until they are stopped, or run others, cannot
be in a batch.`

func (p *program) batchCommand() *cobra.Command {
	f := new(callerFlags)
	command := &cobra.Command{
		Use:   "batch",
		Short: "Do what the lines on stdin say",
		Long:  "Do what the lines on stdin say.\n\n" + batchText + "\n\n" + callerText,
		Example: `  printf 'node create app\nconfig set app greeting "hello, world"\n' | coordd batch
  echo 'sem ls app -o jsonl' | coordd batch`,
		Args: cmdline.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			f.keepStdin = true
			c, err := f.open(context.Background(), p)
			if err != nil {
				return err
			}
			defer c.Close()
			return p.doBatch(c)
		},
	}
	f.declareCaller(command.Flags())
	p.remember(command, f)
	return command
}

func (p *program) doBatch(c *caller) error {
	shared := *c
	shared.shared = true
	lines := bufio.NewScanner(p.stdin)
	lines.Buffer(nil, batchLineMost)
	number := 1
	for ; lines.Scan(); number++ {
		words, err := splitWords(lines.Text())
		if err == nil && len(words) > 0 {
			err = p.inBatch(&shared).doLine(words)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return exit.Usagef("line %d: more than %d bytes are not allowed", number, batchLineMost)
	}
	return lines.Err()
}

// inBatch is the program for one line of a batch.
func (p *program) inBatch(c *caller) *program {
	line := *p
	line.batch, line.callers, line.stdin = c, nil, noInput{}
	return &line
}

// noInput is the stdin of commands whose program reads its own as something else.
type noInput struct{}

// Read fails.
func (noInput) Read([]byte) (int, error) {
	return 0, exit.Usagef("stdin has the commands of the batch")
}

var _ io.Reader = noInput{}

func (p *program) doLine(words []string) error {
	found, _, err := p.newRoot().Find(words)
	if _, asks := found.Annotations[asksOnce]; err == nil && !asks && !found.HasSubCommands() {
		return exit.Usagef("%s cannot be in a batch", found.CommandPath())
	}
	_, err = p.execute(words)
	return err
}

// splitWords takes a line apart as a shell would, and replaces nothing. A line of a comment has no words.
func splitWords(line string) (words []string, err error) {
	var word strings.Builder
	inWord, quote := false, rune(0)
	runes := []rune(line)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case quote != 0 && r == quote:
			quote = 0
		case r == '\\' && i+1 < len(runes) &&
			(quote == 0 || quote == '"' && (runes[i+1] == '"' || runes[i+1] == '\\')):
			i++
			word.WriteRune(runes[i])
			inWord = true
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case r == ' ' || r == '\t' || r == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
			}
			inWord = false
		case r == '#' && !inWord:
			return words, nil
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	switch {
	case quote != 0:
		return nil, exit.Usagef("the quote %c is not closed", quote)
	case inWord:
		words = append(words, word.String())
	}
	return words, nil
}
