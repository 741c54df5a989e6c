// Keys of a job: made whole, refused with one line when somebody else could have them.
#include "control/keys/job_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "control/keys/job_keys_testing.h"
#include "env/files.h"

namespace evermoe {
namespace {

using testing::HasSubstr;

class JobKeysTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string made = testing::TempDir() + "evermoe-keys-XXXXXX";
    ASSERT_NE(::mkdtemp(made.data()), nullptr);
    folder_ = made;
    keys_ = folder_ + "/keys";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string refusal() const {
    const auto loaded = load_keys(keys_);
    EXPECT_TRUE(absl::IsInvalidArgument(loaded.status())) << loaded.status();
    return std::string(loaded.status().message());
  }
  std::string file(const std::string& name) const { return keys_ + "/" + name; }
  mode_t mode(const std::string& path) const {
    struct stat found {};
    EXPECT_EQ(::stat(path.c_str(), &found), 0) << path;
    return found.st_mode & 07777;
  }
  void overwrite(const std::string& name, const std::string& contents) const {
    std::ofstream(file(name), std::ios::binary | std::ios::trunc) << contents;
  }

  std::string folder_, keys_;
};

TEST_F(JobKeysTest, AreMadeForTheirOwnerAloneWhateverTheMask) {
  const mode_t before = ::umask(0);
  const absl::Status made = create_keys(keys_);
  ::umask(before);
  ASSERT_TRUE(made.ok()) << made;
  EXPECT_EQ(mode(keys_), 0700u);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(keys_)) {
    EXPECT_EQ(mode(entry.path()), 0600u) << entry.path();
    ++files;
  }
  EXPECT_EQ(files, 4) << "and the authority's key is not among them";
  const auto loaded = load_keys(keys_);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->secret.bytes().size(), JobSecret::kBytes);
  EXPECT_EQ(load_secret(secret_path(keys_))->bytes(), loaded->secret.bytes());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1)
      << "nothing else is left";
}

TEST_F(JobKeysTest, OfTwoJobsAreDifferent) {
  const auto one = test_keys(), other = other_keys();
  EXPECT_NE(one->secret.bytes(), other->secret.bytes());
  EXPECT_NE(one->authority, other->authority);
  EXPECT_NE(one->private_key, other->private_key);
}

TEST_F(JobKeysTest, AreNotMadeOverSomethingThatExists) {
  ASSERT_TRUE(create_keys(keys_).ok());
  const std::string secret = load_secret(secret_path(keys_))->bytes();
  for (const std::string& there : {keys_, keys_ + "/", folder_, file("secret")}) {
    const absl::Status again = create_keys(there);
    EXPECT_TRUE(absl::IsInvalidArgument(again)) << again;
    EXPECT_THAT(again.message(), HasSubstr("exists"));
  }
  EXPECT_EQ(load_secret(secret_path(keys_))->bytes(), secret);
  EXPECT_TRUE(absl::IsInvalidArgument(create_keys(folder_ + "/no/such/place")));
}

TEST_F(JobKeysTest, OpenToOthersAreRefusedWithTheCommandThatHelps) {
  ASSERT_TRUE(create_keys(keys_).ok());
  for (const char* const name : {"authority.pem", "certificate.pem", "key.pem", "secret"}) {
    ::chmod(file(name).c_str(), 0640);
    EXPECT_EQ(refusal(), absl::StrCat(file(name), " is open to other users (mode 0640): chmod 600 ",
                                      file(name)));
    ::chmod(file(name).c_str(), 0600);
  }
  ::chmod(keys_.c_str(), 0711);
  EXPECT_THAT(refusal(), HasSubstr(absl::StrCat("chmod 700 ", keys_)));
  ::chmod(keys_.c_str(), 0700);
  EXPECT_TRUE(load_keys(keys_).ok());
}

TEST_F(JobKeysTest, OfSomebodyElseAreRefused) {
  ASSERT_TRUE(create_keys(keys_).ok());
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(file("key.pem").c_str(), 65534, 65534), 0);
    EXPECT_THAT(refusal(), HasSubstr("key.pem belongs to user 65534"));
    ASSERT_EQ(::chown(file("key.pem").c_str(), 0, 0), 0);
  }
  std::filesystem::rename(file("key.pem"), folder_ + "/elsewhere.pem");
  std::filesystem::create_symlink(folder_ + "/elsewhere.pem", file("key.pem"));
  EXPECT_THAT(refusal(), HasSubstr("key.pem")) << "a link leads to what others may change";
}

TEST_F(JobKeysTest, DamagedOnesAreNamed) {
  ASSERT_TRUE(create_keys(keys_).ok());
  const JobKeys good = *load_keys(keys_);
  const auto other = other_keys();
  const auto expect = [&](const std::string& name, const std::string& contents,
                          const std::string& words) {
    std::ifstream in(file(name), std::ios::binary);
    const std::string before((std::istreambuf_iterator<char>(in)), {});
    overwrite(name, contents);
    EXPECT_THAT(refusal(), HasSubstr(words)) << name;
    overwrite(name, before);
  };
  expect("secret", "short", "secret has 5 bytes, not 32");
  expect("secret", std::string(33, 'x'), "secret is larger than 32 bytes");
  expect("key.pem", "", "key.pem is no private key");
  expect("key.pem", other->private_key, "key.pem is not the key of certificate.pem");
  expect("certificate.pem", "nothing", "certificate.pem is no certificate");
  expect("certificate.pem", good.authority, "key.pem is not the key of certificate.pem");
  expect("authority.pem", other->authority, "certificate.pem is not of the authority");
  expect("authority.pem", std::string(70'000, 'x'), "authority.pem is larger than");
  EXPECT_TRUE(load_keys(keys_).ok());
  std::filesystem::remove(file("secret"));
  EXPECT_THAT(refusal(), HasSubstr("secret is missing"));
  EXPECT_TRUE(absl::IsInvalidArgument(load_keys(folder_ + "/none").status()));
}

TEST_F(JobKeysTest, TheFirstNodeMakesThemAndTheOthersWait) {
  NodeKeys node{.directory = folder_ + "/out/keys", .may_make = true};
  node.patience = absl::Milliseconds(300);
  const auto late = keys_of_node(real_clock(), node);
  EXPECT_TRUE(absl::IsDeadlineExceeded(late.status())) << late.status();
  EXPECT_THAT(late.status().message(), HasSubstr("--keys DIR"));

  node.patience = absl::Seconds(60);
  absl::StatusOr<JobKeys> waited;
  std::thread other([&] { waited = keys_of_node(real_clock(), node); });
  NodeKeys first = node;
  first.is_first = true;
  const auto made = keys_of_node(real_clock(), first);
  other.join();
  ASSERT_TRUE(made.ok() && waited.ok()) << made.status() << waited.status();
  EXPECT_EQ(made->secret.bytes(), waited->secret.bytes());
  EXPECT_EQ(keys_of_node(real_clock(), first)->secret.bytes(), made->secret.bytes())
      << "and again when it starts again";

  first.may_make = false;
  first.directory = folder_ + "/named";
  EXPECT_TRUE(absl::IsInvalidArgument(keys_of_node(real_clock(), first).status()))
      << "a folder that somebody names is not made";
}

TEST_F(JobKeysTest, AreNeededForAddressesOfANetwork) {
  EXPECT_EQ(keys_for("unix:/a/b", "").value(), nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(keys_for("10.0.0.1:7070", "").status()));
  ASSERT_TRUE(create_keys(keys_).ok());
  EXPECT_NE(keys_for("10.0.0.1:7070", keys_).value(), nullptr);
}

}  // namespace
}  // namespace evermoe
