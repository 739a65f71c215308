package testserver

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// launches has the commands to start. The system kills a child when the thread ends that started it, so one thread
// starts all of them, and lives as long as the test binary.
var launches = sync.OnceValue(func() chan<- launch {
	queue := make(chan launch)
	go func() {
		runtime.LockOSThread()
		for l := range queue {
			if l.command.SysProcAttr == nil {
				l.command.SysProcAttr = new(syscall.SysProcAttr)
			}
			l.command.SysProcAttr.Pdeathsig = syscall.SIGKILL
			l.done <- l.command.Start()
		}
	}()
	return queue
})

type launch struct {
	command *exec.Cmd
	done    chan error
}

// StartCommand starts a command that the system kills when the test binary ends, however that ends.
func StartCommand(command *exec.Cmd) error {
	l := launch{command, make(chan error)}
	launches() <- l
	return <-l.done
}
