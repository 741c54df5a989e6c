#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cerrno>

#include "env/clock.h"
#include "env/faulty_files.h"
#include "env/files.h"
#include "env/named_descriptor.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class FilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/evermoe_files_test.XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    root_ = name;
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(files_, root_).ok()); }

  std::string at(const std::string& name) const { return join_path(root_, name); }
  std::string content(const std::string& name) {
    return read_file(files_, at(name), 1 << 20).value_or("(unreadable)");
  }

  Files& files_ = real_files();
  std::string root_;
};

TEST_F(FilesTest, PathsSplitAndJoin) {
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(parent_directory("a/b//"), "a");
  EXPECT_EQ(parent_directory("/a"), "/");
  EXPECT_EQ(parent_directory("a"), ".");
  EXPECT_EQ(base_name("a/b/"), "b");
}

TEST_F(FilesTest, AppendsAndReadsBack) {
  auto file = files_.create(at("x"), {}).value();
  ASSERT_TRUE(file->append(bytes_of("Mixture ")).ok());
  ASSERT_TRUE(file->append(bytes_of("of Experts")).ok());
  ASSERT_TRUE(file->sync().ok());
  ASSERT_TRUE(file->close().ok());
  EXPECT_EQ(content("x"), "Mixture of Experts");
  EXPECT_EQ(files_.map(at("x")).value()->bytes().size(), 18u);
}

TEST_F(FilesTest, DirectWritesWithOddTailAndReservedSpace) {
  const int64_t pieces = 5;
  auto* memory = static_cast<std::byte*>(::aligned_alloc(4096, pieces * 4096));
  for (int64_t i = 0; i < pieces * 4096; ++i) memory[i] = static_cast<std::byte>(i * 31 >> 3);
  auto file = files_.create(at("x"), {.direct = true, .reserve_bytes = pieces * 4096}).value();
  for (int64_t i = pieces - 1; i >= 0; --i) {
    ASSERT_TRUE(file->write_at(i * 4096, std::span(memory + i * 4096, 4096)).ok());
  }
  ASSERT_TRUE(file->truncate(4 * 4096 + 7).ok());
  ASSERT_TRUE(file->close().ok());
  EXPECT_EQ(content("x"), std::string(reinterpret_cast<char*>(memory), 4 * 4096 + 7));
  ::free(memory);
}

TEST_F(FilesTest, ErrorsNameThePathAndSayWhatToDo) {
  const auto missing = files_.open(at("none"));
  EXPECT_TRUE(absl::IsNotFound(missing.status()));
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr(at("none")));
  EXPECT_TRUE(absl::IsInternal(files_.open(root_).status()));
  ASSERT_TRUE(write_file_synced(files_, at("x"), "12345").ok());
  std::byte into[9];
  EXPECT_TRUE(absl::IsDataLoss(files_.open(at("x")).value()->read_at(0, into)));
  EXPECT_TRUE(absl::IsResourceExhausted(read_file(files_, at("x"), 4).status()));
  const auto full = files_.create("/dev/full", {}).value()->append(bytes_of("x"));
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
}

TEST_F(FilesTest, ErrorsOfTheDiskHaveTheirReasonAndAHint) {
  const auto message = [](int error) {
    return std::string(errno_status(error, "f", "write").message());
  };
  EXPECT_THAT(message(ENOSPC), StartsWith("f: cannot write: No space left on device (no bytes or"));
  EXPECT_THAT(message(EDQUOT), StartsWith("f: cannot write: Disk quota exceeded (a user, group"));
  EXPECT_THAT(message(ESTALE), StartsWith("f: cannot write: Stale file handle (the file server"));
  EXPECT_EQ(message(EIO), "f: cannot write: Input/output error");
  EXPECT_TRUE(absl::IsResourceExhausted(errno_status(EDQUOT, "f", "write")));
  EXPECT_TRUE(absl::IsInternal(errno_status(ESTALE, "f", "write"))) << "not gone, not full";
}

TEST_F(FilesTest, NamesAreSwappedReplacedAndRemoved) {
  ASSERT_TRUE(files_.create_directories(at("a/b/c")).ok());
  ASSERT_TRUE(files_.create_directories(at("a/b/c")).ok());
  ASSERT_TRUE(write_file_synced(files_, at("a/b/x"), "old").ok());
  ASSERT_TRUE(files_.create_directories(at("d")).ok());
  ASSERT_TRUE(files_.exchange(at("a"), at("d")).ok());
  EXPECT_EQ(content("d/b/x"), "old");
  ASSERT_TRUE(replace_file(files_, at("d/b/x"), "new").ok());
  EXPECT_EQ(content("d/b/x"), "new");
  ASSERT_TRUE(replace_symlink(files_, "a", at("latest")).ok());
  ASSERT_TRUE(replace_symlink(files_, "d", at("latest")).ok());
  EXPECT_EQ(files_.read_symlink(at("latest")).value(), "d");
  EXPECT_EQ(content("latest/b/x"), "new");
  EXPECT_THAT(files_.list(root_).value(), ElementsAre("a", "d", "latest"));
  ASSERT_TRUE(remove_tree(files_, at("latest")).ok());
  EXPECT_EQ(content("d/b/x"), "new") << "removing a link must not follow it";
  ASSERT_TRUE(remove_tree(files_, at("d")).ok());
  ASSERT_TRUE(remove_tree(files_, at("d")).ok());
  EXPECT_THAT(files_.list(root_).value(), ElementsAre("a"));
  EXPECT_GT(files_.free_bytes(root_).value(), 0);
}

TEST_F(FilesTest, FaultsFireTheChosenOperationAndAreCounted) {
  FaultyFiles faulty(files_, {.fault = FileFault::kNoSpace, .first = 1, .last = 1});
  auto file = faulty.create(at("x"), {}).value();
  const absl::Status full = file->append(bytes_of("12345678"));
  EXPECT_TRUE(absl::IsResourceExhausted(full));
  EXPECT_THAT(std::string(full.message()), HasSubstr(at("x")));
  EXPECT_EQ(content("x"), "1234");
  EXPECT_TRUE(file->sync().ok());
  EXPECT_EQ(faulty.operation_count(), 3);
  EXPECT_EQ(faulty.fault_count(), 1);
}

TEST_F(FilesTest, TornWriteLeavesItsFirstHalf) {
  const pid_t child = ::fork();
  if (child == 0) {
    FaultyFiles faulty(files_, {.fault = FileFault::kTear, .first = 1});
    (void)write_file_synced(faulty, at("x"), "12345678");
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(content("x"), "1234");
}

TEST(ClockTest, GoesForwardAndSleepsUntilTheDeadline) {
  Clock& clock = real_clock();
  const absl::Duration before = clock.now();
  clock.sleep_until(before + absl::Milliseconds(5));
  EXPECT_GE(clock.now() - before, absl::Milliseconds(5));
  clock.sleep_until(before);
}

}  // namespace
}  // namespace evermoe
