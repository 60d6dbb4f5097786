#include "lacuna/plan/link.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "lacuna/core/system/clock.h"

namespace lacuna {
namespace {

constexpr size_t kSentBytes = 32 << 20, kSentBlock = 1 << 20;
constexpr int kMessages = 200;
constexpr double kNetworkHop = 50e-6, kGpuHop = 20e-6;  // seconds, of usual machines

class Socket {
 public:
  explicit Socket(int number) : number_(number) {}
  ~Socket() {
    if (number_ >= 0) ::close(number_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int number() const { return number_; }
  bool is_open() const { return number_ >= 0; }

  bool send(const char* at, size_t left) const {
    while (left > 0) {
      const ssize_t sent = ::send(number_, at, left, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent;
      left -= size_t(sent);
    }
    return true;
  }
  bool receive(char* at, size_t left) const {
    while (left > 0) {
      const ssize_t received = ::recv(number_, at, left, 0);
      if (received <= 0) return false;
      at += received;
      left -= size_t(received);
    }
    return true;
  }

 private:
  int number_;
};

// The other end: takes the bytes, answers once, then answers every message.
void answer(const Socket& socket) {
  std::vector<char> block(kSentBlock);
  for (size_t done = 0; done < kSentBytes; done += kSentBlock)
    if (!socket.receive(block.data(), kSentBlock)) return;
  for (int i = 0; i <= kMessages; ++i) {
    if (!socket.send(block.data(), 1)) return;
    if (i < kMessages && !socket.receive(block.data(), 1)) return;
  }
}

// {seconds of kSentBytes, seconds of a message}; zeros where it broke off.
std::pair<double, double> talk(const Socket& socket) {
  using Clock = std::chrono::steady_clock;
  std::vector<char> block(kSentBlock, 1);
  const auto start = Clock::now();
  for (size_t done = 0; done < kSentBytes; done += kSentBlock)
    if (!socket.send(block.data(), kSentBlock)) return {};
  if (!socket.receive(block.data(), 1)) return {};
  const double bytes = seconds_since(start);
  const auto second = Clock::now();
  for (int i = 0; i < kMessages; ++i)
    if (!socket.send(block.data(), 1) || !socket.receive(block.data(), 1)) return {};
  return {bytes, seconds_since(second) / kMessages / 2};  // to and fro
}

std::pair<double, double> measure_loopback() {
  const Socket server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Socket one(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!server.is_open() || !one.is_open()) return {};
  sockaddr_in place = {};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(place);
  auto* const address = reinterpret_cast<sockaddr*>(&place);
  // The kernel completes a connection before accept() is called: one thread does both.
  if (::bind(server.number(), address, size) != 0 || ::listen(server.number(), 1) != 0 ||
      ::getsockname(server.number(), address, &size) != 0 ||
      ::connect(one.number(), address, size) != 0)
    return {};
  const Socket other(::accept4(server.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!other.is_open()) return {};
  const int now = 1;
  for (const Socket* socket : {&one, &other})
    ::setsockopt(socket->number(), IPPROTO_TCP, TCP_NODELAY, &now, sizeof(now));
  std::pair<double, double> found;
  {
    const std::jthread thread([&] { answer(other); });
    found = talk(one);
    ::shutdown(one.number(), SHUT_RDWR);  // where it broke off the other one waits
  }
  return found;
}

}  // namespace

Link measure_link() {
  const auto [bytes, message] = measure_loopback();
  if (bytes <= 0 || message <= 0)
    return {{1e9, "assumed: sockets of this host could not be measured"}, {kNetworkHop, "assumed"}};
  return {{double(kSentBytes) / bytes, "measured: 32 MB between two threads over TCP"},
          {message, "measured: 200 messages to and fro"}};
}

Link told_link(double bytes_per_second) {
  return {{bytes_per_second, "--link"}, {kNetworkHop, "assumed"}};
}

Link gpu_link(const Gpu& gpu) {
  return {{gpu.link.value, gpu.link.from + "; NVLink is faster: say it with --link"},
          {kGpuHop, "assumed"}};
}

}  // namespace lacuna
