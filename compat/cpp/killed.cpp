// A holder that dies: its locks are free when its session times out, and not before.
#include "tap.h"

#include <csignal>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace compat;

extern char** environ;

namespace {

constexpr auto Timeout = std::chrono::seconds(6);

// Hold is the other process. It takes the lock, writes a line, and waits for its end.
[[noreturn]] void Hold(const std::string& node) {
    NYdb::TDriver driver(Server());
    TClient client(driver);
    auto started = Await(client.StartSession(node, TSessionSettings().Timeout(TDuration::Seconds(Timeout.count()))));
    Must(started, "start a session");
    auto session = started.ExtractResult();
    if (!Acquired(Await(session.AcquireSemaphore("lock", TAcquireSemaphoreSettings().Count(1))), true, "take the lock")) {
        BailOut("no lock");
    }
    std::cout << "held" << std::endl;
    for (;;) {
        pause();
    }
}

// Child runs this program as another process, and reads what it says.
class Child {
public:
    explicit Child(const std::string& node) {
        int ends[2];
        if (pipe(ends) != 0) {
            BailOut("no pipe");
        }
        std::string program = "/proc/self/exe", argument = node;
        char* arguments[] = {program.data(), argument.data(), nullptr};
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        posix_spawn_file_actions_addclose(&actions, ends[0]);
        const int failed = posix_spawn(&Pid_, program.c_str(), &actions, nullptr, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        if (failed != 0) {
            BailOut("no other process");
        }
        Said_ = ends[0];
    }

    ~Child() {
        Kill();
        close(Said_);
    }

    // Says waits for a line.
    bool Says(const std::string& line) {
        std::string said;
        char buffer[256];
        for (ssize_t n; said.find(line + "\n") == std::string::npos; said.append(buffer, n)) {
            if ((n = read(Said_, buffer, sizeof(buffer))) <= 0) {
                std::cout << "# it said: " << said.substr(0, said.find_last_not_of('\n') + 1) << std::endl;
                return false;
            }
        }
        return true;
    }

    void Kill() {
        if (Pid_ > 0) {
            kill(Pid_, SIGKILL);
            waitpid(Pid_, nullptr, 0);
            Pid_ = 0;
        }
    }

private:
    pid_t Pid_ = 0;
    int Said_ = -1;
};

} // namespace

int main(int argc, char** argv) {
    if (argc > 1) {
        Hold(argv[1]);
    }
    {
        Fixture f("killed");
        auto next = f.Start();
        Success(Await(next.CreateSemaphore("lock", 1)), "create a semaphore");
        Child holder(f.Node);
        if (!Ok(holder.Says("held"), "another process has it")) {
            BailOut("nobody holds it");
        }
        Events<bool> accepted;
        auto waiting = next.AcquireSemaphore("lock", TAcquireSemaphoreSettings().Count(1).OnAccepted([&] { accepted.Push(true); }));
        Ok(accepted.Next("accepted"), "told of the wait");
        auto described = Await(next.DescribeSemaphore("lock", TDescribeSemaphoreSettings().IncludeOwners().IncludeWaiters()));
        Must(described, "describe it");
        const auto& lock = described.GetResult();
        Ok(lock.GetOwners().size() == 1 && lock.GetWaiters().size() == 1 &&
            lock.GetOwners()[0].GetOrderId() < lock.GetWaiters()[0].GetOrderId(), "the order is that of the acquires");

        const auto killed = std::chrono::steady_clock::now();
        holder.Kill();
        Acquired(Await(waiting), true, "the next one has it");
        Ok(std::chrono::steady_clock::now() - killed >= Timeout, "and not before the dead one's session has timed out");
        Success(Await(next.Close()), "close");
    }
    return Done();
}
