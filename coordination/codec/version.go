package codec

import (
	"github.com/coordd/coordd/coordination"
	"github.com/coordd/coordd/scheme"
)

// Version is the newest version of the stored format that this program knows. What it writes has the version
// with which its form came, so that it is read by as many as can read it.
const Version = 7

// The versions with which things came. Nothing of a version is written before every server of the cluster can
// read it.
const (
	versionFirst = 1
	// VersionEntries is the version with which entries of several commands came, and with them everything
	// that says where in its entry a command is, and when an entry was written; also what is answered above
	// an open request, the owners of sessions, limits, marks, what administrators do to sessions and
	// semaphores, and rate limiters.
	VersionEntries = 2
	// VersionQuotas is the version with which quotas of paths came, the reserve for administrators, and
	// the limit of a session's links.
	VersionQuotas = 3
	// VersionAges is the version with which entries came to say for how long their leader has served, and with
	// that absences of sessions and the ages of waits.
	VersionAges = 4
	// VersionVersions is the version with which versions of data came. An entry that has it makes changes of data
	// count: otherwise servers of other versions would not have the same state.
	VersionVersions = 5
	// VersionClients is the version with which commands that end sessions came to name their clients.
	VersionClients = 6
	// VersionSeen is the version with which the end of a session, and the removal of a semaphore, came to depend on
	// what the caller had seen.
	VersionSeen = 7
	// VersionHistories is the version with which histories of nodes came.
	VersionHistories = 7
)

// Since is the version of the format with which a command, as it is written, came: a program of an older
// version does not read it. Only this and sinceRow know the versions. A command that is added, or that makes use of a
// field that was added, gets a case with the Version that is new then; the leader writes it once every server of the
// cluster can read it.
func Since(c coordination.Command) uint64 {
	switch c := c.(type) {
	case *coordination.ExpireWaiter:
		if c.WaitEpoch.Place != 0 {
			return VersionEntries
		}
	case *coordination.RotateSigningKey:
		if c.After.Place != 0 {
			return VersionEntries
		}
	case *coordination.Attach:
		if c.Identity != (coordination.Identity{}) || c.MayWrite {
			return VersionEntries
		}
	case *coordination.AcquireSemaphore:
		return sinceOrigin(&c.Origin)
	case *coordination.ReleaseSemaphore:
		return sinceOrigin(&c.Origin)
	case *coordination.CreateSemaphore:
		return sinceOrigin(&c.Origin)
	case *coordination.UpdateSemaphore:
		return sinceOrigin(&c.Origin)
	case *coordination.DeleteSemaphore:
		return sinceOrigin(&c.Origin)
	case *coordination.StopSession:
		return max(sinceOrigin(&c.Origin), sinceClient(&c.Client))
	case *coordination.ExpireSession:
		return sinceClient(&c.Client)
	case *coordination.EndSession:
		if c.Semaphore != 0 || c.Order != 0 {
			return VersionSeen
		}
		return max(VersionEntries, sinceClient(&c.Client))
	case *coordination.RemoveSemaphore:
		if c.Seen || c.Owner != 0 {
			return VersionSeen
		}
		return VersionEntries
	case *coordination.SetLimits:
		return sinceLimits(&c.Limits)
	case *coordination.SetQuota:
		return VersionQuotas
	case *coordination.BeginAbsence, *coordination.EndAbsence, *coordination.Quiet, *coordination.Age:
		return VersionAges
	case *coordination.UpdateData:
		return VersionVersions
	case *coordination.SetHistory:
		return VersionHistories
	case *coordination.Mark, *coordination.CreateResource, *coordination.AlterResource, *coordination.DropResource:
		return VersionEntries
	}
	return versionFirst
}

func sinceOrigin(o *coordination.Origin) uint64 {
	if o.Answered != 0 {
		return VersionEntries
	}
	return versionFirst
}

func sinceClient(c *coordination.Client) uint64 {
	if *c != (coordination.Client{}) {
		return VersionClients
	}
	return versionFirst
}

func sinceLimits(l *coordination.StateLimits) uint64 {
	if l.Reserve != 0 || l.Links != 0 {
		return VersionQuotas
	}
	return VersionEntries
}

// sinceRow is Since for a row with its key. What made it came through the log, so every server can read it.
func sinceRow(row coordination.Row) uint64 {
	later := false
	switch r := row.(type) {
	case coordination.PathRow:
		if r.Quota != (scheme.Quota{}) {
			return VersionQuotas
		}
	case coordination.SemaphoreRow:
		if r.Version != 0 || r.ChangedMillis != 0 || r.Author != "" {
			return VersionVersions
		}
	case coordination.MachineRow:
		if r.NextVersion != 0 {
			return VersionVersions
		}
		if r.ClockMillis != 0 || r.ClockBaseMillis != 0 || r.ClockTerm != 0 || r.LineageSince != 0 ||
			r.QuietTerm != 0 || r.HeirTerm != 0 || r.CalmSinceMillis != 0 {
			return VersionAges
		}
		if r.Limits.Reserve != 0 || r.Limits.Links != 0 {
			return VersionQuotas
		}
		later = r.StampMillis != 0 || r.Limits != coordination.StateLimits{}
	case coordination.NodeRow:
		if r.History != 0 {
			return VersionHistories
		}
		later = r.NextResource != 0
	case coordination.ResourceRow:
		later = true
	case coordination.SessionRow:
		if r.AbsentSince != 0 || r.AbsentTotalMillis != 0 {
			return VersionAges
		}
		later = r.BeganMillis != 0 || r.Owner != coordination.Identity{}
	case coordination.LinkRow:
		if r.Since != 0 {
			return VersionAges
		}
		later = r.WaitEpoch.Place != 0 || r.BeganMillis != 0
	case coordination.UserRow:
		later = r.ID.Place != 0 || r.Version.Place != 0
	case coordination.SigningKeyRow:
		later = r.ID.Place != 0
	}
	if later {
		return VersionEntries
	}
	return versionFirst
}
