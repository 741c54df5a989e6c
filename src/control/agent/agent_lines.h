// Lines between agents: any agent can open one to any other, which it knows by the address that it
// announces (AgentHello::lines), say something there, and be answered on it. Whole plans go over
// them (plan_exchange.h).
//
//   caller: call(address, question) ... take(): the answers, or that the line broke ... hang_up()
//   called: take(): the question and the line ... send(line, answer) ... hang_up()
//
// Who may: as everywhere on the control plane (control_listener.h). Over a network both ends
// present the job's certificate; inside a machine the socket is in a folder that other users cannot
// search. Before that a stranger holds no more than ControlDoor lets him, and his words are not
// decoded.
//
// Limits: kCallsMax lines that this agent has opened, kCallersMax that others have opened to it
// (more are cut), kQuestionBytesMax for what a caller says, kEnvelopeBytesMax for an answer.
// Nothing here watches the time: a line lives until an end hangs up or dies, or TCP gives up its
// machine. So who calls has a deadline of his own, and who is called has one for each caller.
//
// Not thread-safe; what other threads of it leave is waited for with fd().
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/wire/control_call.h"
#include "control/wire/control_listener.h"
#include "control/wire/mailbox.h"

namespace evermoe {

class AgentLines final : private StreamEvents {
 public:
  static constexpr size_t kCallsMax = 16;
  static constexpr size_t kCallersMax = 128;
  static constexpr size_t kQuestionBytesMax = ControlListener::kFirstEnvelopeBytesMax;

  struct Arrived {
    StreamNumber line;                 // positive: of a caller; negative: as call() named it
    std::optional<Envelope> envelope;  // nullopt: broken, and nothing more follows
    std::string why;
    bool is_of_caller() const { return line.value > 0; }
  };

  // `local`: where to listen inside the machine ("unix:PATH" in a private folder).
  AgentLines(std::shared_ptr<const JobKeys> keys, std::string local);
  ~AgentLines() override;

  // Listens from the first call on that succeeds; where, for others to call. If the controller is
  // on this machine by its address ("unix:"), so are all agents, and the answer is `local`; else it
  // is HOST:PORT, the address of this machine that is towards the controller's, and a free port.
  // Empty where that is not possible. Resolves names before it listens, and may wait for them.
  std::string listen(const std::string& controller);
  bool is_listening() const { return listener_ != nullptr; }

  int fd() const { return arrived_.fd(); }
  // In the order of its line. Nothing of a line on which this end has hung up, except that a word
  // of a caller may have been on its way.
  std::vector<Arrived> take();

  // Returns at once: that nobody answers there comes as a broken line. No more than kCallsMax
  // (CHECK): hang up first. An address of a network without keys breaks, too.
  StreamNumber call(const std::string& at, const Envelope& question);
  // On a line that is gone nothing happens.
  void send(StreamNumber line, const Envelope& envelope);
  void hang_up(StreamNumber line);

 private:
  void on_envelope(StreamNumber line, Envelope envelope) noexcept override;
  void on_broken(StreamNumber line, const std::string& why) noexcept override;
  bool is_news(const Arrived& one);

  const std::shared_ptr<const JobKeys> keys_;
  const std::string local_;
  Mailbox<Arrived> arrived_;
  std::set<StreamNumber> callers_;
  int64_t last_call_ = 0;
  // Last: their threads use the others.
  std::map<StreamNumber, std::unique_ptr<ControlCall>> calls_;
  std::unique_ptr<ControlListener> listener_;
};

}  // namespace evermoe
