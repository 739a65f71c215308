// Contention: one owner at a time, also while connections are made anew.
#include "tap.h"

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

using namespace compat;

int main() {
    {
        constexpr int Contenders = 6, Rounds = 25;
        std::atomic<int> inside = 0, together = 0, grants = 0, refused = 0, lost = 0;
        Fixture f("contention");
        std::deque<NYdb::TDriver> drivers;
        for (int i = 0; i < 3; ++i) {
            drivers.emplace_back(Server());
        }
        std::vector<TSession> sessions;
        for (int i = 0; i < Contenders; ++i) {
            TClient client(drivers[i % drivers.size()]);
            auto started = Await(client.StartSession(f.Node, TSessionSettings().Timeout(TDuration::Seconds(30))));
            Must(started, "start a session");
            sessions.push_back(started.ExtractResult());
        }
        std::vector<std::thread> threads;
        for (auto& session : sessions) {
            threads.emplace_back([&] {
                for (int i = 0; i < Rounds; ++i) {
                    auto acquired = Await(session.AcquireSemaphore("lock", Lock()));
                    if (!acquired.IsSuccess() || !acquired.GetResult()) {
                        ++refused;
                        continue;
                    }
                    ++grants;
                    if (++inside != 1) {
                        ++together;
                    }
                    if (i % 5 == 0 && !Await(session.Reconnect()).IsSuccess()) {
                        ++lost;
                    }
                    --inside;
                    if (!Await(session.ReleaseSemaphore("lock")).IsSuccess()) {
                        ++lost;
                    }
                }
            });
        }
        for (auto& thread : threads) {
            thread.join();
        }
        Is(grants.load(), Contenders * Rounds, "each got the lock each time");
        Is(refused.load(), 0, "no acquire was refused");
        Is(together.load(), 0, "never two owners at a time");
        Is(lost.load(), 0, "no connection and no release failed");
        for (auto& session : sessions) {
            Success(Await(session.Close()), "close");
        }
        sessions.clear(); // a driver's end waits for what they still have, though they are closed
        for (auto& driver : drivers) {
            driver.Stop(true);
        }
    }
    return Done();
}
