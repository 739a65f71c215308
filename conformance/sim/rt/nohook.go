//go:build !simrt && !simdisk

package rt

// DiskHooked reports whether the program has the part of the patched standard library that HookDisk needs.
const DiskHooked = false

// HookDisk installs a hook before everything that changes a file.
func HookDisk(DiskHook) {}
