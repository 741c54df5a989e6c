// A stranger who reaches the ports of UCX, with a UCX of his own: what he sends has no effect.
#include <gtest/gtest.h>
#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "comm/transport/deadline.h"
#include "comm/transport/host_address.h"
#include "comm/transport/secret_testing.h"
#include "comm/transport/transport_testing.h"
#include "comm/ucx/ucx_tag.h"
#include "comm/ucx/ucx_transport.h"
#include "comm/ucx/ucx_worker.h"

namespace evermoe {
namespace {

constexpr absl::Duration kSoon = absl::Milliseconds(500);
constexpr size_t kSize = 1000;

struct Process {
  explicit Process(const JobSecret& secret) : listener(*listen_ucx({.secret = secret})) {}
  void open(int rank) { transport = *listener->open(Rank(rank), 2, View(0)); }
  std::unique_ptr<TransportListener> listener;
  std::unique_ptr<Transport> transport;
};

void name(Transport& transport, const Process& zero, const Process& one, View since_of_one) {
  CHECK_OK(transport.set_peers(
      {{zero.listener->address(), View(0)}, {one.listener->address(), since_of_one}}));
}

TEST(UcxStrangerTest, NobodyListensWithoutASecret) {
  EXPECT_TRUE(absl::IsInvalidArgument(listen_ucx({}).status()));
}

// The worst that he could arrange: the job takes him for its rank 1.
TEST(UcxStrangerTest, WhoHasAnotherSecretIsNotConnected) {
  Process zero(test_secret()), stranger(JobSecret::random()), one(test_secret());
  zero.open(0);
  stranger.open(1);
  name(*zero.transport, zero, stranger, View(0));
  name(*stranger.transport, zero, stranger, View(0));
  const auto bytes = bytes_of(kSize, 1);
  auto sent = stranger.transport->start_send(Rank(0), tag(1), bytes);
  auto said = stranger.transport->start_send(Rank(0), service_tag(1), bytes);
  std::vector<std::byte> into(kSize);
  auto received = zero.transport->start_receive(Rank(1), tag(1), into);
  auto own = zero.transport->start_send(Rank(1), tag(2), bytes);
  EXPECT_TRUE(absl::IsDeadlineExceeded(zero.transport->receive_service_message(kSoon).status()));
  EXPECT_FALSE(zero.transport->done(*received));
  EXPECT_FALSE(zero.transport->done(*own)) << "he hears nothing, either";
  EXPECT_FALSE(stranger.transport->done(*sent));
  EXPECT_FALSE(stranger.transport->done(*said));
  EXPECT_EQ(into, std::vector<std::byte>(kSize));
  for (auto* const operation : {&sent, &said})
    EXPECT_FALSE(stranger.transport->wait(std::move(*operation), absl::ZeroDuration()).ok());
  for (auto* const operation : {&received, &own})
    EXPECT_FALSE(zero.transport->wait(std::move(*operation), absl::ZeroDuration()).ok());

  one.transport = *one.listener->open(Rank(1), 2, View(1));
  name(*one.transport, zero, one, View(1));
  name(*zero.transport, zero, one, View(1));
  ASSERT_TRUE(send(*one.transport, 0, tag(3), bytes_of(kSize, 3)).ok());
  EXPECT_TRUE(gets(*zero.transport, 1, tag(3), kSize, 3));
}

// Who sends messages of UCX without our transport.
class RawStranger {
 public:
  RawStranger() : worker_(*UcxWorker::create(*UcxContext::create({}))) {}
  ~RawStranger() {
    for (ucp_ep_h endpoint : endpoints_) {
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      param.flags = UCP_EP_CLOSE_FLAG_FORCE;
      void* const request = ucp_ep_close_nbx(endpoint, &param);
      while (UCS_PTR_IS_PTR(request) && ucp_request_check_status(request) == UCS_INPROGRESS)
        worker_->progress();
      if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
    }
    const Deadline deadline(kSoon);
    while (pending_ > 0 && !deadline.passed()) worker_->progress();
  }
  // The endpoints of both channels of a process.
  void connect(const std::string& address) {
    const std::vector<std::string> workers = absl::StrSplit(parse_address(address)->detail, '.');
    for (const std::string& text : workers) {
      std::string bytes;
      CHECK(absl::WebSafeBase64Unescape(text, &bytes));
      ucp_ep_params_t params{};
      params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
      params.address = reinterpret_cast<const ucp_address_t*>(bytes.data());
      params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
      ucp_ep_h endpoint = nullptr;
      CHECK(ucp_ep_create(worker_->get(), &params, &endpoint) == UCS_OK);
      endpoints_.push_back(endpoint);
    }
  }
  void send(uint64_t tag, size_t size) {
    bytes_.resize(std::max(bytes_.size(), size));
    for (ucp_ep_h endpoint : endpoints_) {
      ucp_request_param_t param{};
      param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
      param.user_data = this;
      param.cb.send = [](void* request, ucs_status_t, void* self) {
        --static_cast<RawStranger*>(self)->pending_;
        ucp_request_free(request);
      };
      if (UCS_PTR_IS_PTR(ucp_tag_send_nbx(endpoint, bytes_.data(), size, tag, &param))) ++pending_;
    }
    worker_->progress();
  }
  void work(absl::Duration time) {
    for (const Deadline deadline(time); !deadline.passed();) worker_->progress();
  }

 private:
  std::unique_ptr<UcxWorker> worker_;
  std::vector<ucp_ep_h> endpoints_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(size_t{1} << 20, std::byte{7});
  int pending_ = 0;
};

TEST(UcxStrangerTest, MessagesInTheNameOfARankHaveNoEffect) {
  Process zero(test_secret()), one(test_secret());
  zero.open(0);
  one.open(1);
  name(*zero.transport, zero, one, View(0));
  name(*one.transport, zero, one, View(0));
  RawStranger stranger;
  stranger.connect(zero.listener->address());
  const auto attack = [&] {
    const size_t own_end = 16;
    for (const uint32_t purpose : {1, 2, 3, 4}) {
      for (const size_t size : {size_t{0}, own_end, kSize, kSize + own_end, size_t{200'000}}) {
        stranger.send(ucx_tag(Rank(1), tag(purpose)), size);
        stranger.send(ucx_tag(Rank(1), service_tag(purpose)), size);
      }
      for (const size_t size : {size_t{0}, size_t{32}, size_t{80}, size_t{96}, size_t{5000}})
        stranger.send(ucx_tag(Rank(1), Tag{View(0), kOwnGroup, purpose}), size);
    }
    stranger.work(absl::Milliseconds(100));
  };
  attack();  // before they have met
  std::vector<std::byte> into(kSize);
  auto waiting = zero.transport->start_receive(Rank(1), tag(1), into);
  ASSERT_TRUE(send(*one.transport, 0, service_tag(5), bytes_of(kSize, 5)).ok());
  EXPECT_TRUE(is_service_message(zero.transport->receive_service_message(kPatience), 1,
                                 service_tag(5), kSize, 5));
  attack();  // while one waits for a message of that name
  EXPECT_TRUE(absl::IsDeadlineExceeded(zero.transport->receive_service_message(kSoon).status()));
  EXPECT_FALSE(zero.transport->done(*waiting));
  for (int round = 0; round < 5; ++round) {
    const int seed = 10 + round;
    ASSERT_TRUE(send(*one.transport, 0, service_tag(7), bytes_of(kSize, seed)).ok());
    ASSERT_TRUE(
        send(*one.transport, 0, tag(2 + static_cast<uint32_t>(round)), bytes_of(kSize, seed)).ok());
    EXPECT_TRUE(is_service_message(zero.transport->receive_service_message(kPatience), 1,
                                   service_tag(7), kSize, seed));
    EXPECT_TRUE(gets(*zero.transport, 1, tag(2 + static_cast<uint32_t>(round)), kSize, seed));
    attack();
  }
  ASSERT_TRUE(send(*one.transport, 0, tag(1), bytes_of(kSize, 1)).ok());
  EXPECT_TRUE(zero.transport->wait(std::move(waiting), kPatience).ok());
  EXPECT_EQ(into, bytes_of(kSize, 1));
}

}  // namespace
}  // namespace evermoe
