// What the program was doing, for a CHECK that fails: of a campaign of thousands of runs the one
// that died, and how it came to that.
#pragma once

#include <functional>
#include <string>

namespace evermoe {

// While it lives a CHECK that fails prints what `tell` gives behind its own facts; of several the
// newest one first. `tell` runs on the thread that fails and must take no lock. Threads: made and
// ended on one thread, in turn as scopes are.
class CheckStory {
 public:
  explicit CheckStory(std::function<std::string()> tell);
  ~CheckStory();
  CheckStory(const CheckStory&) = delete;
  CheckStory& operator=(const CheckStory&) = delete;

  // What all of them tell, a line each. One that fails itself tells nothing.
  static std::string all();

 private:
  const std::function<std::string()> tell_;
  CheckStory* const before_;
};

}  // namespace evermoe
