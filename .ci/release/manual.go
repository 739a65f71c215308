package main

import (
	"fmt"
	"regexp"
	"strings"
)

// manual returns the man pages of a program and of all its commands, by their names. They are made of what the
// program's help prints.
func (r *release) manual(program string) (map[string]string, error) {
	pages := make(map[string]string)
	var add func(path []string, about string) error
	add = func(path []string, about string) error {
		help, err := output(r.binary(host(), program), append(append([]string{}, path...), "--help")...)
		if err != nil {
			return err
		}
		name := strings.Join(append([]string{program}, path...), "-")
		sections, commands := sectionsOf(help)
		if about == "" {
			about, _, _ = strings.Cut(sections[0].text, ":")
			about = strings.TrimPrefix(strings.Join(strings.Fields(about), " "), program+" is ")
		}
		pages[name+".1"] = r.page(program, name, about, sections)
		for _, command := range commands {
			if err := add(append(path[:len(path):len(path)], command[0]), command[1]); err != nil {
				return err
			}
		}
		return nil
	}
	return pages, add(nil, "")
}

// section is a part of a help text.
type section struct{ title, text string }

var (
	helpTitle   = regexp.MustCompile(`^([A-Z][A-Za-z ]*):$`)
	helpCommand = regexp.MustCompile(`^  ([a-z-]+) +(\S.*)$`)
	titles      = map[string]string{"Usage": "SYNOPSIS", "Available Commands": "COMMANDS", "Flags": "OPTIONS",
		"Global Flags": "GLOBAL OPTIONS"}
)

// sectionsOf splits a help text at its titles, the description first, and lists its commands with what they do.
func sectionsOf(help string) (sections []section, commands [][2]string) {
	sections = []section{{title: "DESCRIPTION"}}
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, " \n")
		last := &sections[len(sections)-1]
		if found := helpTitle.FindStringSubmatch(line); found != nil {
			title := titles[found[1]]
			if title == "" {
				title = strings.ToUpper(found[1])
			}
			sections = append(sections, section{title: title})
			continue
		}
		if found := helpCommand.FindStringSubmatch(line); found != nil && last.title == "COMMANDS" {
			commands = append(commands, [2]string{found[1], found[2]})
		}
		if !strings.HasPrefix(line, `Use "`) {
			last.text += line + "\n"
		}
	}
	return sections, commands
}

var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// page returns a man page. Help texts are broken into lines already.
func (r *release) page(program, name, about string, sections []section) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s \"%s %s\"\n.nh\n.ad l\n.SH NAME\n%s \\- %s\n", strings.ToUpper(roff.Replace(name)),
		r.time.Format("2006-01-02"), program, r.version, roff.Replace(name), roff.Replace(about))
	for _, s := range sections {
		text := strings.Trim(s.text, "\n")
		if text == "" {
			continue
		}
		fmt.Fprintf(&b, ".SH %s\n.nf\n", s.title)
		for line := range strings.Lines(text + "\n") {
			if strings.HasPrefix(line, ".") {
				b.WriteString(`\&`)
			}
			b.WriteString(roff.Replace(line))
		}
		b.WriteString(".fi\n")
	}
	if name != program {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff.Replace(program))
	}
	return b.String()
}
