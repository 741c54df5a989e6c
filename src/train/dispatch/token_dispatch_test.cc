// Tokens come to their experts and back with the bits that one row for each choice would have, in
// as few bytes and messages as announced.

#include "train/dispatch/token_dispatch.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "comm/in_process/in_process_transport.h"
#include "comm/transport/watched_transport.h"

namespace evermoe {
namespace {

constexpr int kExperts = 8;
constexpr absl::Duration kPatience = absl::Seconds(30);

SentTraffic::Sent sent_in_all(const SentTraffic& traffic) {
  SentTraffic::Sent all;
  for (const auto& [to, sent] : traffic.so_far()) {
    all.messages += sent.messages;
    all.bytes += sent.bytes;
  }
  return all;
}

// The tokens of one lane, what was chosen for them, and the gradient of what comes of them.
struct Tokens {
  at::Tensor values;             // [T, hidden]
  std::vector<int64_t> experts;  // [T * top_k]
  at::Tensor weights;            // [T, top_k]
  at::Tensor gradient;           // [T, hidden]
  int64_t top_k;

  // `experts_of` says which experts the tokens may choose.
  Tokens(int seed, int64_t count, int64_t hidden, int64_t top, at::ScalarType type,
         std::vector<int64_t> experts_of)
      : top_k(top) {
    at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
    const auto wide = type == at::kDouble ? at::kDouble : at::kFloat;
    const auto draw = [&](std::vector<int64_t> shape) {
      return at::randn(shape, generator, at::TensorOptions().dtype(at::kDouble));
    };
    values = draw({count, hidden}).to(type).requires_grad_(true);
    weights = draw({count, top}).to(wide).requires_grad_(true);
    gradient = draw({count, hidden}).to(type);
    std::mt19937 random(static_cast<unsigned>(seed));
    for (int64_t token = 0; token < count; ++token) {
      std::shuffle(experts_of.begin(), experts_of.end(), random);
      experts.insert(experts.end(), experts_of.begin(), experts_of.begin() + top);
    }
  }

  at::Tensor chosen() const { return at::tensor(experts, at::kLong).view({-1, top_k}); }
  at::Tensor load() const { return at::bincount(chosen().flatten(), {}, kExperts); }
};

std::vector<int64_t> range(int64_t begin, int64_t end) {
  std::vector<int64_t> values(static_cast<size_t>(end - begin));
  std::iota(values.begin(), values.end(), begin);
  return values;
}

// Expert e multiplies by this.
double factor_of(int64_t expert) { return 1 + static_cast<double>(expert) / 8; }

at::Tensor column(const std::vector<double>& values, at::ScalarType type) {
  return at::tensor(values, at::kDouble).to(type).unsqueeze(-1);
}

// Forward and backward of all lanes' tokens; `look` is called on each at the end.
void travel(
    Transport& transport, Tokens& tokens, const ExpertPlacement& placement,
    const std::function<void(const at::Tensor& output)>& look = [](const auto&) {},
    TokenDispatch::Planner planner = TokenDispatch::Planner::kHost) {
  std::vector<Rank> ranks;
  for (int i = 0; i < transport.size(); ++i) ranks.push_back(Rank(i));
  Communicator group(transport, ranks, {View(1), 0, kPatience});
  const auto dispatch = TokenDispatch::start(group, placement, tokens.chosen(), tokens.load(),
                                             tokens.values, planner);
  const at::Tensor layout = dispatch->receive_tokens(dispatch->send_tokens(tokens.values));
  std::vector<double> factors;
  for (const ExpertRows& rows : dispatch->layout()->rows())
    factors.resize(static_cast<size_t>(rows.begin + rows.padded), factor_of(rows.expert));
  const at::Tensor outputs = layout * column(factors, layout.scalar_type());
  const at::Tensor mixed = dispatch->to_tokens(outputs, tokens.weights).tokens;
  torch::autograd::backward({mixed}, {tokens.gradient});
  look(mixed);
}

// The same without any travelling: a row for each choice, added in the order of choices.
void expect_like_one_row_for_each_choice(const Tokens& tokens, const at::Tensor& output) {
  const at::NoGradGuard no_grad;
  const at::ScalarType type = tokens.values.scalar_type(), wide = tokens.weights.scalar_type();
  std::vector<double> factors;
  for (const int64_t expert : tokens.experts) factors.push_back(factor_of(expert));
  const at::Tensor factor = column(factors, type).view({-1, tokens.top_k, 1});
  const at::Tensor choices = tokens.values.unsqueeze(1) * factor;
  const at::Tensor weights = tokens.weights.unsqueeze(-1);
  EXPECT_TRUE(at::equal(output, (choices * weights).sum(1).to(type)));
  const at::Tensor of_choices = tokens.gradient.to(wide).unsqueeze(1).expand(choices.sizes());
  EXPECT_TRUE(at::equal(tokens.weights.grad(), (of_choices * choices).sum(2)));
  const at::Tensor of_tokens = ((of_choices * weights).to(type) * factor).sum(1);
  EXPECT_TRUE(at::equal(tokens.values.grad(), of_tokens));
}

class TokenDispatchTest : public testing::TestWithParam<at::ScalarType> {};

TEST_P(TokenDispatchTest, HasTheBitsOfOneRowForEachChoice) {
  for (int trial = 0; trial < 8; ++trial) {
    const int64_t top_k = 1 + trial % 4;
    const int replicas = 1 + trial / 4;
    const int64_t hidden = trial % 2 == 0 ? 64 : 8;  // rows of which notes fill many
    const auto placement = ExpertPlacement::uniform(kExperts, 3, replicas);
    InProcessCluster cluster(3, {.seed = static_cast<uint64_t>(trial)});
    cluster.run([&](Rank rank, Transport& transport) {
      at::set_num_threads(1);
      const int64_t count = std::vector<int64_t>{13, 0, 40}[static_cast<size_t>(rank.value)];
      Tokens tokens(trial * 3 + rank.value, count, hidden, top_k, GetParam(), range(0, kExperts));
      travel(transport, tokens, placement, [&](const at::Tensor& output) {
        expect_like_one_row_for_each_choice(tokens, output);
      });
      transport.close();
    });
  }
}

TEST_P(TokenDispatchTest, OfALaneAloneHasTheSameBitsWhoeverPlans) {
  const auto placement = ExpertPlacement::uniform(kExperts, 1, 1);
  for (const auto planner : {TokenDispatch::Planner::kHost, TokenDispatch::Planner::kDevice}) {
    for (const int64_t count : {13, 0, 40}) {
      InProcessCluster cluster(1, {});
      cluster.run([&](Rank, Transport& transport) {
        at::set_num_threads(1);
        Tokens tokens(static_cast<int>(count), count, 64, /*top=*/3, GetParam(),
                      range(0, kExperts));
        const auto look = [&](const at::Tensor& output) {
          expect_like_one_row_for_each_choice(tokens, output);
        };
        travel(transport, tokens, placement, look, planner);
        transport.close();
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TokenDispatchTest,
                         testing::Values(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

TEST(TokenDispatchTest, ATokenTravelsOnceToALaneAndItsGradientToo) {
  constexpr int64_t kTokens = 50, kHidden = 256, kTop = 4, kRowBytes = kHidden * 4;
  const auto placement = ExpertPlacement::uniform(kExperts, 2, 1);
  InProcessCluster cluster(2, {});
  cluster.run([&](Rank rank, Transport& inner) {
    at::set_num_threads(1);
    const auto traffic = std::make_shared<SentTraffic>();
    WatchedTransport transport(inner, kAllGroups, real_clock(), traffic);
    // Both lanes draw both lanes' tokens, to know what comes.
    std::vector<Tokens> tokens;
    for (int lane = 0; lane < 2; ++lane)
      tokens.emplace_back(lane, kTokens, kHidden, kTop, at::kFloat, range(0, kExperts));
    const int other = 1 - rank.value;
    const auto choices_to_other_of = [&](int lane) {
      int64_t choices = 0;
      for (const int64_t expert : tokens[static_cast<size_t>(lane)].experts)
        choices += placement.lanes_of(static_cast<int>(expert)).front() != lane ? 1 : 0;
      return choices;
    };
    std::set<int64_t> travellers;
    const Tokens& own = tokens[static_cast<size_t>(rank.value)];
    for (size_t choice = 0; choice < own.experts.size(); ++choice) {
      if (placement.lanes_of(static_cast<int>(own.experts[choice])).front() == other)
        travellers.insert(static_cast<int64_t>(choice) / kTop);
    }
    const int64_t choices = choices_to_other_of(rank.value);
    const int64_t rows = static_cast<int64_t>(travellers.size()) + (choices * 8 + 1023) / kRowBytes;
    EXPECT_LT(rows, choices * 2 / 3);
    travel(transport, tokens[static_cast<size_t>(rank.value)], placement);
    // Counts of four experts and of rows; tokens and gradients to the experts, a row for each
    // choice of the other lane back.
    const SentTraffic::Sent sent = sent_in_all(*traffic);
    EXPECT_EQ(sent.messages, 1 + 4);
    EXPECT_EQ(sent.bytes, 5 * 8 + 2 * (rows + choices_to_other_of(other)) * kRowBytes);
    transport.close();
  });
}

TEST(TokenDispatchTest, NoMessageIsSentForZeroRows) {
  const auto placement = ExpertPlacement::uniform(kExperts, 3, 1);
  InProcessCluster cluster(3, {});
  cluster.run([&](Rank rank, Transport& inner) {
    at::set_num_threads(1);
    const auto traffic = std::make_shared<SentTraffic>();
    WatchedTransport transport(inner, kAllGroups, real_clock(), traffic);
    // Lane 0 keeps its tokens, lane 1 has none, those of lane 2 all go to lane 0.
    const int64_t first = placement.experts_on(0).front();
    Tokens tokens(rank.value, rank.value == 1 ? 0 : 20, 32, 2, at::kFloat, range(first, first + 2));
    travel(transport, tokens, placement);
    const int64_t counts = 2;
    EXPECT_EQ(sent_in_all(*traffic).messages, rank.value == 1 ? counts : counts + 2) << rank.value;
    transport.close();
  });
}

// A hundred tokens on each of two lanes, which host half of the experts each; their way is known to
// both.
void on_two_lanes(const std::function<void(Communicator&, const Tokens&, TokenDispatch&)>& body) {
  const auto placement = ExpertPlacement::uniform(kExperts, 2, 1);
  InProcessCluster cluster(2, {});
  cluster.run([&](Rank rank, Transport& transport) {
    at::set_num_threads(1);
    Communicator group(transport, {Rank(0), Rank(1)}, {View(1), 0, kPatience});
    const Tokens tokens(rank.value, 100, 512, 2, at::kFloat, range(0, kExperts));
    body(group, tokens,
         *TokenDispatch::start(group, placement, tokens.chosen(), tokens.load(), tokens.values));
    transport.close();
  });
}

// Lane 1 sends nothing before it has heard that lane 0 has sent.
TEST(TokenDispatchTest, SendingWaitsForNobody) {
  constexpr uint32_t kHasSent = 7;
  on_two_lanes([](Communicator& group, const Tokens& tokens, TokenDispatch& dispatch) {
    if (group.index() == 1) CHECK_OK(group.start_receive(0, kHasSent, {}).wait());
    const at::Tensor under_way = dispatch.send_tokens(tokens.values);
    if (group.index() == 0) CHECK_OK(group.start_send(1, kHasSent, {}).wait());
    EXPECT_GT(dispatch.receive_tokens(under_way).size(0), 0);
  });
}

// What is made between sending and receiving runs its backward between them, too.
TEST(TokenDispatchTest, BackwardOfWhatIsComputedMeanwhileRunsWhileGradientsAreUnderWay) {
  constexpr uint32_t kHasRun = 7;
  on_two_lanes([](Communicator& group, const Tokens& tokens, TokenDispatch& dispatch) {
    const at::Tensor under_way = dispatch.send_tokens(tokens.values);
    const at::Tensor meanwhile = tokens.values * 2;
    if (group.index() == 0) {
      meanwhile.register_hook(
          [&](const at::Tensor&) { CHECK_OK(group.start_send(1, kHasRun, {}).wait()); });
    }
    const at::Tensor layout = dispatch.receive_tokens(under_way);
    if (group.index() == 1) {  // its gradients leave when those of lane 0 have come to the experts
      layout.register_hook(
          [&](const at::Tensor&) { CHECK_OK(group.start_receive(0, kHasRun, {}).wait()); });
    }
    const at::Tensor mixed = dispatch.to_tokens(layout, tokens.weights).tokens;
    torch::autograd::backward({meanwhile + mixed}, {tokens.gradient});
  });
}

}  // namespace
}  // namespace evermoe
