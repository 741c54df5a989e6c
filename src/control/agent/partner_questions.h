// Whether this agent reaches others: whom it asks for the controller (health/network_probe.h), and
// who asks it. Pure: events and time in, actions out.
//
//   controller --AskPartners--> agent --PartnerQuestion--> each partner, on a line of its own
//                                     <---PartnerAnswer---
//                                  | broken: asked again, kTriesMax times in all
//                                  | another node is there; nothing until AskPartners::answer_max
//   controller <-PartnersAsked-- agent, when nothing more is to come
//
// A line that breaks may break by chance, so it is tried again after pauses that double. The
// controller hears of those that did not answer; each has its reason.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "control/wire/control_messages.h"
#include "control/wire/control_stream.h"

namespace evermoe {

struct AskPartner {  // on a new line
  int64_t number = 0;
  std::string at;
  PartnerQuestion question;
};
struct DropQuestion {  // and its line, if it still has one
  int64_t number = 0;
};
using PartnerAction = std::variant<AskPartner, DropQuestion, PartnersAsked>;
using PartnerActions = std::vector<PartnerAction>;

class PartnerQuestions {
 public:
  static constexpr size_t kAskedMax = 8;  // of one order; what is beyond is not asked
  static constexpr int kTriesMax = 3;
  // Of AskPartners::answer_max, before the second try.
  static constexpr double kPauseShare = 0.05;
  // A question's and an answer's. The largest packets of an Ethernet have 9000.
  static constexpr size_t kFillingBytes = 10'000;

  // Instead of what was asked before: nobody waits for that any more.
  PartnerActions ask(absl::Duration now, const AskPartners& order);
  PartnerActions on_answer(int64_t number, const PartnerAnswer& answer);
  PartnerActions on_broken(absl::Duration now, int64_t number, const std::string& why);
  PartnerActions on_time(absl::Duration now);
  PartnerActions forget();
  absl::Duration next_due() const;

 private:
  struct Asked {
    AskPartners::Partner partner;
    int tries = 0;
    int64_t number = 0;                               // of the newest question; 0: its line broke
    absl::Duration again = absl::InfiniteDuration();  // when it is asked again
    std::string why = "";                             // the newest line broke
  };
  void try_once(Asked& one, PartnerActions& actions);
  void give_up(size_t index, std::string why, PartnerActions& actions);
  PartnerActions report_if_done(PartnerActions actions);

  std::optional<AskPartners> order_;  // not reported yet
  absl::Duration due_;
  std::vector<Asked> open_;
  std::vector<PartnersAsked::Silent> silent_;
  int64_t last_number_ = 0;
};

// The other side: those who were answered hang up.
class PartnerAnswers {
 public:
  static constexpr size_t kAskersMax = 64;  // that have not hung up; more are cut
  static constexpr absl::Duration kAskerMax = absl::Seconds(30);

  // nullopt: it is cut.
  std::optional<PartnerAnswer> on_question(absl::Duration now, StreamNumber asker, Node own);
  void on_gone(StreamNumber asker) { until_.erase(asker); }
  std::vector<StreamNumber> on_time(absl::Duration now);  // who is cut now
  absl::Duration next_due() const;

 private:
  std::map<StreamNumber, absl::Duration> until_;
};

}  // namespace evermoe
