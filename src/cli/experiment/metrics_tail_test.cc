#include "cli/experiment/metrics_tail.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace evermoe {
namespace {

class MetricsTailTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }

  const std::string path_ = testing::TempDir() + "/metrics_tail_test.jsonl";
  MetricsTail tail_{real_files(), path_};

  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }
};

TEST_F(MetricsTailTest, ReadsOnlyWhatIsNew) {
  EXPECT_EQ(tail_.newest_step(), 0);
  append("{\"step\":1}\n{\"step\":2}\n{\"st");
  EXPECT_EQ(tail_.newest_step(), 2);
  append("ep\":3}\n{\"incident\":1}\n");
  EXPECT_EQ(tail_.newest_step(), 3);
  const int64_t before = tail_.bytes_read();
  EXPECT_EQ(tail_.newest_step(), 3);
  append("{\"step\":4}\n");
  EXPECT_EQ(tail_.newest_step(), 4);
  EXPECT_EQ(tail_.bytes_read() - before, 11);
}

TEST_F(MetricsTailTest, AFileThatWasCutIsReadAgain) {
  append("{\"step\":8}\n{\"step\":9}\n");
  EXPECT_EQ(tail_.newest_step(), 9);
  std::filesystem::resize_file(path_, 11);
  EXPECT_EQ(tail_.newest_step(), 8);
}

}  // namespace
}  // namespace evermoe
