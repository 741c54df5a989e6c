#include "control/agent/agent_lines.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "comm/transport/socket.h"

namespace evermoe {
namespace {

constexpr size_t kAgentMailMax = 1 << 20;

struct FreeAgentAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

// The address of this machine, in numbers, from which packets to that one go; nothing is sent.
std::string own_host_towards(const addrinfo& there) {
  const FileDescriptor socket(::socket(there.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof(own);
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  char host[NI_MAXHOST] = {};
  if (!socket || ::connect(socket.get(), there.ai_addr, there.ai_addrlen) != 0 ||
      ::getsockname(socket.get(), address, &size) != 0 ||
      ::getnameinfo(address, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return there.ai_family == AF_INET6 ? absl::StrCat("[", host, "]") : host;
}

std::string own_host_towards(const std::string& controller) {
  const size_t colon = controller.rfind(':');
  if (colon == std::string::npos) return "";
  std::string host = controller.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo wanted = {};
  wanted.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), controller.substr(colon + 1).c_str(), &wanted, &found) != 0)
    return "";
  const std::unique_ptr<addrinfo, FreeAgentAddresses> list(found);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (const std::string own = own_host_towards(*one); !own.empty()) return own;
  }
  return "";
}

}  // namespace

AgentLines::AgentLines(std::shared_ptr<const JobKeys> keys, std::string local)
    : keys_(std::move(keys)), local_(std::move(local)), arrived_(kAgentMailMax) {}

AgentLines::~AgentLines() = default;

std::string AgentLines::listen(const std::string& controller) {
  if (listener_ != nullptr) return listener_->address();
  std::string at;
  if (is_local_address(controller)) {
    at = local_;
  } else if (keys_ != nullptr) {
    const std::string host = own_host_towards(controller);
    if (!host.empty()) at = absl::StrCat(host, ":0");
  }
  if (at.empty()) return "";
  auto listener = ControlListener::start(at, *this, keys_, kQuestionBytesMax);
  if (!listener.ok()) {
    log_warning(absl::StrCat("other agents cannot reach this one: ", listener.status().message()));
    return "";
  }
  listener_ = *std::move(listener);
  return listener_->address();
}

void AgentLines::on_envelope(StreamNumber line, Envelope envelope) noexcept {
  arrived_.put({line, std::move(envelope), ""});
}
void AgentLines::on_broken(StreamNumber line, const std::string& why) noexcept {
  arrived_.put({line, std::nullopt, why});
}

std::vector<AgentLines::Arrived> AgentLines::take() {
  std::vector<Arrived> mail;
  for (Arrived& one : arrived_.take()) {
    if (is_news(one)) mail.push_back(std::move(one));
  }
  return mail;
}

bool AgentLines::is_news(const Arrived& one) {
  if (!one.is_of_caller()) {
    const auto call = calls_.find(one.line);
    if (call == calls_.end()) return false;
    if (!one.envelope) calls_.erase(call);
    return true;
  }
  if (!one.envelope) return callers_.erase(one.line) > 0;
  if (callers_.contains(one.line)) return true;
  if (callers_.size() >= kCallersMax) {
    listener_->close(one.line);
    return false;
  }
  callers_.insert(one.line);
  return true;
}

StreamNumber AgentLines::call(const std::string& at, const Envelope& question) {
  CHECK(calls_.size() < kCallsMax) << "nobody hangs up";
  const StreamNumber line(--last_call_);
  std::unique_ptr<ControlCall>& call = calls_[line];
  if (keys_ == nullptr && !is_local_address(at)) {
    on_broken(line, absl::StrCat(at, " is of a network, and this agent has no keys"));
    return line;
  }
  call.reset(new ControlCall(at, line, *this, keys_));
  call->send(question);
  return line;
}

void AgentLines::send(StreamNumber line, const Envelope& envelope) {
  if (line.value > 0) {
    if (callers_.contains(line)) listener_->send(line, envelope);
  } else if (const auto call = calls_.find(line); call != calls_.end() && call->second != nullptr) {
    call->second->send(envelope);
  }
}

void AgentLines::hang_up(StreamNumber line) {
  if (calls_.erase(line) > 0 || callers_.erase(line) == 0) return;
  listener_->close(line);
}

}  // namespace evermoe
