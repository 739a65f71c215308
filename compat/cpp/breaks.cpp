// Connections that break or fall silent: what a session keeps, what is done again, and when it is over.
#include "relay.h"

using namespace compat;

namespace {

// AwaitOwners describes a semaphore through another connection until it has so many owners.
TSemaphoreDescription AwaitOwners(TSession& session, const std::string& name, std::size_t owners) {
    for (;;) {
        auto described = Await(session.DescribeSemaphore(name, TDescribeSemaphoreSettings().IncludeOwners()));
        if (!described.IsSuccess()) {
            Must(described, "describe " + name);
        }
        if (described.GetResult().GetOwners().size() == owners) {
            return described.ExtractResult();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

} // namespace

int main() {
    {
        Events<ESessionState> states;
        Events<std::string> happened;
        Relay relay(Server().GetEndpoint());
        Fixture f("breaks");
        NYdb::TDriver driver(Server().SetEndpoint(relay.Endpoint()).SetDiscoveryMode(NYdb::EDiscoveryMode::Off));
        TClient client(driver);
        const auto start = [&](const TSessionSettings& settings) {
            auto started = Await(client.StartSession(f.Node, settings));
            Must(started, "start a session through the relay");
            return started.ExtractResult();
        };

        auto direct = f.Start();
        auto session = start(TSessionSettings().Timeout(TDuration::Seconds(30)).OnStateChanged([&](ESessionState state) {
            states.Push(state);
        }));
        const auto id = session.GetSessionId();
        Ok(states.Next("attached") == ESessionState::ATTACHED, "told of the attachment");
        const auto cut = [&](const std::string& when) {
            relay.Cut();
            relay.Mute(false);
            Ok(states.Next("detached") == ESessionState::DETACHED, when + ": told of the cut");
            Ok(states.Next("attached again") == ESessionState::ATTACHED, when + ": told of the attachment");
            Is(session.GetSessionId(), id, when + ": the number is the same");
        };

        Success(Await(direct.CreateSemaphore("lock", 1)), "create a semaphore");
        const auto one = TAcquireSemaphoreSettings().Count(1);
        Acquired(Await(session.AcquireSemaphore("lock", one)), true, "acquire it");
        const auto place = AwaitOwners(direct, "lock", 1).GetOwners()[0].GetOrderId();
        for (int i = 0; i < 5; ++i) {
            cut("with a lock");
        }
        Is(AwaitOwners(direct, "lock", 1).GetOwners()[0].GetOrderId(), place, "its place is the same");
        Acquired(Await(direct.AcquireSemaphore("lock", TAcquireSemaphoreSettings().Count(1).Timeout(TDuration::Zero()))), false,
            "the lock is still held");
        Success(Await(session.ReleaseSemaphore("lock")), "release it");

        Acquired(Await(direct.AcquireSemaphore("lock", one)), true, "another has it");
        Events<bool> accepted;
        auto waiting = session.AcquireSemaphore("lock", TAcquireSemaphoreSettings().Count(1).OnAccepted([&] { accepted.Push(true); }));
        Ok(accepted.Next("accepted"), "told of the wait");
        cut("while it waits");
        Success(Await(direct.ReleaseSemaphore("lock")), "the other one releases it");
        Acquired(Await(waiting), true, "the wait has gone on");
        Success(Await(session.ReleaseSemaphore("lock")), "release what was waited for");

        // What is done but not answered. The SDK sends acquire and release again, and nothing else.
        relay.Mute(true);
        auto unanswered = session.AcquireSemaphore("lock", one);
        const auto granted = AwaitOwners(direct, "lock", 1).GetOwners()[0].GetOrderId();
        cut("an acquire whose answer is lost");
        Acquired(Await(unanswered), true, "its answer comes again");
        const auto held = AwaitOwners(direct, "lock", 1);
        Is(held.GetOwners()[0].GetOrderId(), granted, "it was granted once");
        Is(held.GetCount(), 1u, "and counts once");
        relay.Mute(true);
        auto releasing = session.ReleaseSemaphore("lock");
        AwaitOwners(direct, "lock", 0);
        cut("a release whose answer is lost");
        Success(Await(releasing), "it is answered");
        relay.Mute(true);
        auto creating = session.CreateSemaphore("created", 1);
        while (!Await(direct.DescribeSemaphore("created")).IsSuccess()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        cut("a create whose answer is lost");
        Ok(!Await(creating).IsSuccess(), "it fails, though it was done");

        // A silence that is shorter than the session's timeout.
        relay.Silence(true);
        std::this_thread::sleep_for(std::chrono::seconds(2));
        relay.Silence(false);
        Success(Await(session.Ping()), "ping behind a short silence");
        Is(session.GetSessionId(), id, "the number is the same behind it");
        Ok(session.GetSessionState() == ESessionState::ATTACHED, "it is attached");
        Success(Await(session.Close()), "close the session");

        // One that is longer: the client has to know that its lock is lost before another gets it.
        auto silent = start(TSessionSettings().Timeout(TDuration::Seconds(6)).OnStateChanged([&](ESessionState state) {
            if (state == ESessionState::EXPIRED) {
                happened.Push("expired");
            }
        }));
        Acquired(Await(silent.AcquireSemaphore("lock", one)), true, "a lock before a long silence");
        auto next = direct.AcquireSemaphore("lock", TAcquireSemaphoreSettings().Count(1).OnAccepted([&] { accepted.Push(true); }));
        Ok(accepted.Next("accepted"), "another waits for it");
        next.Subscribe([&](const auto&) { happened.Push("granted"); });
        relay.Silence(true);
        Is(happened.Next("the end of the session"), std::string("expired"), "the silent one is told that its session is over");
        Is(happened.Next("the next owner"), std::string("granted"), "the other one has the lock behind that");
        Acquired(Await(next), true, "it is a grant");
        Ok(!Await(silent.Ping()).IsSuccess(), "the silent one can do no more");
        session = silent = TSession(); // the driver's end waits for what they still have
        relay.Silence(false);
        relay.Cut();
        driver.Stop(true);
        Success(Await(direct.Close()), "close the other session");
    }
    return Done();
}
