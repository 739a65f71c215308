package model

// Mark names a branch of the model, so that a test can see which rules its random requests have reached.
type Mark int

// Marks counts how often each branch was taken.
type Marks [markCount]int

func (m *Model) mark(branch Mark) {
	if m.marks != nil {
		m.marks[branch]++
	}
}

// String returns the rule to which the branch belongs.
func (b Mark) String() string { return markRules[b] }

// The branches, in the order of the specification's chapters.
const (
	markNodeExists Mark = iota
	markNodeDropEndsStream
	markRestartEndsStream
	markRestartEndsAttach
	markRestartOwner
	markRestartWaiter
	markInFlightLost
	markSentBehindEnd
	markStartedTwice
	markEmptyRequest
	markUnsupported
	markClientPing
	markExecutedAfterEnd
	markDescribeWaits
	markReadsShareAProof
	markWaitedForARead
	markAbandonedRead
	markAttachOvertakes
	markRefusalOvertakes
	markAskedWhileStopping
	markPingAsPong
	markClosedBeforeStart
	markClosed
	markAbandonedRestored
	markAbandonedNew
	markInvalidStart
	markPathEmpty
	markNodeNotFound
	markPingShortest
	markPingLongest
	markPingNext
	markPingTimeout
	markPongMismatch
	markPongZero
	markSeqLowerThanLocal
	markBeingDestroyed
	markSessionTimeoutRange
	markDescriptionTooLarge
	markKeyTooLarge
	markSessionMissing
	markSeqLower
	markKeyMismatch
	markTooManySessions
	markSessionNew
	markRestored
	markAnyKeyAccepted
	markSeqEqual
	markStolenLocal
	markStolenRemote
	markDetachZeroTimeout
	markAddressForgotten
	markStopped
	markExpiredAfterDetach
	markExpiryVoid
	markExpiredAfterRestart
	markEndFreesOwned
	markEndLeavesQueue
	markCreated
	markLimitZero
	markCreateNameTooLong
	markCreateDataTooLarge
	markCreateOverEphemeral
	markCreateExists
	markCreateTooMany
	markUpdated
	markUpdatedEphemeral
	markVersionMade
	markVersionUpdated
	markVersionSame
	markVersionOther
	markVersionMissing
	markVersionEphemeral
	markUpdateSame
	markUpdateNameTooLong
	markUpdateDataTooLarge
	markUpdateMissing
	markCountZero
	markAcquireTimeoutRange
	markAcquireDataTooLarge
	markAcquireMissing
	markEphemeralMismatch
	markCountOverLimit
	markAcquireTooMany
	markEphemeralCreated
	markEphemeralLongName
	markOwnerIncrease
	markOwnerSame
	markOwnerNewData
	markOwnerDecrease
	markOwnerDecreaseGrants
	markWaiterIncrease
	markSuperseded
	markSupersededSilently
	markWaiterTryLeaves
	markWaiterDecreaseGranted
	markWaiterKept
	markTryBehindQueue
	markTryNoTokens
	markGrantedAtOnce
	markQueued
	markPendingTakenBack
	markBlockedByHead
	markWaitInfinite
	markWaitExpired
	markWaitExpiryVoid
	markWaitExpiredTold
	markGranted
	markGrantedDetached
	markGrantedUnaddressable
	markSeveralGranted
	markOwnerLeftGrants
	markHeadLeftGrants
	markLeftFromBehind
	markReleaseMissing
	markReleaseOwner
	markReleaseWaiter
	markReleaseAborts
	markReleaseStranger
	markEphemeralDeleted
	markDeleteMissing
	markDeleteEphemeral
	markDeleteNotEmpty
	markDeleteForced
	markDeleteEmpty
	markDeleteAborts
	markDescribeMissing
	markDescribed
	markDescribeKeepsWatch
	markWatchReplaced
	markWatchFired
	markWatchFiredByDelete
	markWatchNotConcerned
	markCreateNoRoom
	markUpdateNoRoom
	markEphemeralNoRoom
	markOwnerNoRoom
	markWaiterNoRoom
	markStrangerNoRoom
	markSessionNoRoom
	markDescriptionKept
	markStateFull
	markQuotaUsedUp
	markDescribeTooLarge
	markSharedEntry

	markCount
)

var markRules = [markCount]string{
	markNodeExists:            "§1.1 5: creating a node that exists changes nothing",
	markNodeDropEndsStream:    "§1.3: a drop ends the attached streams",
	markRestartEndsAttach:     "§2.3 11: a leader restart ends a stream that is attaching",
	markRestartEndsStream:     "§4.2: a leader restart ends the attached streams",
	markRestartOwner:          "§4.3: an owner is an owner again after a restart",
	markInFlightLost:          "§4.2: a restart loses what is in flight",
	markRestartWaiter:         "§4.2: a waiter waits again",
	markSentBehindEnd:         "§2.9: what comes behind the end is not read",
	markStartedTwice:          "§2.6: second start",
	markEmptyRequest:          "§2.6: no arm set",
	markUnsupported:           "§2.6: reserved arm",
	markPingAsPong:            "§2.7: ping of the Python SDK counts as pong",
	markAskedWhileStopping:    "§2.6: request while the stop is in flight",
	markRefusalOvertakes:      "§4.6: an immediate refusal overtakes",
	markAttachOvertakes:       "§4.5: a relaxed attach overtakes",
	markDescribeWaits:         "§4.5: a describe behind writes in flight",
	markReadsShareAProof:      "§4.5: a strict describe while another one is proven",
	markWaitedForARead:        "§4.6: a request that was sent after a strict describe",
	markAbandonedRead:         "§4.6: a request that was sent after a strict describe by a client that is gone",
	markExecutedAfterEnd:      "§2.9: a request outlives its stream",
	markClientPing:            "§2.6: ping of the client",
	markClosedBeforeStart:     "§2.3 1: closed before the first message",
	markAbandonedNew:          "§2.9: closed while attaching a new session",
	markAbandonedRestored:     "§2.9: closed while attaching a restored session",
	markClosed:                "§2.9: closed while attached",
	markInvalidStart:          "§2.3 2: first message is no start",
	markPathEmpty:             "§2.3 4: path without components",
	markNodeNotFound:          "§2.3 5: no such node",
	markPingShortest:          "§2.7: ping interval raised to 10 ms",
	markPingLongest:           "§2.7: ping interval cut to 5 s",
	markPingNext:              "§2.7: next ping at the end of the interval",
	markPingTimeout:           "§2.7: no pong within the interval",
	markPongMismatch:          "§2.7: pong with a wrong number",
	markPongZero:              "§2.7: pong 0 with nothing outstanding",
	markBeingDestroyed:        "§2.3 9: the session is being stopped",
	markSeqLowerThanLocal:     "§2.3 8: seq_no lower than the local stream's",
	markSessionTimeoutRange:   "§2.3 12: session timeout out of range",
	markDescriptionTooLarge:   "§2.3 13: description too large",
	markKeyTooLarge:           "§2.3 14: protection key too large",
	markSessionMissing:        "§2.3 15: no such session",
	markSeqLower:              "§2.3 16: seq_no lower than the last",
	markKeyMismatch:           "§2.3 17: other protection key",
	markTooManySessions:       "§2.3 18: too many sessions",
	markSessionNew:            "§2.4: new session",
	markRestored:              "§2.4: restored from detached",
	markAnyKeyAccepted:        "§2.4: a session without a key takes any",
	markSeqEqual:              "§2.4: equal seq_no accepted",
	markStolenLocal:           "§2.5: stolen through the same front-end",
	markStolenRemote:          "§2.5: stolen through another front-end",
	markDetachZeroTimeout:     "§2.10: timeout 0 expires at once",
	markAddressForgotten:      "§2.4: a wait loses its address",
	markStopped:               "§2.8: stop",
	markExpiryVoid:            "§2.10: attached or stopped before the expiry had its turn",
	markExpiredAfterDetach:    "§2.10: expiry after a detach",
	markExpiredAfterRestart:   "§4.2: expiry after a restart, with grace",
	markEndFreesOwned:         "§3.9: session end frees what it owned",
	markEndLeavesQueue:        "§3.9: session end leaves the queues",
	markCreated:               "§3.2 4: created",
	markLimitZero:             "§3.2: limit 0",
	markCreateNameTooLong:     "§3.2: name too long",
	markCreateDataTooLarge:    "§3.2: data too large",
	markCreateOverEphemeral:   "§3.2 1: over an ephemeral one",
	markCreateExists:          "§3.2 2: exists",
	markCreateTooMany:         "§3.2 3: too many",
	markUpdated:               "§3.3: different data",
	markUpdatedEphemeral:      "§3.3: of an ephemeral one",
	markVersionMade:           "coordd: an update that expects nothing makes a semaphore",
	markVersionUpdated:        "coordd: an update expects the version that is there",
	markVersionSame:           "coordd: and brings the same data",
	markVersionOther:          "coordd: an update expects another version",
	markVersionMissing:        "coordd: an update expects a version of what is not there",
	markVersionEphemeral:      "coordd: an update of an ephemeral semaphore expects a version",
	markUpdateSame:            "§3.3: same data",
	markUpdateNameTooLong:     "§3.3: name too long",
	markUpdateDataTooLarge:    "§3.3: data too large, not applied",
	markUpdateMissing:         "§3.3: unknown",
	markCountZero:             "§3.4 1: count 0",
	markAcquireTimeoutRange:   "§3.4 2: timeout out of range",
	markAcquireDataTooLarge:   "§3.4 3: data too large",
	markAcquireMissing:        "§3.4 4: unknown",
	markEphemeralMismatch:     "§3.4 5: ephemeral mode mismatch",
	markCountOverLimit:        "§3.4 6: count over limit",
	markAcquireTooMany:        "§3.4 7: too many",
	markEphemeralCreated:      "§3.4 7: ephemeral one created",
	markEphemeralLongName:     "§3.1: acquire does not check the name",
	markOwnerIncrease:         "§3.4 8a: higher count",
	markOwnerSame:             "§3.4 8a: same count and data",
	markOwnerNewData:          "§3.4 8a: same count, other data",
	markOwnerDecrease:         "§3.4 8a: lower count",
	markOwnerDecreaseGrants:   "§3.4 8a: lower count lets a waiter in",
	markWaiterIncrease:        "§3.4 8b: higher count",
	markSuperseded:            "§3.4 8b: the older request is told",
	markSupersededSilently:    "§4.2: the older request has no address",
	markWaiterTryLeaves:       "§3.4 8b: try that fails leaves the queue",
	markWaiterDecreaseGranted: "§3.4 8b: lower count is granted",
	markWaiterKept:            "§3.4 8b: keeps its place",
	markTryBehindQueue:        "§3.4 8c: try fails behind a queue",
	markTryNoTokens:           "§3.4 8c: try fails for tokens",
	markGrantedAtOnce:         "§3.4 8c: granted at once",
	markPendingTakenBack:      "§3.4: result ready before the Pending was read",
	markQueued:                "§3.4 8c: queued",
	markBlockedByHead:         "§3.4: head-of-line blocking",
	markWaitInfinite:          "§3.4: waits for ever",
	markWaitExpiryVoid:        "§3.4: granted, ended or superseded before the timeout had its turn",
	markWaitExpired:           "§3.4: wait timeout",
	markWaitExpiredTold:       "§3.4: wait timeout, told",
	markGranted:               "§3.4: grant, told",
	markGrantedDetached:       "§3.4: grant to a detached session",
	markGrantedUnaddressable:  "§3.4: grant to a session that attached again",
	markSeveralGranted:        "§3.4: several grants in one step",
	markOwnerLeftGrants:       "§3.6: an owner leaves, a waiter is let in",
	markHeadLeftGrants:        "§3.4: the head leaves, a waiter is let in",
	markLeftFromBehind:        "§3.4: a waiter leaves from behind",
	markReleaseMissing:        "§3.6: release of an unknown one",
	markReleaseOwner:          "§3.6: release by an owner",
	markReleaseWaiter:         "§3.6: release by a waiter",
	markReleaseAborts:         "§3.6: release tells the waiting acquire",
	markReleaseStranger:       "§3.6: release by a stranger",
	markEphemeralDeleted:      "§3.10: ephemeral one disappears",
	markDeleteMissing:         "§3.7: unknown",
	markDeleteEphemeral:       "§3.7: ephemeral",
	markDeleteNotEmpty:        "§3.7: not empty",
	markDeleteForced:          "§3.7: forced",
	markDeleteEmpty:           "§3.7: empty",
	markDeleteAborts:          "§3.7: a waiter is told",
	markDescribeMissing:       "§3.8: unknown",
	markDescribed:             "§3.8: described",
	markDescribeKeepsWatch:    "§4.1: plain describe keeps the watch",
	markWatchReplaced:         "§4.1: watch replaced",
	markWatchFired:            "§4.1: watch fired",
	markWatchFiredByDelete:    "§4.1: watch fired by deletion",
	markWatchNotConcerned:     "§4.1: watch of the other flag stays",
	markCreateNoRoom:          "limits: create past the node's bytes",
	markUpdateNoRoom:          "limits: update past the node's bytes",
	markEphemeralNoRoom:       "limits: a new ephemeral one past the node's bytes",
	markOwnerNoRoom:           "limits: new data of an owner past the node's bytes",
	markWaiterNoRoom:          "limits: new data of a waiter past the node's bytes",
	markStrangerNoRoom:        "limits: acquire past the node's bytes",
	markSessionNoRoom:         "limits: a new session past the state's bytes",
	markDescriptionKept:       "limits: a longer description past the state's bytes",
	markStateFull:             "limits: a request past the state's bytes",
	markQuotaUsedUp:           "limits: a request past the quota of a path",
	markDescribeTooLarge:      "limits: description too large",
	markSharedEntry:           "several commands in one entry of the log",
}
