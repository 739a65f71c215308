package main

import (
	"os"

	"github.com/coordd/coordd/internal/cmdline"
	"github.com/coordd/coordd/internal/serve"
)

func main() {
	os.Exit(int(runCommand(cmdline.OfProcess(), seams{easeTimers: serve.EaseTimers, start: serve.Start,
		stopTimeout: serve.StopTimeout, check: checkDirectory}, os.Args[1:])))
}
