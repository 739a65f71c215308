#!/bin/sh
# Restarts the servers of a cluster one after the other, each only while all of them serve: so a majority always does,
# and sessions live on. It ends with an error at the first server that does not serve in time, and restarts no other.
#
#	RESTART='ssh "$host" sudo systemctl restart coordd' \
#		deploy/rolling-restart.sh grpcs://a.example.net:2135/local grpcs://b.example.net:2135/local ...
#
# The arguments are the connection strings of all servers. RESTART is the shell command that restarts one of them: $server
# is its connection string, and $host its host name. It may return before the server serves again, but not before the
# server has stopped. WAIT (2m) bounds the time for which a server may not serve. Other variables, such as
# COORDD_CA_FILE, are those of `coordd health`.
set -eu

[ $# -gt 0 ] && [ -n "${RESTART:-}" ] || {
	echo 'usage: RESTART=COMMAND rolling-restart.sh CONNECTION_STRING...' >&2
	exit 2
}

for server; do
	for other; do
		coordd health --wait "${WAIT:-2m}" --endpoint "$other" >/dev/null || {
			echo "rolling-restart: $other does not serve, so $server is not restarted" >&2
			exit 1
		}
	done
	host=${server#*://} host=${host%%/*} host=${host%:*}
	echo "rolling-restart: $server"
	export server host
	sh -c "$RESTART"
done
for other; do
	coordd health --wait "${WAIT:-2m}" --endpoint "$other" >/dev/null || {
		echo "rolling-restart: $other does not serve" >&2
		exit 1
	}
done
