// The sockets of processes that connect: names to listen at, calls, and greetings with a second
// stream.
//
// A pair of processes has two streams. The caller connects the first one to the other's name, makes
// the second one itself, and passes one end of it along with its greeting.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "comm/transport/frame.h"
#include "comm/transport/socket.h"

namespace evermoe {

struct ListeningSocket {
  FileDescriptor socket;
  std::string name;  // abstract, without the leading zero byte
};

// The name is random and vanishes with the process.
absl::StatusOr<ListeningSocket> listen_on_random_name();

// A connection to the process that listens at `name`; an empty one if its queue is full just now.
// PeerLost if nobody listens there any more, or another user does: the name of a dead process is
// free for anybody. Never blocks.
absl::StatusOr<FileDescriptor> call(Rank peer, const std::string& name);

// The next connection in the queue; an empty one if there is none, or if it is another user's, who
// is told apart by what the kernel says of the other end (SO_PEERCRED).
absl::StatusOr<FileDescriptor> accept_call(const FileDescriptor& listener);

struct StreamPair {
  FileDescriptor ours;
  FileDescriptor theirs;
};
absl::StatusOr<StreamPair> make_stream_pair();

// Sends a greeting over a fresh connection, with a descriptor if `passed` has one. Cancelled if the
// other end has closed.
absl::Status send_greeting(const FileDescriptor& socket, const Greeting& greeting,
                           const FileDescriptor& passed);

// Reads one greeting and what is passed along, in as many parts as it comes.
class GreetingReader {
 public:
  // Reads what is there without blocking. True once the greeting is complete. Cancelled if the
  // other end has closed before, and as decode_greeting().
  absl::StatusOr<bool> read(const FileDescriptor& socket);

  bool has_begun() const { return count_ > 0; }
  const std::optional<Greeting>& greeting() const { return greeting_; }
  FileDescriptor take_passed() { return std::move(passed_); }

 private:
  GreetingBytes bytes_{};
  size_t count_ = 0;
  std::optional<Greeting> greeting_;
  FileDescriptor passed_;
};

}  // namespace evermoe
