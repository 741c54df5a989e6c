#include "checkpoint/write/checkpoint_saver.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "base/log.h"
#include "checkpoint/write/monitor.h"
#include "checkpoint/write/publisher.h"
#include "checkpoint/write/save_job.h"
#include "checkpoint/write/staging_buffer.h"

namespace evermoe {
namespace {

constexpr size_t kPublishQueueMax = 64;

absl::Status take(absl::Status& error) { return std::exchange(error, absl::OkStatus()); }

class Saver : public CheckpointSaver {
 public:
  Saver(Files& files, SaverOptions options)
      : files_(files),
        options_(std::move(options)),
        publisher_(
            files, options_.directory, options_.world_size,
            {options_.keep_newest, options_.keep_every_steps, options_.keep_best, options_.pinned},
            [this] { return may_publish(); }, [this] { return bases(); }) {}

  ~Saver() override {
    {
      Monitor::Lock lock(monitor_);
      stopping_ = true;
    }
    if (writer_.joinable()) writer_.join();
    if (publishing_thread_.joinable()) publishing_thread_.join();
  }

  absl::Status start() {
    if (options_.may_write) RETURN_IF_ERROR(options_.may_write());
    RETURN_IF_ERROR(files_.create_directories(options_.directory));
    if (is_publisher()) RETURN_IF_ERROR(begin_publishing());
    if (options_.staging_bytes > 0) RETURN_IF_ERROR(staging_.reserve(options_.staging_bytes));
    writer_ = std::thread([this] { write_jobs(); });
    if (is_publisher()) publishing_thread_ = std::thread([this] { publish_steps(); });
    return absl::OkStatus();
  }

  absl::Status begin(const TrainingPosition& position, std::span<const ShardSource> all,
                     PartialSave partial) override {
    const std::vector<ShardSource> shards = without_empty(all);
    ASSIGN_OR_RETURN(const std::shared_ptr<SaveJob> job,
                     make_save_job(options_, position, shapes_of(shards), std::move(partial)));
    RETURN_IF_ERROR(claim(position.step, job->partial.base));
    RETURN_IF_ERROR(hand_to_writer(job));
    const absl::Status copied = copy_shards(shards, options_.state_types, *job);
    if (copied.ok()) return copied;
    Monitor::Lock lock(monitor_);
    const auto idle = [this] { return job_ == nullptr; };
    if (!lock.wait(options_.busy_timeout, idle)) return busy();
    (void)take(write_error_);  // an echo of `copied`
    return copied;
  }

  absl::Status begin_behind(const TrainingPosition& position, std::vector<ShardSource> all,
                            PartialSave partial) override {
    std::vector<ShardSource> shards = without_empty(all);
    ASSIGN_OR_RETURN(const std::shared_ptr<SaveJob> job,
                     make_save_job(options_, position, shapes_of(shards), std::move(partial)));
    job->behind = std::move(shards);
    RETURN_IF_ERROR(claim(position.step, job->partial.base));
    return hand_to_writer(job);
  }

  absl::Status wait_copied(const std::string& operator_name) override {
    std::shared_ptr<SaveJob> job;
    {
      Monitor::Lock lock(monitor_);
      job = job_;
    }
    if (job == nullptr) return absl::OkStatus();
    const absl::Status copied =
        job->progress.wait_for(end_of_shard(*job, operator_name, options_.state_types));
    // Of another error wait_prepared() tells; nothing is copied after it.
    return absl::IsDeadlineExceeded(copied) ? copied : absl::OkStatus();
  }

  bool is_saving() override {
    Monitor::Lock lock(monitor_);
    return job_ != nullptr;
  }

  Step prepared() override {
    Monitor::Lock lock(monitor_);
    return prepared_;
  }

  absl::Status wait_prepared(absl::Duration timeout) override {
    Monitor::Lock lock(monitor_);
    const auto idle = [this] { return job_ == nullptr; };
    if (!lock.wait(timeout, idle)) return busy();
    return take(write_error_);
  }

  void publish(Step step) override {
    CHECK(is_publisher()) << "only rank 0 publishes, not " << options_.rank;
    Monitor::Lock lock(monitor_);
    for (Step queued : to_publish_) {
      if (queued == step) return;
    }
    if (published_ == step && prepared_ != step) return;
    CHECK(to_publish_.size() < kPublishQueueMax) << "publishing does not keep up";
    to_publish_.push_back(step);
  }

  absl::Status wait_published(absl::Duration timeout) override {
    Monitor::Lock lock(monitor_);
    const auto idle = [this] { return to_publish_.empty(); };
    if (!lock.wait(timeout, idle)) {
      return Timeout(absl::StrCat(options_.directory,
                                  ": publishing a checkpoint takes longer than ",
                                  absl::FormatDuration(timeout)));
    }
    return take(publish_error_);
  }

  Step published() override {
    Monitor::Lock lock(monitor_);
    return published_;
  }

  void unpin() override {
    Monitor::Lock lock(monitor_);
    is_pinned_ = false;
  }

 private:
  bool is_publisher() const { return options_.rank == 0 && options_.has_publisher; }

  absl::Status may_publish() const {
    if (options_.may_write) RETURN_IF_ERROR(options_.may_write());
    return options_.may_publish ? options_.may_publish() : absl::OkStatus();
  }

  std::map<Step, Step> bases() {
    Monitor::Lock lock(monitor_);
    return bases_;
  }

  absl::Status begin_publishing() {
    const absl::Status claimed = options_.may_publish ? options_.may_publish() : absl::OkStatus();
    // What a full disk refuses now is asked for again before anything is published.
    if (is_replaced(claimed)) return claimed;
    return options_.joins_others ? absl::OkStatus() : publisher_.recover();
  }

  static std::vector<ShardSource> without_empty(std::span<const ShardSource> all) {
    std::vector<ShardSource> shards;
    for (const ShardSource& shard : all) {
      if (shard.range.begin != shard.range.end) shards.push_back(shard);
    }
    return shards;
  }

  static std::vector<ShardShape> shapes_of(const std::vector<ShardSource>& shards) {
    std::vector<ShardShape> shapes;
    for (const ShardSource& shard : shards) {
      shapes.push_back({shard.operator_name, shard.flat_size, shard.range});
    }
    return shapes;
  }

  absl::Status busy() const {
    return Timeout(absl::StrCat(options_.directory, ": rank ", options_.rank,
                                " is still writing an earlier checkpoint"));
  }

  // Waits until this rank may save `step`, and sees to it that `base` stays.
  absl::Status claim(Step step, Step base) {
    Monitor::Lock lock(monitor_);
    const auto free = [&] {
      // The folder of a step that is being published must not change.
      return job_ == nullptr &&
             std::find(to_publish_.begin(), to_publish_.end(), step) == to_publish_.end();
    };
    if (!lock.wait(options_.busy_timeout, free)) return busy();
    RETURN_IF_ERROR(take(write_error_));
    if (prepared_ == step) prepared_ = Step(-1);
    if (!is_publisher()) return absl::OkStatus();
    forgotten_.insert(step);
    bases_.erase(step);
    if (base >= Step(0)) bases_[step] = base;
    return absl::OkStatus();
  }

  // REQUIRES: claimed. No thread touches the staging memory while job_ is empty.
  absl::Status hand_to_writer(const std::shared_ptr<SaveJob>& job) {
    RETURN_IF_ERROR(staging_.reserve(job->layout.staging_bytes()));
    job->staging = staging_.bytes().first(static_cast<size_t>(job->layout.staging_bytes()));
    std::memcpy(job->staging.data(), job->layout.header.data(), job->layout.header.size());
    job->progress.advance(static_cast<int64_t>(job->layout.header.size()));
    Monitor::Lock lock(monitor_);
    job_ = job;
    return absl::OkStatus();
  }

  void write_jobs() {
    for (;;) {
      std::shared_ptr<SaveJob> job;
      {
        Monitor::Lock lock(monitor_);
        const auto due = [this] { return job_ != nullptr || stopping_; };
        lock.wait(due);  // the owner's destructor ends it
        if (job_ == nullptr) return;
        job = job_;
      }
      std::thread copying;
      if (!job->behind.empty()) {
        copying = std::thread(
            [&] { (void)copy_shards(job->behind, options_.state_types, *job); });  // fails the job
      }
      const absl::Status written = guard([&] { return write_save_job(files_, options_, *job); });
      if (copying.joinable()) copying.join();  // it fills the staging memory of the next save, too
      Monitor::Lock lock(monitor_);
      write_error_ = annotate(written, absl::StrCat("saving step ", job->position.step.value));
      if (written.ok()) prepared_ = job->position.step;
      job_ = nullptr;
    }
  }

  void publish_steps() {
    for (;;) {
      Step step;
      std::set<Step> forgotten;
      bool is_pinned = true;
      {
        Monitor::Lock lock(monitor_);
        const auto due = [this] { return !to_publish_.empty() || stopping_; };
        lock.wait(due);  // the owner's destructor ends it
        if (to_publish_.empty()) return;
        step = to_publish_.front();
        forgotten.swap(forgotten_);
        is_pinned = is_pinned_;
      }
      if (!is_pinned) publisher_.unpin();
      for (Step again : forgotten) publisher_.forget(again);
      const absl::Status status = guard([&] { return publisher_.publish(step); });
      if (!status.ok())
        log_warning(absl::StrCat("checkpoint of step ", step.value, ": ", status.message()));
      Monitor::Lock lock(monitor_);
      if (publish_error_.ok())
        publish_error_ = annotate(status, absl::StrCat("publishing step ", step.value));
      published_ = publisher_.published();
      if (published_ == step && prepared_ == step) prepared_ = Step(-1);
      if (published_ == step) bases_.erase(bases_.begin(), bases_.upper_bound(step));
      to_publish_.pop_front();
    }
  }

  // Constant after start().
  Files& files_;
  const SaverOptions options_;
  std::thread writer_;
  std::thread publishing_thread_;

  // Touched by the publishing thread alone after start().
  CheckpointPublisher publisher_;

  // Belongs to begin() while job_ is empty, then to the job.
  StagingBuffer staging_;

  Monitor monitor_;  // guards what follows
  bool stopping_ = false;
  std::shared_ptr<SaveJob> job_;  // being copied and written
  absl::Status write_error_;
  Step prepared_{-1};
  std::deque<Step> to_publish_;  // the first one is being published
  std::set<Step> forgotten_;     // saved since the publisher last looked
  std::map<Step, Step> bases_;   // of the saves that have begun and are not published
  bool is_pinned_ = true;        // options_.pinned
  absl::Status publish_error_;
  Step published_{-1};
};

absl::Status check_options(const SaverOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size) {
    return InvalidInput(
        absl::StrCat("rank ", options.rank, " of ", options.world_size, " cannot save"));
  }
  if (options.block_bytes < kDirectAlignment || options.block_bytes % kDirectAlignment != 0) {
    return InvalidInput(absl::StrCat("block_bytes ", options.block_bytes, " is not a multiple of ",
                                     kDirectAlignment));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointSaver>> CheckpointSaver::open(Files& files,
                                                                       SaverOptions options) {
  RETURN_IF_ERROR(check_options(options));
  auto saver = std::make_unique<Saver>(files, std::move(options));
  RETURN_IF_ERROR(saver->start());
  return saver;
}

}  // namespace evermoe
