// Package conformance holds the documented semantics of a coordination node as transcripts, and the runner
// that replays them: on the pure rings with a fake clock, and over gRPC on any server that speaks the
// protocol.
//
// # Scripts
//
// A script is a text file below testdata, one folder for each subject. It shows only what a client sees, so
// the same file runs everywhere. It begins with a head of comment lines:
//
//	# What the script shows, in a sentence.
//	# rule: coordination §3.4 8c, §3.5 1
//
// "rule:" names what the script pins, in the words of rules.txt; it may be repeated. Further heads:
//
//	# needs: clock       what a target must offer, besides what the steps imply (see Need)
//	# differs: ...       where this server differs from YDB on purpose, one sentence
//	# not: failover because ...   why a leader change between the steps would show
//	# limits: sessions=2 semaphores=2 links=2 bytes=100 state=5000 described=500
//	# node: self_check=500 read=strict      the config of the script's node; "none" makes no node
//	# ids: exact         show session and order ids as numbers
//	# recorded: ...      somebody has seen this (see Recorder): it need not name a rule, and may wait for long
//
// Then come steps, with blank lines between. A step is comment lines, request lines, a line of four dashes,
// and every message that reaches anybody because of the requests. Without dashes nothing may come. The order
// of messages matters within one stream, not between streams. "---- in any order" is for the few cases in
// which the specification leaves the order within a stream open.
//
// # Requests
//
// "s1: start" opens a stream called s1 and sends SessionStart. All verbs of a stream:
//
//	start path= session= seq= timeout= key= description= server= user= [shown]
//	stop
//	acquire NAME count= timeout= data= [ephemeral]         count is 1 if not given
//	release NAME
//	create NAME limit= data=
//	update NAME data=
//	delete NAME [force]
//	describe NAME [owners] [waiters] [watch_data] [watch_owners]
//	ping N, pong N             N may be "outstanding", the server's unanswered ping, or "last"
//	no pong, answer pings      from now on; a stream answers pings by default
//	show pings                 from now on
//	empty, unsupported N, unknown, raw HEX [req=], open      oddities; open sends nothing at all
//	half-close, cancel
//
// What is not given is not sent, except where a default is named. start has the defaults path={dir}/node and
// timeout=10s. Semaphore requests may have req=N; the answer then shows it. Without it the runner gives each
// request a number of its own, and shows it in an answer that is not to the stream's latest request of that kind. A
// line that begins with "+ " is sent without waiting for the answer to the line before.
//
// Requests outside of streams, and things that happen:
//
//	node create|alter|drop|describe PATH self_check= grace= read= attach= counters= path= database= user=
//	scheme mkdir|rmdir|ls|describe PATH database= user=
//	scheme permissions PATH [clear] [unset] interrupt=true|false set=SUBJECT:NAME,NAME grant= revoke= owner= user=
//	limiter create|alter PATH RESOURCE rate= burst= prefetch= watermark= more= more_settings= [untyped] ...
//	limiter drop|describe|ls PATH RESOURCE [recursive] ...
//	limiter acquire PATH RESOURCE required= used= ...
//	wait 10s, restart, hold, release
//
// Calls of limiters may have operation_timeout= and cancel_after=, too; more and more_settings are encoded
// fields that the schema does not have. PATH is that of the coordination node.
//
// hold keeps what servers have written from being carried out, until release: scripts show races with it.
//
// # Values
//
// {dir} is the script's own directory, {db} the database, {reldir} and {reldb} the same without the first
// slash, {indb} the directory relative to the database. Values are plain words, Go strings in quotes, {1024*x} for a
// long one, or 0x00ff for bytes. Times are milliseconds or such as 10s; inf and max are 2^64-1.
//
// # Answers
//
// The SessionStarted of a new session is not shown unless asked for: its session gets the name of the stream.
// The runner itself checks that it comes first, and a ping with a number right behind it. Pings are not shown
// either. An end of stream is shown where it is not the ordinary one, OK behind a Failure or SessionStopped.
// Session ids are shown as the name of the stream that created the session; order ids as their rank among
// those that the script has shown, #1 being the lowest. Owners are shown by ascending order id, because the
// protocol leaves their order open. Permission actions are sent in the order set, grant, revoke, owner. In an
// expected line "..." stands for anything.
package conformance
