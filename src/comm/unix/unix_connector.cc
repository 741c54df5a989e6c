#include "comm/unix/unix_connector.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"

namespace evermoe {
namespace {

// Between two attempts to reach a process whose queue is full or that has hung up. Short beside the
// promise to report a death within 100 ms: the second attempt tells whether it was one.
constexpr absl::Duration kRetryPause = absl::Milliseconds(10);
// After the system has refused a connection.
constexpr absl::Duration kListeningPause = absl::Seconds(1);
// More callers than ranks are strangers and processes of the past: the oldest have to go.
constexpr size_t kStrangersMax = 64;
constexpr int kConnectorEventsMax = 64;

// Epoll data: a contact's is its rank.
constexpr uint64_t kListener = ~uint64_t{0};
constexpr uint64_t kOfCaller = uint64_t{1} << 32;  // and its number

}  // namespace

UnixConnector::UnixConnector(ListeningSocket listening, Rank rank, int size,
                             ProgressThread& progress, Outcomes outcomes)
    : listening_name_(listening.name),
      rank_(rank),
      size_(static_cast<uint32_t>(size)),
      process_(process_number(listening.name)),
      progress_(progress),
      outcomes_(std::move(outcomes)),
      listening_(std::move(listening)) {}

absl::Status UnixConnector::start() {
  epoll_ = FileDescriptor(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return system_error("epoll_create");
  const MutexLock lock(mutex_);
  return watch(listening_.socket, kListener);
}

absl::Status UnixConnector::watch(const FileDescriptor& socket, uint64_t key) const {
  epoll_event event{EPOLLIN, {.u64 = key}};
  const bool added = ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket.get(), &event) == 0;
  return added ? absl::OkStatus() : system_error("epoll_ctl");
}

void UnixConnector::name_process(Rank rank, UnixProcess process) {
  {
    const MutexLock lock(mutex_);
    unconnected_[rank] = std::move(process);
  }
  progress_.tell();  // it may have called already
}

void UnixConnector::forget(Rank rank) {
  const MutexLock lock(mutex_);
  drop(rank);
}

void UnixConnector::want(Rank rank) {
  {
    const MutexLock lock(wishes_mutex_);
    if (!wishes_.insert(rank).second) return;
  }
  progress_.tell();
}

int64_t UnixConnector::calls_answered() const {
  const MutexLock lock(mutex_);
  return calls_answered_;
}

ProgressThread::Next UnixConnector::drive() {
  const MutexLock lock(mutex_);
  if (!is_listening_ && listen_again_.passed()) set_listening(true);
  take_wishes();
  handle_events();
  answer_callers();
  ProgressThread::Next next{.event_fd = epoll_.get()};
  if (!contact_wanted()) next.look_again = next_attempt_.left();
  if (!is_listening_) next.look_again = std::min(next.look_again, listen_again_.left());
  return next;
}

void UnixConnector::take_wishes() {
  const MutexLock lock(wishes_mutex_);
  wanted_.merge(wishes_);
  wishes_.clear();
}

void UnixConnector::handle_events() {
  std::array<epoll_event, kConnectorEventsMax> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), kConnectorEventsMax, 0);
  for (int i = 0; i < count; ++i) {
    const uint64_t key = events[static_cast<size_t>(i)].data.u64;
    if (key == kListener) {
      accept_callers();
    } else if ((key & kOfCaller) == 0) {
      hear_answer(Rank(static_cast<int32_t>(key)));
    } else {
      const auto caller = std::ranges::find(callers_, key & (kOfCaller - 1), &Caller::number);
      if (caller != callers_.end()) hear(*caller);
    }
  }
  callers_.remove_if([](const Caller& caller) { return !caller.socket; });
}

void UnixConnector::accept_callers() {
  while (true) {
    absl::StatusOr<FileDescriptor> socket = accept_call(listening_.socket);
    if (socket.ok() && !*socket) return;
    callers_.push_back({caller_count_++, {}, {}});
    Caller& caller = callers_.back();
    if (socket.ok()) caller.socket = *std::move(socket);
    const absl::Status watched =
        socket.ok() ? watch(caller.socket, kOfCaller | caller.number) : socket.status();
    if (!watched.ok()) {
      callers_.pop_back();
      return pause_listening(watched);
    }
    hear(caller);
    if (callers_.size() > size_ + kStrangersMax) drop_a_stranger();
  }
}

// No files are left, perhaps. Who calls waits in the kernel's queue meanwhile, or calls again.
void UnixConnector::pause_listening(const absl::Status& why) {
  log_warning(absl::StrCat("takes no connections for a while: ", why.ToString()));
  listen_again_ = Deadline(kListeningPause);
  set_listening(false);
}

void UnixConnector::set_listening(bool listens) {
  is_listening_ = listens;
  epoll_event event{listens ? uint32_t{EPOLLIN} : 0, {.u64 = kListener}};
  CHECK(::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listening_.socket.get(), &event) == 0);
}

void UnixConnector::drop_a_stranger() {
  const auto silent =
      std::ranges::find_if(callers_, [](const Caller& c) { return !c.reader.greeting(); });
  callers_.erase(silent == callers_.end() ? callers_.begin() : silent);
}

// Who has greeted says nothing more before we have answered: it can only have hung up.
void UnixConnector::hear(Caller& caller) {
  const auto heard =
      caller.reader.greeting() ? Cancelled("hung up") : caller.reader.read(caller.socket);
  if (heard.ok()) return;
  if (absl::IsUnimplemented(heard.status()))
    send_greeting(caller.socket, own_greeting(View(0)), {}).IgnoreError();
  if (!absl::IsCancelled(heard.status()))
    log_warning(absl::StrCat("refused a connection: ", heard.status().ToString()));
  caller.socket.reset();
}

void UnixConnector::answer_callers() {
  for (Caller& caller : callers_) {
    if (!caller.reader.greeting()) continue;
    const Greeting& greeting = *caller.reader.greeting();
    const auto named = unconnected_.find(greeting.rank);
    if (named == unconnected_.end() || named->second.since != greeting.since ||
        process_number(named->second.name) != greeting.process) {
      continue;
    }
    const bool is_call = greeting.kind == GreetingKind::kHello;
    if (is_call && !named->second.we_call) {
      answer(caller, named->second.since);
    } else if (!is_call && named->second.we_call) {
      wanted_.insert(greeting.rank);
    }
  }
  callers_.remove_if([](const Caller& caller) { return !caller.socket; });
}

// Takes the caller's sockets in any case: they become the connection or are closed.
void UnixConnector::answer(Caller& caller, View since) {
  const Greeting greeting = *caller.reader.greeting();
  UnixStreams streams{std::move(caller.socket), caller.reader.take_passed()};
  const absl::Status sent = send_greeting(streams.messages, own_greeting(since), {});
  if (const absl::Status world = check_world(greeting); !world.ok())
    return fail(greeting.rank, world);
  if (!sent.ok() || !streams.service_messages) {
    log_warning(absl::StrCat("rank ", greeting.rank.value, " has called and gone"));
    return;
  }
  connect(greeting.rank, std::move(streams));
}

// False if some are to be tried again.
bool UnixConnector::contact_wanted() {
  bool are_all_contacted = true;
  const bool may_call = next_attempt_.passed();
  for (const Rank rank : std::vector<Rank>(wanted_.begin(), wanted_.end())) {
    const auto named = unconnected_.find(rank);
    if (named == unconnected_.end() || contacts_.contains(rank)) continue;
    if (!may_call || !contact(rank, named->second)) are_all_contacted = false;
  }
  return are_all_contacted;
}

// False if its queue is full.
bool UnixConnector::contact(Rank rank, const UnixProcess& process) {
  absl::StatusOr<Contact> contact = make_contact(rank, process);
  if (contact.ok() && !contact->socket) {
    next_attempt_ = Deadline(kRetryPause);
    return false;
  }
  absl::Status result = contact.status();
  if (result.ok()) result = watch(contact->socket, static_cast<uint64_t>(rank.value));
  if (result.ok()) {
    contacts_.emplace(rank, *std::move(contact));
  } else {
    fail(rank, result);
  }
  return true;
}

absl::StatusOr<UnixConnector::Contact> UnixConnector::make_contact(Rank rank,
                                                                   const UnixProcess& process) {
  Contact contact;
  ASSIGN_OR_RETURN(contact.socket, call(rank, process.name));
  if (!contact.socket) return contact;
  StreamPair service_messages;
  if (process.we_call) {
    ASSIGN_OR_RETURN(service_messages, make_stream_pair());
  }
  const GreetingKind kind = process.we_call ? GreetingKind::kHello : GreetingKind::kCallMe;
  const absl::Status greeted =
      send_greeting(contact.socket, own_greeting(process.since, kind), service_messages.theirs);
  if (absl::IsCancelled(greeted)) contact.socket.reset();
  if (!greeted.ok() && !absl::IsCancelled(greeted)) return greeted;
  contact.service_messages = std::move(service_messages.ours);
  return contact;
}

// A contact that breaks is made again: if its process is dead, that fails.
void UnixConnector::hear_answer(Rank rank) {
  const auto found = contacts_.find(rank);
  if (found == contacts_.end()) return;
  Contact& contact = found->second;
  const auto heard = contact.answer.read(contact.socket);
  if (absl::IsCancelled(heard.status())) {
    contacts_.erase(found);
    next_attempt_ = Deadline(kRetryPause);
    return;
  }
  if (!heard.ok()) {
    return fail(rank, annotate(heard.status(),
                               absl::StrCat("the answer at the address of rank ", rank.value)));
  }
  if (!*heard) return;
  const Greeting& greeting = *contact.answer.greeting();
  const bool is_call = static_cast<bool>(contact.service_messages);
  const UnixProcess& process = unconnected_.at(rank);
  if (const absl::Status world = check_world(greeting); !world.ok()) return fail(rank, world);
  if (!is_call || greeting.rank != rank || greeting.process != process_number(process.name)) {
    return fail(rank, InvalidInput(absl::StrCat("rank ", greeting.rank.value,
                                                " answers at the address of rank ", rank.value)));
  }
  ++calls_answered_;
  connect(rank, {std::move(contact.socket), std::move(contact.service_messages)});
}

Greeting UnixConnector::own_greeting(View since, GreetingKind kind) const {
  return {rank_, size_, since, process_, kind};
}

absl::Status UnixConnector::check_world(const Greeting& greeting) const {
  if (greeting.world_size == size_) return absl::OkStatus();
  return InvalidInput(absl::StrCat("rank ", greeting.rank.value, " believes in ",
                                   greeting.world_size, " ranks, this one in ", size_));
}

// The streams are watched by their channels from now on.
void UnixConnector::connect(Rank rank, UnixStreams streams) {
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, streams.messages.get(), nullptr);
  drop(rank);
  outcomes_.connected(rank, std::move(streams));
}

void UnixConnector::fail(Rank rank, const absl::Status& why) {
  drop(rank);
  outcomes_.failed(rank, why);
}

void UnixConnector::drop(Rank rank) {
  unconnected_.erase(rank);
  wanted_.erase(rank);
  contacts_.erase(rank);
}

void UnixConnector::close() {
  const MutexLock lock(mutex_);
  listening_.socket.reset();
  callers_.clear();
  unconnected_.clear();
  wanted_.clear();
  contacts_.clear();
}

}  // namespace evermoe
