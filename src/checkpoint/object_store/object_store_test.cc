// The S3 client against a real server, and against answers of a stranger.
#include "checkpoint/object_store/object_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/object_store/object_server_testing.h"
#include "checkpoint/object_store/s3_answers.h"
#include "checkpoint/object_store/s3_answers_fuzz_entry.h"

namespace evermoe {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class ObjectStoreTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new ScratchFolder();
    server_ = new ObjectServer(folder_->path());
  }
  static void TearDownTestSuite() {
    delete server_;
    delete folder_;
  }
  // A prefix for each test.
  std::unique_ptr<ObjectStore> store_ =
      server_->open(::testing::UnitTest::GetInstance()->current_test_info()->name());

  static ScratchFolder* folder_;
  static ObjectServer* server_;
};
ScratchFolder* ObjectStoreTest::folder_ = nullptr;
ObjectServer* ObjectStoreTest::server_ = nullptr;

TEST_F(ObjectStoreTest, KeepsWhatIsPut) {
  ASSERT_TRUE(store_->put("a/one", bytes_of("first")).ok());
  ASSERT_TRUE(store_->put("a/two", bytes_of("")).ok());
  ASSERT_TRUE(store_->put("b", bytes_of("other")).ok());
  EXPECT_THAT(store_->list("a/").value(),
              ElementsAre(StoredObject{"a/one", 5}, StoredObject{"a/two", 0}));
  EXPECT_EQ(read_object(*store_, "a/one", 100).value(), "first");
  EXPECT_TRUE(absl::IsResourceExhausted(read_object(*store_, "a/one", 4).status()));
  std::string middle(3, ' ');
  ASSERT_TRUE(store_->read("a/one", 1, std::as_writable_bytes(std::span(middle))).ok());
  EXPECT_EQ(middle, "irs");
  const absl::Status beyond = store_->read("a/one", 4, std::as_writable_bytes(std::span(middle)));
  EXPECT_TRUE(absl::IsDataLoss(beyond)) << beyond;
  ASSERT_TRUE(store_->remove("a/one").ok());
  ASSERT_TRUE(store_->remove("a/one").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->size("a/one").status()));
}

TEST_F(ObjectStoreTest, ALongFileGoesInParts) {
  std::string content;
  for (int i = 0; content.size() < (5 << 19); ++i) absl::StrAppend(&content, i, ",");
  const std::string path = folder_->at("long");
  ASSERT_TRUE(write_file_synced(real_files(), path, content).ok());
  const auto file = real_files().open(path).value();
  ASSERT_TRUE(store_->put_file("long", *file).ok());
  EXPECT_THAT(store_->list("").value(),
              ElementsAre(StoredObject{"long", static_cast<int64_t>(content.size())}));
  EXPECT_EQ(read_object(*store_, "long", 1 << 30).value(), content);
}

TEST_F(ObjectStoreTest, ListsMoreThanAPage) {
  for (int i = 0; i < 7; ++i)
    ASSERT_TRUE(store_->put(absl::StrCat("many/", i), bytes_of("x")).ok());
  S3Options options = server_->options();
  options.page_objects = 3;
  const auto paging = open_s3_store(store_->url(), options).value();
  EXPECT_EQ(paging->list("many/").value(), store_->list("many/").value());
  EXPECT_EQ(paging->list("many/").value().size(), 7U);
}

TEST_F(ObjectStoreTest, SaysWhoIsRefusedAndNoSecret) {
  S3Options options = server_->options();
  options.http.signer.secret = "wrong-secret";
  const auto stranger = open_s3_store(server_->url("x"), options).value();
  const absl::Status refused = stranger->put("a", bytes_of("b"));
  EXPECT_TRUE(absl::IsPermissionDenied(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("SignatureDoesNotMatch"), Not(HasSubstr("wrong-secret")),
                    Not(HasSubstr("\n"))));
}

TEST_F(ObjectStoreTest, SaysThatThereIsNoSuchBucket) {
  const auto nowhere = open_s3_store("s3://nowhere/x", server_->options()).value();
  EXPECT_TRUE(absl::IsInvalidArgument(nowhere->list("").status()));
}

TEST_F(ObjectStoreTest, SaysThatThereIsNoBucketForAWrite) {
  const auto nowhere = open_s3_store("s3://nowhere/x", server_->options()).value();
  const absl::Status put = nowhere->put("a", bytes_of("b"));
  EXPECT_TRUE(absl::IsInvalidArgument(put)) << put;
  EXPECT_THAT(std::string(put.message()), HasSubstr("s3://nowhere/x/a"));
  const std::string path = folder_->at("two parts");
  ASSERT_TRUE(write_file_synced(real_files(), path, std::string(2 << 20, 'x')).ok());
  const absl::Status parts = nowhere->put_file("a", *real_files().open(path).value());
  EXPECT_TRUE(absl::IsInvalidArgument(parts)) << parts;
}

TEST_F(ObjectStoreTest, SaysThatNobodyAnswers) {
  S3Options options = server_->options();
  options.endpoint = "http://127.0.0.1:1";
  const auto gone = open_s3_store(server_->url("x"), options).value();
  const absl::Status refused = gone->put("a", bytes_of("b"));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("127.0.0.1:1"));
}

TEST(S3UrlTest, SaysWhatIsAllowed) {
  EXPECT_EQ(parse_s3_url("s3://bucket/a/b/").value().prefix, "a/b");
  EXPECT_EQ(parse_s3_url("s3://bucket").value().prefix, "");
  for (const char* wrong : {"", "bucket", "http://bucket/x", "s3://", "s3://b/x", "s3://bucket/a b",
                            "s3://bucket/a//b", "s3://bucket/../x", "s3://bucket/a?b", "s3:///x"}) {
    const absl::Status refused = parse_s3_url(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << wrong;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("s3://BUCKET"));
  }
}

TEST(S3AnswersTest, Pages) {
  const auto page = parse_object_page(
      "<?xml version='1.0'?><ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/\">"
      "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
      "<Contents><Key>a&amp;b</Key><Size>7</Size></Contents></ListBucketResult>",
      "list");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_THAT(page->objects, ElementsAre(StoredObject{"a&b", 7}));
  EXPECT_EQ(page->next, "t");
}

TEST(S3AnswersTest, MutatedAnswersNeverDoHarm) {
  const std::string whole =
      "<?xml version='1.0'?><ListBucketResult><IsTruncated>false</IsTruncated><Contents>"
      "<Key>step-00000002/manifest-0000000001.0011223344556677.json</Key><Size>7</Size></Contents>"
      "</ListBucketResult><Error><Code>X</Code></Error>";
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const char other : {'<', '>', '&', '0', '-', '\0', '\xff'}) {
      std::string mutated = whole;
      mutated[at] = other;
      fuzz_s3_answers(bytes_of(mutated));
    }
    fuzz_s3_answers(bytes_of(whole.substr(at)));
    fuzz_s3_answers(bytes_of(whole.substr(0, at)));
  }
  fuzz_s3_answers(bytes_of(std::string(20'000, '<')));
  std::string deep;
  for (int i = 0; i < 20'000; ++i) deep += "<a>";
  fuzz_s3_answers(bytes_of(deep));
}

TEST(S3AnswersTest, WhatTheUserHasToChangeIsToldFromWhatPasses) {
  const auto code = [](const char* method, int status, const std::string& body = "") {
    const absl::Status told = s3_status(method, {status, {}, body}, "s3://b/x");
    EXPECT_THAT(std::string(told.message()), Not(HasSubstr("\n")));
    EXPECT_TRUE(told.ok() || absl::StrContains(told.message(), "s3://b/x")) << told;
    return told.code();
  };
  const auto error = [](const std::string& name) {
    return "<Error><Code>" + name + "</Code><Message>a\nb</Message></Error>";
  };
  EXPECT_EQ(code("PUT", 200), absl::StatusCode::kOk);
  for (const int status : {301, 302, 307, 308, 400})
    EXPECT_EQ(code("GET", status, error("X")), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(code("PUT", 404), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("POST", 404), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("GET", 404), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("GET", 404, error("NoSuchBucket")), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("PUT", 404, error("NoSuchUpload")), absl::StatusCode::kInternal);
  EXPECT_EQ(code("PUT", 400, error("RequestTimeout")), absl::StatusCode::kInternal);
  EXPECT_EQ(code("PUT", 403), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code("PUT", 503), absl::StatusCode::kInternal);
}

TEST(S3OptionsTest, AnEndpointNamesNoUser) {
  ::setenv("AWS_ENDPOINT_URL", "http://me:hidden@host:9000", 1);
  const absl::Status refused = s3_options().status();
  ::unsetenv("AWS_ENDPOINT_URL");
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("AWS_ENDPOINT_URL"), Not(HasSubstr("hidden"))));
}

TEST(S3AnswersTest, AStrangersAnswersAreRefused) {
  for (const char* wrong :
       {"", "<", "<ListBucketResult>", "<Error/>",
        "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"}) {
    EXPECT_TRUE(absl::IsDataLoss(parse_object_page(wrong, "list").status())) << wrong;
  }
  EXPECT_TRUE(absl::IsDataLoss(parse_upload_id("<a/>", "upload").status()));
  EXPECT_THAT(parse_s3_error("no xml").code, IsEmpty());
  EXPECT_EQ(parse_s3_error("<Error><Code>A\nB</Code></Error>").code, "A B");
}

}  // namespace
}  // namespace evermoe
