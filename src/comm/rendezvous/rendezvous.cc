#include "comm/rendezvous/rendezvous.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "comm/rendezvous/rendezvous_protocol.h"
#include "comm/transport/resolve.h"
#include "comm/transport/socket.h"

namespace evermoe {
namespace {

// Between attempts to reach a server that may not have started yet.
constexpr int kRetryMs = 20;

// One attempt. NotFound if nobody listens there yet.
absl::StatusOr<FileDescriptor> connect_once(const sockaddr_in& server, const Deadline& deadline) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return system_error("socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&server), sizeof(server)) == 0)
    return socket;
  if (errno != EINPROGRESS) return NotFound("nobody listens");
  RETURN_IF_ERROR(wait_for(socket.get(), POLLOUT, deadline));
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return NotFound("nobody listens");
  return socket;
}

absl::StatusOr<FileDescriptor> connect_to_server(const RendezvousRequest& request,
                                                 const Deadline& deadline) {
  ASSIGN_OR_RETURN(const sockaddr_in server, resolve(request.server));
  while (true) {
    auto socket = connect_once(server, deadline);
    const bool again = absl::IsNotFound(socket.status());
    if (!deadline.passed() && !again) return socket;
    if (deadline.passed()) {
      return Timeout(absl::StrCat("no rendezvous server answers at ", request.server));
    }
    ::poll(nullptr, 0, kRetryMs);
  }
}

absl::StatusOr<ReplyMessage> receive_reply(const FileDescriptor& socket, const Deadline& deadline) {
  std::string length(kLengthBytes, '\0');
  RETURN_IF_ERROR(receive_all(socket.get(), std::as_writable_bytes(std::span(length)), deadline));
  const size_t size = decode_length(length.data());
  if (size > kReplyBytesMax) return Corrupt(absl::StrCat("a rendezvous reply of ", size, " bytes"));
  std::string body(size, '\0');
  RETURN_IF_ERROR(receive_all(socket.get(), std::as_writable_bytes(std::span(body)), deadline));
  return decode_reply(body);
}

// Why the last reply did not come, in terms of the rendezvous.
absl::Status explain(const absl::Status& status, const RendezvousRequest& request,
                     const std::vector<int>& missing) {
  if (absl::IsCancelled(status)) {
    return Cancelled(absl::StrCat("the rendezvous server at ", request.server, " has stopped"));
  }
  if (!absl::IsDeadlineExceeded(status)) return status;
  if (missing.empty())
    return Timeout(absl::StrCat("the rendezvous server at ", request.server, " is silent"));
  return Timeout(Rank(missing.front()), absl::StrCat("ranks ", absl::StrJoin(missing, ", "),
                                                     " have not come to the rendezvous"));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> join_rendezvous(const RendezvousRequest& request,
                                                         absl::Duration timeout) {
  const Deadline deadline(timeout);
  const std::string join = encode(
      JoinMessage{request.rank.value, request.world_size, request.address, request.fingerprint});
  if (join.size() > kJoinBytesMax) {
    return InvalidInput(
        absl::StrCat("address and fingerprint of ", join.size(), " bytes are too long"));
  }
  ASSIGN_OR_RETURN(const FileDescriptor socket, connect_to_server(request, deadline));
  std::vector<int> missing;
  if (const auto sent = send_all(socket.get(), std::as_bytes(std::span(join)), deadline);
      !sent.ok()) {
    return explain(sent, request, missing);
  }
  while (true) {
    const auto reply = receive_reply(socket, deadline);
    if (!reply.ok()) return explain(reply.status(), request, missing);
    missing = reply->missing;
    if (!reply->is_result) continue;
    if (!reply->refusal.empty()) return InvalidInput(reply->refusal);
    return reply->addresses;
  }
}

}  // namespace evermoe
