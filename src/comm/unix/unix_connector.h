// How the processes of one machine connect when one of them needs the other: calls to older ones,
// calls of younger ones.
//
// Of two processes the younger one calls. It greets and then waits for the answer, which the called
// process gives once its own table names the caller: the greeting carries who it is (frame.h), and
// a caller that is not named, or that says nothing, waits without being in anybody's way. Where the
// older one needs the connection first, it asks to be called. Both kinds of contact break when the
// other process dies.
//
// Threads: drive() belongs to the progress thread, the rest to any; want() may be called while
// holding a mutex that the outcomes take.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "comm/channel/progress_thread.h"
#include "comm/transport/deadline.h"
#include "comm/unix/unix_connect.h"

namespace evermoe {

// A process that may be connected with.
struct UnixProcess {
  std::string name;      // it listens at
  View since;            // of the younger one of the two: both ends know the same
  bool we_call = false;  // else it calls us
};

struct UnixStreams {
  FileDescriptor messages;
  FileDescriptor service_messages;
};

class UnixConnector {
 public:
  // What becomes of a named process, called by the progress thread; then it is forgotten.
  struct Outcomes {
    std::function<void(Rank, UnixStreams)> connected;
    // PeerLost if it is dead, InvalidInput if it believes in another world, or the system's error.
    std::function<void(Rank, const absl::Status&)> failed;
  };

  UnixConnector(ListeningSocket listening, Rank rank, int size, ProgressThread& progress,
                Outcomes outcomes);
  // The only part of construction that can fail.
  absl::Status start();
  const std::string& name() const { return listening_name_; }

  // From now on the process may be wanted and may call.
  void name_process(Rank rank, UnixProcess process);
  // Returns when no outcome of the rank's process comes any more.
  void forget(Rank rank);
  // A connection with the rank's process is needed.
  void want(Rank rank);

  // So far.
  int64_t calls_answered() const;

  // Works off what there is to do, without blocking.
  ProgressThread::Next drive();

  // Stops listening. After the progress thread has stopped.
  void close();

 private:
  struct Caller {
    uint32_t number;
    FileDescriptor socket;
    GreetingReader reader;
  };
  // Our connection to a wanted process: a call that waits for its answer, or the one that asks to
  // be called.
  struct Contact {
    FileDescriptor socket;
    FileDescriptor service_messages;  // of a call: our end
    GreetingReader answer;
  };

  void take_wishes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void handle_events() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status watch(const FileDescriptor& socket, uint64_t key) const;

  void accept_callers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void pause_listening(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void set_listening(bool listens) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop_a_stranger() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void hear(Caller& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void answer_callers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void answer(Caller& caller, View since) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool contact_wanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool contact(Rank rank, const UnixProcess& process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Contact> make_contact(Rank rank, const UnixProcess& process);
  void hear_answer(Rank rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Greeting own_greeting(View since, GreetingKind kind = GreetingKind::kHello) const;
  absl::Status check_world(const Greeting& greeting) const;
  void connect(Rank rank, UnixStreams streams) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void fail(Rank rank, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void drop(Rank rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string listening_name_;
  const Rank rank_;
  const uint32_t size_;
  const uint64_t process_;
  ProgressThread& progress_;
  const Outcomes outcomes_;
  FileDescriptor epoll_;

  Mutex wishes_mutex_;  // no other mutex is taken while it is held
  std::set<Rank> wishes_ ABSL_GUARDED_BY(wishes_mutex_);

  mutable Mutex mutex_;
  ListeningSocket listening_ ABSL_GUARDED_BY(mutex_);
  std::map<Rank, UnixProcess> unconnected_ ABSL_GUARDED_BY(mutex_);  // named ones
  std::set<Rank> wanted_ ABSL_GUARDED_BY(mutex_);                    // some may not be named yet
  std::map<Rank, Contact> contacts_ ABSL_GUARDED_BY(mutex_);         // of unconnected_
  std::list<Caller> callers_ ABSL_GUARDED_BY(mutex_);
  uint32_t caller_count_ ABSL_GUARDED_BY(mutex_) = 0;   // ever accepted
  int64_t calls_answered_ ABSL_GUARDED_BY(mutex_) = 0;  // ours, by others
  bool is_listening_ ABSL_GUARDED_BY(mutex_) = true;
  Deadline listen_again_ ABSL_GUARDED_BY(mutex_){absl::ZeroDuration()};
  // Before it nobody is called again.
  Deadline next_attempt_ ABSL_GUARDED_BY(mutex_){absl::ZeroDuration()};
};

}  // namespace evermoe
