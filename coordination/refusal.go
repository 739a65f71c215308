package coordination

import "github.com/coordd/coordd/scheme"

// Refusal is a negative answer of the protocol: a status and the text of its single issue (§0.4). Refusals are values
// of the table below and are compared by address.
type Refusal struct {
	Status scheme.Status
	Text   string
}

// Refusals of a start: the stream ends with them (§2.3, §6).
var (
	PathEmpty              = &Refusal{scheme.BadRequest, "KesusPath cannot be empty"}
	NodeNotFound           = &Refusal{scheme.NotFound, "Kesus not found"}
	NoAccess               = &Refusal{scheme.Unauthorized, "User has no access to the coordination node"}
	SessionTimeoutRange    = &Refusal{scheme.BadRequest, "Session timeout is out of range"}
	DescriptionTooLarge    = &Refusal{scheme.BadRequest, "Description is too large"}
	ProtectionKeyTooLarge  = &Refusal{scheme.BadRequest, "Protection key is too large"}
	SessionMissing         = &Refusal{scheme.SessionExpired, "Session does not exist"}
	SessionBeingDestroyed  = &Refusal{scheme.SessionExpired, "Session is already being destroyed"}
	SessionExpired         = &Refusal{scheme.SessionExpired, "Session has expired"}
	AttachOutOfSequence    = &Refusal{scheme.BadSession, "Attach request is out of sequence"}
	ProtectionKeyMismatch  = &Refusal{scheme.BadSession, "Attach request protection key mismatch"}
	TooManySessions        = &Refusal{scheme.PreconditionFailed, "Too many sessions already exist"}
	StolenByLocalClient    = &Refusal{scheme.BadSession, "Session stolen by another local client"}
	StolenByRemoteClient   = &Refusal{scheme.BadSession, "Session stolen by another remote client"}
	SessionNotAttachedHere = &Refusal{scheme.BadSession, "Session is not attached"}
	LinkFailure            = &Refusal{scheme.Unavailable, "Link failure"}
	PingTimeout            = &Refusal{scheme.Timeout, "Ping timeout"}
	PongMismatch           = &Refusal{scheme.BadRequest, "Pong data mismatch"}
	EmptyRequest           = &Refusal{scheme.BadRequest, "Empty request"}
	UnimplementedRequest   = &Refusal{scheme.BadRequest, "Unimplemented request"}
	StartedTwice           = &Refusal{scheme.BadRequest, "Session cannot be started twice"}
)

// Refusals of one request: the stream goes on (§3, §6).
var (
	WriteDenied           = &Refusal{scheme.Unauthorized, "Write permission denied"}
	CreateDenied          = &Refusal{scheme.Unauthorized, "Create permission denied"}
	UpdateDenied          = &Refusal{scheme.Unauthorized, "Update permission denied"}
	DeleteDenied          = &Refusal{scheme.Unauthorized, "Delete permission denied"}
	ReadDenied            = &Refusal{scheme.Unauthorized, "Read permission denied"}
	SemaphoreMissing      = &Refusal{scheme.NotFound, "Semaphore does not exist"}
	SemaphoreNotFound     = &Refusal{scheme.NotFound, "Semaphore not found"} // describe only
	SemaphoreExists       = &Refusal{scheme.AlreadyExists, "Semaphore already exists"}
	EphemeralLocksExist   = &Refusal{scheme.PreconditionFailed, "Cannot create semaphore due to ephemeral locks"}
	TooManySemaphores     = &Refusal{scheme.PreconditionFailed, "Too many semaphores already exist"}
	EphemeralMismatch     = &Refusal{scheme.PreconditionFailed, "Semaphore ephemeral mode mismatch"}
	CannotDeleteEphemeral = &Refusal{scheme.PreconditionFailed, "Cannot delete ephemeral semaphores"}
	SemaphoreNotEmpty     = &Refusal{scheme.PreconditionFailed, "Semaphore not empty"}
	LimitZero             = &Refusal{scheme.BadRequest, "Semaphores must have limit > 0"}
	NameTooLong           = &Refusal{scheme.BadRequest, "Semaphore name is too long"}
	SemaphoreDataTooLarge = &Refusal{scheme.BadRequest, "Semaphore data is too large"}
	CountZero             = &Refusal{scheme.BadRequest, "Acquire must have count > 0"}
	AcquireTimeoutRange   = &Refusal{scheme.BadRequest, "Acquire timeout is out of range"}
	AcquireDataTooLarge   = &Refusal{scheme.BadRequest, "Acquire data is too large"}
	CountOverLimit        = &Refusal{scheme.BadRequest, "Cannot acquire more than allowed by the semaphore"}
	CountIncreased        = &Refusal{scheme.BadRequest, "Increasing count is not allowed"}
	Superseded            = &Refusal{scheme.Aborted, "Operation superseded by another request"}
	SemaphoreDestroyed    = &Refusal{scheme.Aborted, "Semaphore destroyed"}
	TooManyBytes          = &Refusal{scheme.PreconditionFailed, "Coordination node has no space left"}        // not in the reference
	DescribedTooLarge     = &Refusal{scheme.PreconditionFailed, "Semaphore description is too large to send"} // not in the reference
	SessionNotAttached    = &Refusal{scheme.BadSession, "Session not attached"}
)
