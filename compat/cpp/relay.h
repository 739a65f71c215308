// A relay of TCP connections between the SDK and its server, which can break them or fall silent.
#pragma once

#include "tap.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <list>
#include <thread>

namespace compat {

// Relay listens on the loopback address, and gives the server's host the names that it has in certificates.
class Relay {
public:
    explicit Relay(const std::string& server) {
        const auto colon = server.rfind(':');
        Host_ = server.substr(0, colon);
        Port_ = server.substr(colon + 1);
        Listener_ = Socket(Host_, "0", [](int socket, const addrinfo& address) {
            return bind(socket, address.ai_addr, address.ai_addrlen) == 0 && listen(socket, 16) == 0;
        });
        Accepter_ = std::thread([this] { Accept(); });
    }

    ~Relay() {
        Stopped_ = true;
        Accepter_.join();
        for (auto& connection : Connections_) {
            connection.join();
        }
        close(Listener_);
    }

    // Endpoint is what the SDK connects to.
    std::string Endpoint() const {
        sockaddr_storage address;
        socklen_t size = sizeof(address);
        std::array<char, NI_MAXSERV> port;
        if (getsockname(Listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
            getnameinfo(reinterpret_cast<sockaddr*>(&address), size, nullptr, 0, port.data(), port.size(), NI_NUMERICSERV) != 0)
        {
            BailOut("no port for the relay");
        }
        return Host_ + ":" + port.data();
    }

    // Cut resets every connection that there is.
    void Cut() { ++Generation_; }

    // Silence holds what both sides send, until it is over.
    void Silence(bool on) { HoldsRequests_ = HoldsAnswers_ = on; }

    // Mute holds what the server sends. What it holds is lost with the next cut.
    void Mute(bool on) { HoldsAnswers_ = on; }

private:
    // Pause is how long it takes at most until a relay does what it is told.
    static constexpr int Pause = 5;

    template <class TUse>
    static int Socket(const std::string& host, const std::string& port, TUse use) {
        addrinfo hints{};
        hints.ai_socktype = SOCK_STREAM;
        addrinfo* addresses = nullptr;
        if (getaddrinfo(host.c_str(), port.c_str(), &hints, &addresses) != 0) {
            return -1;
        }
        int found = -1;
        for (const auto* a = addresses; a != nullptr && found < 0; a = a->ai_next) {
            found = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
            if (found >= 0 && !use(found, *a)) {
                close(found);
                found = -1;
            }
        }
        freeaddrinfo(addresses);
        return found;
    }

    void Accept() {
        while (!Stopped_) {
            pollfd wanted{Listener_, POLLIN, 0};
            if (poll(&wanted, 1, Pause) <= 0) {
                continue;
            }
            const int client = accept(Listener_, nullptr, nullptr);
            if (client >= 0) {
                Connections_.emplace_back([this, client, generation = Generation_.load()] { Carry(client, generation); });
            }
        }
    }

    void Carry(int client, unsigned generation) {
        const int server = Socket(Host_, Port_, [](int socket, const addrinfo& address) {
            return connect(socket, address.ai_addr, address.ai_addrlen) == 0;
        });
        while (server >= 0 && !Stopped_ && Generation_ == generation) {
            std::array<pollfd, 2> wanted{
                pollfd{HoldsRequests_ ? -1 : client, POLLIN, 0}, pollfd{HoldsAnswers_ ? -1 : server, POLLIN, 0}};
            poll(wanted.data(), wanted.size(), Pause);
            // A cut that came meanwhile takes what has not been carried yet.
            if (Generation_ != generation || (wanted[0].revents != 0 && !Copy(client, server)) ||
                (wanted[1].revents != 0 && !Copy(server, client)))
            {
                break;
            }
        }
        // Without lingering, the end of a connection is a reset.
        const linger none{1, 0};
        for (const int end : {client, server}) {
            if (end >= 0) {
                setsockopt(end, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
                close(end);
            }
        }
    }

    static bool Copy(int from, int to) {
        std::array<char, 1 << 16> buffer;
        const auto got = recv(from, buffer.data(), buffer.size(), 0);
        for (ssize_t sent = 0; sent < got;) {
            const auto n = send(to, buffer.data() + sent, got - sent, MSG_NOSIGNAL);
            if (n <= 0) {
                return false;
            }
            sent += n;
        }
        return got > 0;
    }

    std::string Host_, Port_;
    int Listener_ = -1;
    std::atomic<bool> Stopped_ = false, HoldsRequests_ = false, HoldsAnswers_ = false;
    std::atomic<unsigned> Generation_ = 0;
    std::thread Accepter_;
    std::list<std::thread> Connections_; // touched by the accepter alone, until that has ended
};

} // namespace compat
