package coordination

import (
	"github.com/coordd/coordd/scheme"
	"github.com/coordd/coordd/scheme/outcome"
)

// Refusal is a negative answer of the protocol: a status and the text of its single issue (§0.4). Refusals
// are values of the table below and are compared by address.
type Refusal struct {
	Status outcome.Status
	Text   string
}

// Refusals of a start: the stream ends with them (§2.3, §6).
var (
	PathEmpty              = &Refusal{outcome.BadRequest, "KesusPath cannot be empty"}
	NodeNotFound           = &Refusal{outcome.NotFound, "Kesus not found"}
	NoAccess               = &Refusal{outcome.Unauthorized, "User has no access to the coordination node"}
	SessionTimeoutRange    = &Refusal{outcome.BadRequest, "Session timeout is out of range"}
	DescriptionTooLarge    = &Refusal{outcome.BadRequest, "Description is too large"}
	ProtectionKeyTooLarge  = &Refusal{outcome.BadRequest, "Protection key is too large"}
	SessionMissing         = &Refusal{outcome.SessionExpired, "Session does not exist"}
	SessionBeingDestroyed  = &Refusal{outcome.SessionExpired, "Session is already being destroyed"}
	SessionExpired         = &Refusal{outcome.SessionExpired, "Session has expired"}
	AttachOutOfSequence    = &Refusal{outcome.BadSession, "Attach request is out of sequence"}
	ProtectionKeyMismatch  = &Refusal{outcome.BadSession, "Attach request protection key mismatch"}
	TooManySessions        = &Refusal{outcome.PreconditionFailed, "Too many sessions already exist"}
	StolenByLocalClient    = &Refusal{outcome.BadSession, "Session stolen by another local client"}
	StolenByRemoteClient   = &Refusal{outcome.BadSession, "Session stolen by another remote client"}
	SessionNotAttachedHere = &Refusal{outcome.BadSession, "Session is not attached"}
	LinkFailure            = &Refusal{outcome.Unavailable, "Link failure"}
	PingTimeout            = &Refusal{outcome.Timeout, "Ping timeout"}
	StreamNotRead          = &Refusal{outcome.Unavailable,
		"The server is overloaded and could not read the stream"}
	PongMismatch         = &Refusal{outcome.BadRequest, "Pong data mismatch"}
	EmptyRequest         = &Refusal{outcome.BadRequest, "Empty request"}
	UnimplementedRequest = &Refusal{outcome.BadRequest, "Unimplemented request"}
	StartedTwice         = &Refusal{outcome.BadRequest, "Session cannot be started twice"}
)

// Refusals of one request: the stream goes on (§3, §6).
var (
	WriteDenied         = &Refusal{outcome.Unauthorized, "Write permission denied"}
	CreateDenied        = &Refusal{outcome.Unauthorized, "Create permission denied"}
	UpdateDenied        = &Refusal{outcome.Unauthorized, "Update permission denied"}
	DeleteDenied        = &Refusal{outcome.Unauthorized, "Delete permission denied"}
	ReadDenied          = &Refusal{outcome.Unauthorized, "Read permission denied"}
	SemaphoreMissing    = &Refusal{outcome.NotFound, "Semaphore does not exist"}
	SemaphoreNotFound   = &Refusal{outcome.NotFound, "Semaphore not found"} // describe only
	SemaphoreExists     = &Refusal{outcome.AlreadyExists, "Semaphore already exists"}
	EphemeralLocksExist = &Refusal{outcome.PreconditionFailed,
		"Cannot create semaphore due to ephemeral locks"}
	TooManySemaphores     = &Refusal{outcome.PreconditionFailed, "Too many semaphores already exist"}
	EphemeralMismatch     = &Refusal{outcome.PreconditionFailed, "Semaphore ephemeral mode mismatch"}
	CannotDeleteEphemeral = &Refusal{outcome.PreconditionFailed, "Cannot delete ephemeral semaphores"}
	SemaphoreNotEmpty     = &Refusal{outcome.PreconditionFailed, "Semaphore not empty"}
	LimitZero             = &Refusal{outcome.BadRequest, "Semaphores must have limit > 0"}
	NameTooLong           = &Refusal{outcome.BadRequest, "Semaphore name is too long"}
	SemaphoreDataTooLarge = &Refusal{outcome.BadRequest, "Semaphore data is too large"}
	CountZero             = &Refusal{outcome.BadRequest, "Acquire must have count > 0"}
	AcquireTimeoutRange   = &Refusal{outcome.BadRequest, "Acquire timeout is out of range"}
	AcquireDataTooLarge   = &Refusal{outcome.BadRequest, "Acquire data is too large"}
	CountOverLimit        = &Refusal{outcome.BadRequest, "Cannot acquire more than allowed by the semaphore"}
	CountIncreased        = &Refusal{outcome.BadRequest, "Increasing count is not allowed"}
	Superseded            = &Refusal{outcome.Aborted, "Operation superseded by another request"}
	SemaphoreDestroyed    = &Refusal{outcome.Aborted, "Semaphore destroyed"}
	// not in the reference
	TooManyLinks = &Refusal{outcome.PreconditionFailed, "Session owns or awaits too many semaphores"}
	// not in the reference
	TooManyBytes = &Refusal{outcome.PreconditionFailed, "Coordination node has no space left"}
	// not in the reference; of starts and calls too
	StateFull = &Refusal{outcome.PreconditionFailed, scheme.NoSpaceText}
	// not in the reference
	DescribedTooLarge  = &Refusal{outcome.PreconditionFailed, "Semaphore description is too large to send"}
	SessionNotAttached = &Refusal{outcome.BadSession, "Session not attached"}
)

// Refusals of calls about resources (ratelimiter.md §3, §4). The last five are not in the reference.
var (
	ResourcePathInvalid = &Refusal{outcome.BadRequest, "Invalid resource path."}
	ResourceExists      = &Refusal{outcome.AlreadyExists, "Resource already exists and has same settings."}
	ResourceDiffers     = &Refusal{outcome.BadRequest,
		"Resource already exists and has different settings."}
	ResourcePathEmpty     = &Refusal{outcome.BadRequest, "Empty resource path is specified."}
	ResourceNotNamed      = &Refusal{outcome.BadRequest, "You should specify resource path or resource id."}
	ResourceMissing       = &Refusal{outcome.NotFound, "No resource found."}
	ResourceToDropMissing = &Refusal{outcome.NotFound, "Resource doesn't exist."}
	RateNotFinite         = &Refusal{outcome.BadRequest, "MaxUnitsPerSecond must be finite."}
	RateNegative          = &Refusal{outcome.BadRequest, "MaxUnitsPerSecond can't be less than 0."}
	PrefetchNotFinite     = &Refusal{outcome.BadRequest, "PrefetchCoefficient must be finite."}
	WatermarkNotFinite    = &Refusal{outcome.BadRequest, "PrefetchWatermark must be finite."}
	WatermarkNegative     = &Refusal{outcome.BadRequest, "PrefetchWatermark can't be less than 0."}
	WatermarkTooLarge     = &Refusal{outcome.BadRequest, "PrefetchWatermark can't be greater than 1."}
	RootWithoutRate       = &Refusal{outcome.BadRequest, "No MaxUnitsPerSecond parameter in root resource."}
	ResourcePathTooLong   = &Refusal{outcome.BadRequest, "Resource path is too long."}
	ResourceTooDeep       = &Refusal{outcome.BadRequest, "Resource path has too many elements."}
	ResourceTooLarge      = &Refusal{outcome.BadRequest, "Resource settings are too large."}
	TooManyResources      = &Refusal{outcome.PreconditionFailed, "Too many resources already exist"}
	ResourcesTooLarge     = &Refusal{outcome.PreconditionFailed, "Resource list is too large to send"}
)

func because(r *Refusal) outcome.Outcome { return outcome.Because(r.Status, r.Text) }
