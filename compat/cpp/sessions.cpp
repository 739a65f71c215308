// Sessions: their states, a new connection, the end.
#include "tap.h"

using namespace compat;

int main() {
    {
        Events<ESessionState> states;
        Events<bool> stopped;
        Fixture f("sessions");
        auto session = f.Start(TSessionSettings()
            .Description("compat/cpp")
            .Timeout(TDuration::Seconds(10))
            .OnStateChanged([&](ESessionState state) { states.Push(state); })
            .OnStopped([&] { stopped.Push(true); }));
        auto other = f.Start();
        const auto id = session.GetSessionId();
        Ok(id != 0, "a session has a number");
        Ok(id != other.GetSessionId(), "another has another");
        Ok(states.Next("attached") == ESessionState::ATTACHED, "told of the attachment");
        Success(Await(session.Ping()), "ping");

        Acquired(Await(session.AcquireSemaphore("lock", Lock())), true, "a lock before the new connection");
        Success(Await(session.Reconnect()), "reconnect");
        Is(session.GetSessionId(), id, "the number is the same");
        Acquired(Await(other.AcquireSemaphore("lock", Lock().Timeout(TDuration::Zero()))), false, "the lock is still held");

        Success(Await(session.Close()), "close");
        Ok(stopped.Next("stopped"), "told of the end");
        Acquired(Await(other.AcquireSemaphore("lock", Lock())), true, "its lock is free");
        Success(Await(other.Close()), "close the other");
    }
    return Done();
}
