// What others in its process want of the host of a job.
#pragma once

#include <atomic>
#include <deque>
#include <string>
#include <utility>

#include "control/wire/mailbox.h"

namespace evermoe {

// Any thread, but take(): the host's.
class HostOrders {
 public:
  HostOrders() : wishes_(kWishesMax) {}
  // It ends at once, which is a failure.
  void quit(std::string why) { put({false, std::move(why)}); }
  // It ends at once and leaves the job to the next host.
  void resign(std::string why) { put({true, std::move(why)}); }
  // Whether any of these has been wanted, taken or not: for waits of a host that does not look at
  // its wishes meanwhile.
  bool is_end_wanted() const { return is_end_wanted_; }

  struct Wish {
    bool resigns = false;
    std::string why;
  };
  int fd() const { return wishes_.fd(); }
  std::deque<Wish> take() { return wishes_.take(); }

 private:
  void put(Wish wish) {
    is_end_wanted_ = true;
    wishes_.put(std::move(wish));
  }

  static constexpr size_t kWishesMax = 64;
  Mailbox<Wish> wishes_;
  std::atomic<bool> is_end_wanted_{false};
};

}  // namespace evermoe
