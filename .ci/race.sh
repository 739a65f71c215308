# Sourced by the scripts in this folder. raced is go test with the race detector or, without a C compiler and the C
# library's headers, without it; race tells which: it is empty without.
race=
raced=(go test)
if printf '#include <pthread.h>\nint main(void) { return 0; }\n' | $(go env CC) -x c -o /dev/null - >/dev/null 2>&1; then
	race=yes
	# Unless told otherwise, the detector maps the shadow of large pieces of memory anew each time they are allocated, which is
	# slow. The compiler's checks of unsafe pointers, which come with -race, take a twentieth of the time and concern no code
	# of this repository.
	raced=(env CGO_ENABLED=1 GORACE="clear_shadow_mmap_threshold=268435456 atexit_sleep_ms=200 ${GORACE:-}"
		go test -race -gcflags=all=-d=checkptr=0)
fi

race_note() {
	[ -n "$race" ] || cat >&2 <<-'END'
		**********************************************************************
		*  NO C COMPILER: the tests run WITHOUT the race detector (-race).   *
		*  Install gcc and the C library headers to have it.                 *
		**********************************************************************
	END
}
