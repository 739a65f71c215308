package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/exit"
	"github.com/coordd/coordd/server"
	"github.com/coordd/coordd/server/listen"
)

const ctlText = `Order a fault on a stand-in, by the name of the fault and KEY=VALUE for what it wants:

  coordd-standin ctl help
  coordd-standin ctl fail-next kind=acquire n=2 status=UNAVAILABLE
  coordd-standin ctl expire-session node=/local/locks session=1
  coordd-standin ctl reset

The variable COORDD_STANDIN or --standin says where the stand-in serves monitoring
programs, as HOST:PORT. What it answers is printed as JSON, a text as it is.`

const (
	addressVariable = "COORDD_STANDIN"
	defaultAddress  = "127.0.0.1:8765"
	// orderPatience limits the wait for an order.
	orderPatience = time.Minute
	// maxAnswerBytes bounds what a stand-in may answer.
	maxAnswerBytes = 16 << 20
)

func (p *program) ctlCommand() *cobra.Command {
	address := cmdline.RawFlag{Placeholder: "HOST:PORT"}
	command := &cobra.Command{
		Use:     "ctl FAULT [KEY=VALUE]...",
		Short:   "Order a fault on a stand-in",
		Long:    ctlText,
		Example: "  coordd-standin ctl pending",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("no fault given; 'coordd-standin ctl help' lists them")
			}
			return p.order(cmp.Or(address.Text, p.Environ.Value(addressVariable), defaultAddress), args)
		},
	}
	command.Flags().Var(&address, "standin", "where the stand-in serves monitoring programs (default: "+
		addressVariable+", or "+defaultAddress+")")
	return command
}

// order gives a stand-in an order and prints the answer.
func (p *program) order(address string, args []string) error {
	values := map[string]string{}
	for _, arg := range args[1:] {
		key, value, found := strings.Cut(arg, "=")
		if _, twice := values[key]; !found || key == "" || key == "do" || twice {
			return exit.Usagef("argument %q is not allowed: want KEY=VALUE, each key once", arg)
		}
		values[key] = value
	}
	values["do"] = args[0]
	body, err := json.Marshal(values)
	if err != nil {
		return err
	}
	address = strings.TrimSuffix(strings.TrimPrefix(address, "http://"), "/")
	ctx, cancel := context.WithTimeout(context.Background(), orderPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+server.FaultsPath,
		bytes.NewReader(body))
	if err != nil {
		return exit.Usagef("stand-in %q: want HOST:PORT", address)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(listen.OrderHeader, "1")
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // and no proxy
	answer, err := client.Do(request)
	if err != nil {
		return exit.With(exit.NotServing, fmt.Errorf("no stand-in at %s: %w", address, err))
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswerBytes))
	if err != nil {
		return err
	}
	return p.showOrder(address, answer, text)
}

func (p *program) showOrder(address string, answer *http.Response, text []byte) error {
	var said struct {
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return fmt.Errorf("%s is no stand-in, or may not be asked by that name: %s: %s", address,
			answer.Status, strings.TrimSpace(string(text)))
	}
	switch {
	case said.Error != "" && answer.StatusCode == http.StatusNotFound: // it has met nothing
		return errors.New(said.Error)
	case said.Error != "":
		return exit.With(exit.Usage, errors.New(said.Error))
	}
	var listed map[string]string
	if json.Unmarshal(said.Result, &listed) == nil && listed["help"] != "" {
		for _, name := range slices.Sorted(maps.Keys(listed)) {
			fmt.Fprintf(p.Stdout, "%s %s\n", name, listed[name])
		}
		return nil
	}
	if text := ""; json.Unmarshal(said.Result, &text) == nil { // as a file has it
		fmt.Fprint(p.Stdout, text)
		return nil
	}
	if len(said.Result) > 0 {
		var indented bytes.Buffer
		if err := json.Indent(&indented, said.Result, "", "  "); err != nil {
			return err
		}
		fmt.Fprintln(p.Stdout, indented.String())
	}
	return nil
}
