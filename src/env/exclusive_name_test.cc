#include "env/exclusive_name.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace evermoe {
namespace {

std::string name_of_this_test(const char* end) {
  return absl::StrCat("evermoe-test-", ::getpid(), "-", end);
}

TEST(ExclusiveNameTest, OneHasItAtATime) {
  const std::string name = name_of_this_test("one");
  {
    const std::optional<ExclusiveName> taken = ExclusiveName::take(name);
    ASSERT_TRUE(taken);
    EXPECT_FALSE(ExclusiveName::take(name));
    EXPECT_TRUE(ExclusiveName::take(name + "-another"));
  }
  EXPECT_TRUE(ExclusiveName::take(name));
}

TEST(ExclusiveNameTest, AKilledProcessHasItNoMore) {
  const std::string name = name_of_this_test("killed");
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::optional<ExclusiveName> taken = ExclusiveName::take(name);
    const char answer = taken ? 'y' : 'n';
    if (::write(ends[1], &answer, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ends[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  EXPECT_FALSE(ExclusiveName::take(name));
  ::kill(child, SIGKILL);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(ExclusiveName::take(name));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace evermoe
