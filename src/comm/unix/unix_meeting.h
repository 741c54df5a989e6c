// How the processes of one machine find each other: calls to older ones, calls of younger ones.
//
// A caller greets and then waits for the answer, which the called process gives once its own table
// names the caller: the greeting carries who it is (frame.h), and a caller that is not named, or
// that says nothing, waits without being in anybody's way. Whoever waits for a younger process
// keeps an idle connection to it meanwhile: it breaks when that process dies.
//
// Sockets are only looked at inside run(), by the calling thread; between runs callers wait in the
// kernel's queue.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "comm/transport/deadline.h"
#include "comm/unix/unix_connect.h"

struct pollfd;

namespace evermoe {

// A process to be met.
struct UnixProcess {
  std::string name;      // it listens at
  View since;            // of the younger one of the two: both ends know the same
  bool we_call = false;  // else it calls us
  friend bool operator==(const UnixProcess&, const UnixProcess&) = default;
};

struct UnixStreams {
  FileDescriptor messages;
  FileDescriptor service_messages;
};

class UnixMeeting {
 public:
  using Connected = std::function<absl::Status(Rank, UnixStreams)>;

  UnixMeeting(ListeningSocket listening, Rank rank, int size);
  absl::Status start();
  const std::string& name() const { return listening_.name; }

  // Connects with the processes of `missing`, and calls `connected` for each; an error of that ends
  // the run. PeerLost as soon as one of them is found dead, Timeout naming the others at the
  // deadline, InvalidInput if one believes in another world, Cancelled after close(). Calls that
  // were not answered are kept for the next run, if that still wants the same process. One thread
  // at a time.
  absl::Status run(std::map<Rank, UnixProcess> missing, const Deadline& deadline,
                   const Connected& connected);

  // Ends a run and stops listening. From any thread.
  void close();

 private:
  struct Caller {
    FileDescriptor socket;
    GreetingReader reader;
  };
  // Our connection to a missing process: a call that waits for its answer, or the idle one.
  struct Contact {
    UnixProcess process;
    FileDescriptor socket;
    FileDescriptor service_messages;  // of a call: our end
    GreetingReader answer;
  };

  absl::Status meet_all(const Deadline& deadline, const Connected& connected)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status contact_missing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Contact> make_contact(Rank rank, const UnixProcess& process);
  Greeting own_greeting(View since) const;
  absl::Status answer_callers(const Connected& connected) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status answer(Caller& caller, const UnixProcess& process, const Connected& connected)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status wait_for_events(const Deadline& deadline, const Connected& connected)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status accept_callers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void hear(Caller& caller);
  absl::Status hear_answer(Rank rank, Contact& contact, const Connected& connected)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status check_world(Rank rank, uint32_t world_size) const;
  absl::Status timeout() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ListeningSocket listening_;
  const Rank rank_;
  const uint32_t size_;
  const uint64_t process_;
  FileDescriptor wake_up_;
  std::atomic<bool> closed_ = false;

  Mutex mutex_;  // guards the listening socket, too
  std::map<Rank, UnixProcess> missing_ ABSL_GUARDED_BY(mutex_);
  // Of missing processes only.
  std::map<Rank, Contact> contacts_ ABSL_GUARDED_BY(mutex_);
  std::list<Caller> callers_ ABSL_GUARDED_BY(mutex_);
  // Before it nobody is called again.
  Deadline next_attempt_ ABSL_GUARDED_BY(mutex_){absl::ZeroDuration()};
};

}  // namespace evermoe
