#include "metrics/metrics_writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

namespace evermoe {
namespace {

class MetricsWriterTest : public testing::Test {
 protected:
  MetricsWriterTest() { std::filesystem::remove_all(directory_); }
  ~MetricsWriterTest() override { std::filesystem::remove_all(directory_); }

  // Opens at `resumed` and writes the steps first .. last with a validation after the last.
  void write(int64_t resumed, int64_t first, int64_t last) {
    auto writer = MetricsWriter::open(real_files(), directory_, Step(resumed));
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int64_t s = first; s <= last; ++s) {
      StepMetrics metrics;
      metrics.step = Step(s);
      metrics.loss = static_cast<double>(s) / 2;
      ASSERT_TRUE((*writer)->append(metrics).ok());
    }
    ASSERT_TRUE((*writer)->append_validation(Step(last), 9, 0.25).ok());
    ASSERT_TRUE((*writer)->close().ok());
  }
  std::string curve() { return *read_file(real_files(), directory_ + "/loss.csv", 1 << 20); }
  std::string lines() { return *read_file(real_files(), directory_ + "/metrics.jsonl", 1 << 20); }
  void damage(const std::string& name, const std::string& tail) {
    std::ofstream(directory_ + "/" + name, std::ios::app) << tail;
  }

  const std::string directory_ = std::filesystem::temp_directory_path().string() +
                                 "/evermoe-metrics-" + std::to_string(getpid());
};

TEST_F(MetricsWriterTest, AResumedRunWritesLaterStepsAgainOnce) {
  write(0, 1, 4);
  write(2, 3, 5);
  EXPECT_EQ(curve(), "step,loss,validation_loss\n1,0.5,\n2,1,\n3,1.5,\n4,2,\n5,2.5,\n5,,9\n");
}

TEST_F(MetricsWriterTest, TornAndForeignLinesAreDropped) {
  write(0, 1, 2);
  damage("metrics.jsonl", "no json\n{\"step\":2,\"lo");
  damage("loss.csv", "x\n2,1.");
  write(2, 3, 3);
  EXPECT_EQ(curve(), "step,loss,validation_loss\n1,0.5,\n2,1,\n2,,9\n3,1.5,\n3,,9\n");
  EXPECT_EQ(lines().find("no json"), std::string::npos);
  const std::string text = lines();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
}

TEST_F(MetricsWriterTest, InfinitiesBecomeNull) {
  auto writer = MetricsWriter::open(real_files(), directory_, Step(0));
  StepMetrics metrics;
  metrics.gradient_norm = std::numeric_limits<double>::infinity();
  ASSERT_TRUE((*writer)->append(metrics).ok());
  ASSERT_TRUE((*writer)->close().ok());
  EXPECT_NE(lines().find("\"gradient_norm\":null"), std::string::npos);
}

TEST_F(MetricsWriterTest, ALineTellsWhenItsStepWasCommitted) {
  auto writer = MetricsWriter::open(real_files(), directory_, Step(0));
  StepMetrics metrics;
  metrics.time = absl::FromUnixMicros(1'700'000'000'123'456);
  ASSERT_TRUE((*writer)->append(metrics).ok());
  ASSERT_TRUE((*writer)->close().ok());
  EXPECT_NE(lines().find("\"time\":1700000000.123456"), std::string::npos) << lines();
}

}  // namespace
}  // namespace evermoe
