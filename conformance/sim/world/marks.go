package world

// marks are rare branches that a night of seeds has to reach: messages in the logs of the servers, and reasons for
// which a server ended or did not start. A run counts them from 0, so that the runner knows those that no seed reached.
var marks = []string{
	"a checkpoint was not sent",
	"a checkpoint was sent",
	"a server was given a vote",
	"a server was removed",
	"a session has ended: its time was up",
	"all servers can read commands of a later version",
	"dropping a log write that a crash cut short",
	"emptying a log that a received checkpoint has replaced",
	"executing the log again",
	"handing over the leadership",
	"making way for another leader",
	"other servers know later changes of the members",
	"passing over a mark: the last checkpoint is not stored yet",
	"refused a server",
	"the disk has space again",
	"the disk is nearly full",
	"the leader hands over",
	"the leader is lost",
	"the relay to the leader broke",
	"this server leads the cluster no more",
	"took over a checkpoint of another server",
	"waiting to be added to the cluster",
	diskFailed, rotten, wiped,
}
