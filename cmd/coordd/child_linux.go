package main

import "syscall"

// endWithParent has a command killed when this process ends, however that comes about.
func endWithParent(attributes *syscall.SysProcAttr) { attributes.Pdeathsig = syscall.SIGKILL }
