// The stream part of machine_rates.h.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "cli/commands/machine_rates.h"
#include "comm/transport/socket.h"
#include "env/clock.h"
#include "env/process.h"

namespace evermoe {
namespace {

constexpr int kPings = 2000;
constexpr int64_t kMessageBytes = 16 << 20;
constexpr absl::Duration kStreamPatience = absl::Seconds(60);

using Ends = std::pair<FileDescriptor, FileDescriptor>;

absl::StatusOr<Ends> connected_pair() {
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (!listener || ::bind(listener.get(), where, size) != 0 || ::listen(listener.get(), 1) != 0 ||
      ::getsockname(listener.get(), where, &size) != 0) {
    return system_error("loopback");
  }
  FileDescriptor near(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!near || ::connect(near.get(), where, size) != 0) return system_error("loopback");
  FileDescriptor far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!far) return system_error("loopback");
  const int on = 1;
  for (const int fd : {near.get(), far.get()}) {
    if (::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
      return system_error("loopback");
    if (::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
      return system_error("loopback");
  }
  return Ends(std::move(near), std::move(far));
}

absl::Status send_length(int fd, int64_t length, const Deadline& deadline) {
  std::array<std::byte, sizeof length> header;
  std::memcpy(header.data(), &length, sizeof length);
  return send_all(fd, header, deadline);
}

// One message and its answer.
absl::Status exchange(int fd, std::span<const std::byte> message, const Deadline& deadline) {
  RETURN_IF_ERROR(send_length(fd, std::ssize(message), deadline));
  RETURN_IF_ERROR(send_all(fd, message, deadline));
  std::byte answer;
  return receive_all(fd, {&answer, 1}, deadline);
}

absl::StatusOr<StreamRates> measure(int fd, int64_t bytes) {
  const Deadline deadline(kStreamPatience);
  const std::vector<std::byte> message(kMessageBytes);
  std::vector<double> pings;
  for (int i = 0; i < kPings; ++i) {
    const absl::Duration began = real_clock().now();
    RETURN_IF_ERROR(exchange(fd, std::span(message).first(1), deadline));
    pings.push_back(absl::ToDoubleSeconds(real_clock().now() - began));
  }
  std::nth_element(pings.begin(), pings.begin() + kPings / 2, pings.end());
  const int64_t count = std::max<int64_t>(1, bytes / kMessageBytes);
  const absl::Duration began = real_clock().now();
  for (int64_t i = 0; i < count; ++i) RETURN_IF_ERROR(exchange(fd, message, deadline));
  const double seconds = absl::ToDoubleSeconds(real_clock().now() - began);
  RETURN_IF_ERROR(send_length(fd, 0, deadline));
  return StreamRates{static_cast<double>(count * kMessageBytes) / seconds, pings[kPings / 2] / 2};
}

}  // namespace

absl::StatusOr<StreamRates> stream_rates(const std::string& program, int64_t bytes) {
  ASSIGN_OR_RETURN(Ends ends, connected_pair());
  SpawnOptions options{.program = program,
                       .arguments = {"profile", "--echo", absl::StrCat(ends.second.get())}};
  options.inherited_fds = {ends.second.get()};
  ASSIGN_OR_RETURN(const auto child, spawn(options));
  ends.second.reset();  // so that its end is noticed
  ASSIGN_OR_RETURN(const StreamRates rates, measure(ends.first.get(), bytes));
  ASSIGN_OR_RETURN(const ExitStatus status, child->wait(kStreamPatience));
  if (!status.ok())
    return Internal(absl::StrCat("the other process of the stream: ", to_string(status)));
  return rates;
}

absl::Status echo_messages(int fd) {
  const Deadline deadline(kStreamPatience);
  std::vector<std::byte> message(kMessageBytes);
  while (true) {
    int64_t length = 0;
    RETURN_IF_ERROR(receive_all(fd, std::as_writable_bytes(std::span(&length, 1)), deadline));
    if (length == 0) return absl::OkStatus();
    if (length < 0 || length > kMessageBytes) return InvalidInput("echo: no such message");
    RETURN_IF_ERROR(
        receive_all(fd, std::span(message).first(static_cast<size_t>(length)), deadline));
    const std::byte answer{1};
    RETURN_IF_ERROR(send_all(fd, {&answer, 1}, deadline));
  }
}

}  // namespace evermoe
