#include "comm/unix/unix_meeting.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

// Between two attempts to reach a process whose queue is full or that has hung up. Short beside the
// promise to report a death within 100 ms: the second attempt tells whether it was one.
constexpr absl::Duration kRetryPause = absl::Milliseconds(10);
// More callers than ranks are strangers and processes of the past: the oldest have to go.
constexpr size_t kStrangersMax = 64;

}  // namespace

UnixMeeting::UnixMeeting(ListeningSocket listening, Rank rank, int size)
    : listening_(std::move(listening)),
      rank_(rank),
      size_(static_cast<uint32_t>(size)),
      process_(process_number(listening_.name)) {}

absl::Status UnixMeeting::start() {
  wake_up_ = FileDescriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  return wake_up_ ? absl::OkStatus() : system_error("eventfd");
}

absl::Status UnixMeeting::run(std::map<Rank, UnixProcess> missing, const Deadline& deadline,
                              const Connected& connected) {
  const MutexLock lock(mutex_);
  missing_ = std::move(missing);
  std::erase_if(contacts_, [this](const auto& entry) {
    mutex_.assert_held();
    const auto wanted = missing_.find(entry.first);
    return wanted == missing_.end() || wanted->second != entry.second.process;
  });
  const absl::Status result = meet_all(deadline, connected);
  // Who is silent may call again. So nobody has to look after them between runs.
  callers_.remove_if([](const Caller& caller) { return !caller.reader.greeting(); });
  std::erase_if(contacts_, [](const auto& entry) { return !entry.second.process.we_call; });
  return result;
}

absl::Status UnixMeeting::meet_all(const Deadline& deadline, const Connected& connected) {
  for (bool is_last = false;; is_last = deadline.passed()) {
    if (closed_) return Cancelled("the transport is closed");
    RETURN_IF_ERROR(answer_callers(connected));
    if (missing_.empty()) return absl::OkStatus();
    if (is_last) return timeout();
    RETURN_IF_ERROR(contact_missing());
    RETURN_IF_ERROR(wait_for_events(deadline, connected));
  }
}

absl::Status UnixMeeting::timeout() const {
  std::vector<int32_t> ranks;
  for (const auto& [rank, process] : missing_) ranks.push_back(rank.value);
  return Timeout(Rank(ranks[0]),
                 absl::StrCat("ranks ", absl::StrJoin(ranks, ", "), " have not connected in time"));
}

Greeting UnixMeeting::own_greeting(View since) const { return {rank_, size_, since, process_}; }

absl::Status UnixMeeting::contact_missing() {
  if (!next_attempt_.passed()) return absl::OkStatus();
  for (const auto& [rank, process] : missing_) {
    if (contacts_.contains(rank)) continue;
    ASSIGN_OR_RETURN(Contact contact, make_contact(rank, process));
    if (contact.socket) {
      contacts_.emplace(rank, std::move(contact));
    } else {
      next_attempt_ = Deadline(kRetryPause);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<UnixMeeting::Contact> UnixMeeting::make_contact(Rank rank,
                                                               const UnixProcess& process) {
  Contact contact{process, {}, {}, {}};
  ASSIGN_OR_RETURN(contact.socket, call(rank, process.name));
  if (!contact.socket || !process.we_call) return contact;
  ASSIGN_OR_RETURN(StreamPair service_messages, make_stream_pair());
  const absl::Status greeted =
      send_greeting(contact.socket, own_greeting(process.since), service_messages.theirs);
  if (absl::IsCancelled(greeted)) contact.socket.reset();
  if (!greeted.ok() && !absl::IsCancelled(greeted)) return greeted;
  contact.service_messages = std::move(service_messages.ours);
  return contact;
}

absl::Status UnixMeeting::answer_callers(const Connected& connected) {
  for (Caller& caller : callers_) {
    if (!caller.reader.greeting()) continue;
    const Greeting& greeting = *caller.reader.greeting();
    const auto named = missing_.find(greeting.rank);
    if (named == missing_.end() || named->second.we_call || named->second.since != greeting.since ||
        process_number(named->second.name) != greeting.process) {
      continue;
    }
    RETURN_IF_ERROR(answer(caller, named->second, connected));
  }
  callers_.remove_if([](const Caller& caller) { return !caller.socket; });
  return absl::OkStatus();
}

// Takes the caller's sockets in any case: they become the connection or are closed.
absl::Status UnixMeeting::answer(Caller& caller, const UnixProcess& process,
                                 const Connected& connected) {
  const Greeting greeting = *caller.reader.greeting();
  UnixStreams streams{std::move(caller.socket), caller.reader.take_passed()};
  const absl::Status sent = send_greeting(streams.messages, own_greeting(process.since), {});
  RETURN_IF_ERROR(check_world(greeting.rank, greeting.world_size));
  if (!sent.ok() || !streams.service_messages) {
    log_warning(absl::StrCat("rank ", greeting.rank.value, " has called and gone"));
    return absl::OkStatus();
  }
  contacts_.erase(greeting.rank);
  missing_.erase(greeting.rank);
  return connected(greeting.rank, std::move(streams));
}

absl::Status UnixMeeting::check_world(Rank rank, uint32_t world_size) const {
  if (world_size == size_) return absl::OkStatus();
  return InvalidInput(absl::StrCat("rank ", rank.value, " believes in ", world_size,
                                   " ranks, this one in ", size_));
}

absl::Status UnixMeeting::wait_for_events(const Deadline& deadline, const Connected& connected) {
  std::vector<pollfd> watched{{wake_up_.get(), POLLIN, 0}, {listening_.socket.get(), POLLIN, 0}};
  for (const Caller& caller : callers_) {
    watched.push_back(
        {caller.socket.get(), static_cast<short>(caller.reader.greeting() ? 0 : POLLIN), 0});
  }
  for (const auto& [rank, contact] : contacts_) {
    watched.push_back(
        {contact.socket.get(), static_cast<short>(contact.process.we_call ? POLLIN : 0), 0});
  }
  const bool all_contacted = contacts_.size() == missing_.size();
  const int timeout_ms =
      all_contacted ? deadline.left_ms() : std::min(deadline.left_ms(), next_attempt_.left_ms());
  if (::poll(watched.data(), watched.size(), timeout_ms) < 0) {
    return errno == EINTR ? absl::OkStatus() : system_error("poll");
  }
  auto at = watched.cbegin() + 2;
  for (Caller& caller : callers_) {
    if (at++->revents != 0) hear(caller);
  }
  for (auto& [rank, contact] : contacts_) {
    if (at++->revents != 0) RETURN_IF_ERROR(hear_answer(rank, contact, connected));
  }
  std::erase_if(contacts_, [](const auto& entry) { return !entry.second.socket; });
  if (watched[1].revents != 0) RETURN_IF_ERROR(accept_callers());
  callers_.remove_if([](const Caller& caller) { return !caller.socket; });
  return absl::OkStatus();
}

absl::Status UnixMeeting::accept_callers() {
  while (true) {
    ASSIGN_OR_RETURN(FileDescriptor socket, accept_call(listening_.socket));
    if (!socket) return absl::OkStatus();
    callers_.push_back({std::move(socket), {}});
    hear(callers_.back());
    if (callers_.size() <= size_ + kStrangersMax) continue;
    const auto silent = std::find_if(callers_.begin(), callers_.end(),
                                     [](const Caller& c) { return !c.reader.greeting(); });
    callers_.erase(silent == callers_.end() ? callers_.begin() : silent);
  }
}

// Who has greeted says nothing more before we have answered: it can only have hung up.
void UnixMeeting::hear(Caller& caller) {
  const auto heard =
      caller.reader.greeting() ? Cancelled("hung up") : caller.reader.read(caller.socket);
  if (heard.ok()) return;
  if (absl::IsUnimplemented(heard.status()))
    send_greeting(caller.socket, own_greeting(View(0)), {}).IgnoreError();
  if (!absl::IsCancelled(heard.status()))
    log_warning(absl::StrCat("refused a connection: ", heard.status().ToString()));
  caller.socket.reset();
}

// A contact that breaks is made again: if its process is dead, that fails.
absl::Status UnixMeeting::hear_answer(Rank rank, Contact& contact, const Connected& connected) {
  const auto heard = contact.process.we_call ? contact.answer.read(contact.socket)
                                             : Cancelled("the idle connection broke");
  if (absl::IsCancelled(heard.status())) {
    contact.socket.reset();
    next_attempt_ = Deadline(kRetryPause);
    return absl::OkStatus();
  }
  if (!heard.ok())
    return annotate(heard.status(), absl::StrCat("the answer at the address of rank ", rank.value));
  if (!*heard) return absl::OkStatus();
  const Greeting& greeting = *contact.answer.greeting();
  UnixStreams streams{std::move(contact.socket), std::move(contact.service_messages)};
  RETURN_IF_ERROR(check_world(rank, greeting.world_size));
  if (greeting.rank != rank || greeting.process != process_number(contact.process.name)) {
    return InvalidInput(
        absl::StrCat("rank ", greeting.rank.value, " answers at the address of rank ", rank.value));
  }
  missing_.erase(rank);
  return connected(rank, std::move(streams));
}

void UnixMeeting::close() {
  closed_ = true;
  const uint64_t one = 1;
  CHECK(::write(wake_up_.get(), &one, sizeof(one)) == sizeof(one) || errno == EAGAIN);
  const MutexLock lock(mutex_);
  listening_.socket.reset();
  callers_.clear();
  contacts_.clear();
}

}  // namespace evermoe
