// Checkpoints on their way to a real store, whose server is killed and started again.
#include "checkpoint/object_store/uploader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/format/checkpoint_names.h"
#include "checkpoint/object_store/object_server_testing.h"
#include "checkpoint/object_store/stored_checkpoints.h"
#include "env/clock.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::Duration kUploadMax = absl::Seconds(120);

class UploaderTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_folder_ = new ScratchFolder();
    server_ = new ObjectServer(server_folder_->path());
  }
  static void TearDownTestSuite() {
    delete server_;
    delete server_folder_;
  }
  UploaderTest() {
    state_.operators[2].second = 400'000;  // two files of some parts each
    SaverOptions options;
    options.directory = folder_.path();
    options.world_size = 2;
    options.compute_type = ElementType::kBf16;
    options.keep_newest = 10;
    job_ = FakeJob::open(real_files(), options).value();
  }

  void save(int64_t step) {
    state_.seed = static_cast<uint64_t>(step);
    ASSERT_TRUE(job_->save(state_, Step(step)).ok());
  }
  static std::string prefix() {
    return ::testing::UnitTest::GetInstance()->current_test_info()->name();
  }
  std::unique_ptr<CheckpointUploader> uploader(const std::string& owner = "host a") const {
    const auto open = [](std::function<bool()> is_cancelled) {
      S3Options options = server_->options();
      options.http.is_cancelled = std::move(is_cancelled);
      return open_s3_store(server_->url(prefix()), std::move(options));
    };
    return CheckpointUploader::create(real_files(), open,
                                      {.directory = folder_.path(),
                                       .owner = owner,
                                       .pause_min = absl::Milliseconds(50),
                                       .pause_max = absl::Milliseconds(500)});
  }
  static std::vector<StoredCheckpoint> stored() {
    return stored_checkpoints(server_->open(prefix())->list("").value());
  }
  // What a fresh machine reads there.
  static absl::StatusOr<Fingerprint> fetched_digest(const StoredCheckpoint& checkpoint) {
    const ScratchFolder fresh;
    const auto store = server_->open(prefix());
    ASSIGN_OR_RETURN(const std::string path,
                     fetch_checkpoint(real_files(), *store, checkpoint, fresh.path()));
    ASSIGN_OR_RETURN(const auto reader, CheckpointReader::open(real_files(), path));
    for (const std::string& problem : reader->verify()) return Corrupt(problem);
    return reader->digest();
  }

  static ScratchFolder* server_folder_;
  static ObjectServer* server_;
  ScratchFolder folder_;
  FakeState state_;
  std::unique_ptr<FakeJob> job_;
};
ScratchFolder* UploaderTest::server_folder_ = nullptr;
ObjectServer* UploaderTest::server_ = nullptr;

TEST_F(UploaderTest, AFreshMachineReadsWhatWasUploaded) {
  save(3);
  const auto uploading = uploader();
  uploading->upload(Step(3));
  ASSERT_TRUE(uploading->wait_uploaded(kUploadMax)) << uploading->take_trouble();
  EXPECT_EQ(uploading->uploaded(), Step(3));
  ASSERT_THAT(stored(), SizeIs(1));
  EXPECT_EQ(fetched_digest(stored()[0]).value(), state_.digest(Step(3)));
}

TEST_F(UploaderTest, KeepsTheNewest) {
  const auto uploading = uploader();
  for (int64_t step = 1; step <= 4; ++step) {
    save(step);
    uploading->upload(Step(step));
    ASSERT_TRUE(uploading->wait_uploaded(kUploadMax)) << uploading->take_trouble();
  }
  ASSERT_THAT(stored(), SizeIs(2));
  EXPECT_EQ(stored()[0].step, Step(4));
  EXPECT_EQ(stored()[1].step, Step(3));
  EXPECT_THAT(server_->open(prefix())->list("step-").value(), SizeIs(6)) << "with their files";
}

// Whenever the server dies, and whatever it had by then.
TEST_F(UploaderTest, AServerThatIsKilledMeanwhileGetsItAllLater) {
  save(1);
  {
    const auto uploading = uploader();
    uploading->upload(Step(1));
    ASSERT_TRUE(uploading->wait_uploaded(kUploadMax));
  }
  for (int64_t step = 2; step <= 5; ++step) {
    SCOPED_TRACE(absl::StrCat("step ", step));
    save(step);
    const auto uploading = uploader();
    uploading->upload(Step(step));
    real_clock().sleep_until(real_clock().now() + absl::Milliseconds(60 * (step - 1)));
    server_->kill();
    while (uploading->failures_in_row() == 0) {
      if (uploading->wait_uploaded(absl::Milliseconds(50))) break;
    }
    if (uploading->uploaded() != Step(step)) {
      EXPECT_THAT(std::string(uploading->take_trouble().message()), HasSubstr("object store"));
    }
    server_->start();
    const std::vector<StoredCheckpoint> meanwhile = stored();
    ASSERT_FALSE(meanwhile.empty());
    state_.seed = static_cast<uint64_t>(meanwhile[0].step.value);
    EXPECT_EQ(fetched_digest(meanwhile[0]).value(), state_.digest(meanwhile[0].step))
        << "what is visible is whole";
    ASSERT_TRUE(uploading->wait_uploaded(kUploadMax)) << uploading->take_trouble();
    ASSERT_FALSE(stored().empty());
    EXPECT_EQ(stored()[0].step, Step(step));
    state_.seed = static_cast<uint64_t>(step);
    EXPECT_EQ(fetched_digest(stored()[0]).value(), state_.digest(Step(step)));
  }
}

TEST_F(UploaderTest, EndsAtOnceWhileNobodyAnswers) {
  save(1);
  server_->kill();
  {
    const auto uploading = uploader();
    uploading->upload(Step(1));
    EXPECT_FALSE(uploading->wait_uploaded(absl::Milliseconds(200)));
  }
  server_->start();
}

TEST_F(UploaderTest, AnOldHostPublishesNoMore) {
  save(1);
  const auto old = uploader("old host");
  old->upload(Step(1));
  ASSERT_TRUE(old->wait_uploaded(kUploadMax));
  save(2);
  const auto successor = uploader("new host");
  successor->upload(Step(2));
  ASSERT_TRUE(successor->wait_uploaded(kUploadMax));
  save(3);
  old->upload(Step(3));
  ASSERT_TRUE(old->wait_uploaded(kUploadMax));
  EXPECT_EQ(old->uploaded(), Step(1));
  EXPECT_THAT(std::string(old->take_trouble().message()), HasSubstr("another host publishes"));
  EXPECT_EQ(stored()[0].step, Step(2));
}

// A store that removes nothing.
class KeepingStore : public ObjectStore {
 public:
  explicit KeepingStore(std::unique_ptr<ObjectStore> store) : store_(std::move(store)) {}
  const std::string& url() const override { return store_->url(); }
  absl::StatusOr<std::vector<StoredObject>> list(const std::string& prefix) override {
    return store_->list(prefix);
  }
  absl::Status put(const std::string& name, std::span<const std::byte> bytes) override {
    return store_->put(name, bytes);
  }
  absl::Status put_file(const std::string& name, ReadableFile& file) override {
    return store_->put_file(name, file);
  }
  absl::StatusOr<int64_t> size(const std::string& name) override { return store_->size(name); }
  absl::Status read(const std::string& name, int64_t offset, std::span<std::byte> into) override {
    return store_->read(name, offset, into);
  }
  absl::Status remove(const std::string&) override {
    return absl::PermissionDeniedError("removes nothing");
  }

 private:
  const std::unique_ptr<ObjectStore> store_;
};

TEST_F(UploaderTest, WhatCannotBeRemovedIsToldAndTheUploadCounts) {
  const auto uploading = CheckpointUploader::create(
      real_files(),
      [](std::function<bool()>) { return std::make_unique<KeepingStore>(server_->open(prefix())); },
      {.directory = folder_.path(), .owner = "host a", .keep_newest = 1});
  for (int64_t step = 1; step <= 2; ++step) {
    save(step);
    uploading->upload(Step(step));
    ASSERT_TRUE(uploading->wait_uploaded(kUploadMax)) << uploading->take_trouble();
  }
  EXPECT_EQ(uploading->uploaded(), Step(2));
  EXPECT_EQ(uploading->failures_in_row(), 0);
  EXPECT_THAT(std::string(uploading->take_trouble().message()), HasSubstr("removes nothing"));
}

TEST_F(UploaderTest, WhatIsFetchedReplacesADamagedFolder) {
  save(1);
  const auto uploading = uploader();
  uploading->upload(Step(1));
  ASSERT_TRUE(uploading->wait_uploaded(kUploadMax));
  const ScratchFolder damaged;
  ASSERT_TRUE(real_files().create_directories(damaged.at("step-00000001")).ok());
  ASSERT_TRUE(write_file_synced(real_files(), damaged.at("step-00000001/rank-0000"), "x").ok());
  const auto fetched =
      fetch_checkpoint(real_files(), *server_->open(prefix()), stored()[0], damaged.path());
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(CheckpointReader::open(real_files(), *fetched).value()->digest().value(),
            state_.digest(Step(1)));
  EXPECT_THAT(real_files().list(damaged.path()).value(), SizeIs(1)) << "nothing is left behind";
}

TEST_F(UploaderTest, DamageInTheStoreIsFound) {
  save(1);
  const auto uploading = uploader();
  uploading->upload(Step(1));
  ASSERT_TRUE(uploading->wait_uploaded(kUploadMax));
  const auto store = server_->open(prefix());
  const std::vector<StoredObject> objects = store->list("step-").value();
  for (const StoredObject& object : objects) {
    if (object.name.find("rank-0001") == std::string::npos) continue;
    std::string bytes = read_object(*store, object.name, 1 << 30).value();
    bytes[bytes.size() - 9] ^= 1;
    ASSERT_TRUE(store->put(object.name, std::as_bytes(std::span(bytes))).ok());
    const absl::Status changed = fetched_digest(stored()[0]).status();
    EXPECT_TRUE(absl::IsDataLoss(changed)) << changed;
    ASSERT_TRUE(store->remove(object.name).ok());
    EXPECT_TRUE(absl::IsNotFound(fetched_digest(stored()[0]).status()));
  }
}

TEST(StoredCheckpointsTest, TheHighestTermOfAStepCounts) {
  const auto found =
      stored_checkpoints({{"step-00000002/manifest-0000000001.001122334455661a.json", 5},
                          {"step-00000002/manifest-0000000003.001122334455663a.json", 5},
                          {"step-00000002/manifest-0000000002.001122334455662a.json", 5},
                          {"step-00000005/rank-0000.ab.safetensors", 5},
                          {"step-00000001/manifest-0000000001.001122334455669a.json", 5},
                          {"step-x/manifest-0000000009.001122334455669a.json", 5},
                          {"step-00000007/manifest-9.json", 5},
                          {"terms/0000000009", 5}});
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0],
            (StoredCheckpoint{Step(2), "0000000003.001122334455663a",
                              "step-00000002/manifest-0000000003.001122334455663a.json"}));
  EXPECT_EQ(found[1].step, Step(1));
}

// The host of term 1 went on beyond the step at which that of term 2 began again.
TEST(StoredCheckpointsTest, WhatAnOldHostPutsBeyondItsSuccessorCountsForNothing) {
  const auto found =
      stored_checkpoints({{"step-00000002/manifest-0000000001.001122334455661a.json", 5},
                          {"step-00000004/manifest-0000000002.001122334455662a.json", 5},
                          {"step-00000006/manifest-0000000001.001122334455661a.json", 5},
                          {"step-00000008/manifest-0000000002.001122334455662a.json", 5},
                          {"step-00000009/manifest-0000000001.001122334455661a.json", 5}});
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0].step, Step(8));
  EXPECT_EQ(found[1].step, Step(4));
  EXPECT_EQ(found[2].step, Step(2));
}

}  // namespace
}  // namespace evermoe
