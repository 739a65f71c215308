// What the programs share: checks in the form of TAP, the server that the environment names, and waits that end.
#pragma once

#include <ydb-cpp-sdk/client/coordination/coordination.h>
#include <ydb-cpp-sdk/client/driver/driver.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>

namespace compat {

using namespace NYdb::NCoordination;
using NYdb::EStatus;

// Patience is how long anything is waited for. It is no measure of how long things take.
constexpr std::uint64_t Patience = 60;

[[noreturn]] inline void BailOut(const std::string& why) {
    std::cout << "Bail out! " << why << std::endl;
    std::_Exit(1);
}

inline int Checks = 0;
inline int Failures = 0;

inline bool Ok(bool good, const std::string& what) {
    Failures += good ? 0 : 1;
    std::cout << (good ? "ok " : "not ok ") << ++Checks << " - " << what << std::endl;
    return good;
}

template <class T, class U>
bool Is(const T& got, const U& want, const std::string& what) {
    if (!Ok(got == want, what)) {
        std::cout << "# got " << got << ", want " << want << std::endl;
        return false;
    }
    return true;
}

// Done prints the plan, and returns what the program ends with.
inline int Done() {
    std::cout << "1.." << Checks << std::endl;
    return Failures == 0 ? 0 : 1;
}

// Await waits for the answer to a call.
template <class TFuture>
auto Await(TFuture future) {
    if (!future.Wait(TDuration::Seconds(Patience))) {
        BailOut("no answer");
    }
    return future.ExtractValueSync();
}

inline bool Status(const NYdb::TStatus& got, EStatus want, const std::string& what) {
    return Is(static_cast<std::size_t>(got.GetStatus()), static_cast<std::size_t>(want), what);
}

inline bool Success(const NYdb::TStatus& got, const std::string& what) {
    return Status(got, EStatus::SUCCESS, what);
}

// Must is for what the rest of a program needs.
inline void Must(const NYdb::TStatus& got, const std::string& what) {
    if (!Success(got, what)) {
        BailOut(what);
    }
}

// Events are what callbacks say.
template <class T>
class Events {
public:
    void Push(T event) {
        std::lock_guard guard(Mutex_);
        Queue_.push_back(std::move(event));
        Arrived_.notify_one();
    }

    T Next(const std::string& what) {
        std::unique_lock lock(Mutex_);
        if (!Arrived_.wait_for(lock, std::chrono::seconds(Patience), [this] { return !Queue_.empty(); })) {
            BailOut("never said: " + what);
        }
        T event = std::move(Queue_.front());
        Queue_.pop_front();
        return event;
    }

private:
    std::mutex Mutex_;
    std::condition_variable Arrived_;
    std::deque<T> Queue_;
};

inline std::string Environment(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

// Server is what YDB_CONNECTION_STRING says, as grpcs://user:password@host:port/database.
inline NYdb::TDriverConfig Server() {
    std::string rest = Environment("YDB_CONNECTION_STRING");
    const auto scheme = rest.find("://");
    if (scheme == std::string::npos) {
        BailOut("YDB_CONNECTION_STRING names no server");
    }
    NYdb::TDriverConfig config;
    if (rest.substr(0, scheme) == "grpcs") {
        std::ifstream file(Environment("YDB_SSL_ROOT_CERTIFICATES_FILE"));
        config.UseSecureConnection(std::string(std::istreambuf_iterator<char>(file), {}));
    }
    rest.erase(0, scheme + 3);
    if (const auto at = rest.find('@'); at != std::string::npos) {
        const auto colon = rest.find(':');
        config.SetCredentialsProviderFactory(NYdb::CreateLoginCredentialsProviderFactory(
            {.User = rest.substr(0, colon), .Password = rest.substr(colon + 1, at - colon - 1)}));
        rest.erase(0, at + 1);
    }
    if (const auto token = Environment("YDB_ACCESS_TOKEN_CREDENTIALS"); !token.empty()) {
        config.SetAuthToken(token);
    }
    const auto slash = rest.find('/');
    config.SetEndpoint(rest.substr(0, slash)).SetDatabase(rest.substr(slash));
    if (!Environment("COMPAT_PINNED").empty()) {
        config.SetDiscoveryMode(NYdb::EDiscoveryMode::Off);
    }
    return config;
}

// Fixture is a driver, a client and a node of its own, which is dropped in the end.
class Fixture {
public:
    explicit Fixture(const std::string& name, const NYdb::TDriverConfig& config = Server())
        : Node("/local/compat-cpp/" + name)
        , Driver(config)
        , Client(Driver)
    {
        Must(Await(Client.CreateNode(Node)), "create the node");
    }

    ~Fixture() {
        Success(Await(Client.DropNode(Node)), "drop the node");
        Driver.Stop(true);
    }

    TSession Start(const TSessionSettings& settings = TSessionSettings()) {
        auto started = Await(Client.StartSession(Node, settings));
        Must(started, "start a session");
        return started.ExtractResult();
    }

    const std::string Node;
    NYdb::TDriver Driver;
    TClient Client;
};

inline TAcquireSemaphoreSettings Lock() {
    return TAcquireSemaphoreSettings().Exclusive().Ephemeral();
}

inline bool Acquired(const TResult<bool>& got, bool want, const std::string& what) {
    return Success(got, what + ": answered") && Is(got.GetResult(), want, what);
}

} // namespace compat
