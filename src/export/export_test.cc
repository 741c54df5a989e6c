// Which class a model becomes, how its parameters are cut, and what lands on the disk.
// tests/export compares the result with transformers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "checkpoint/fake_state_testing.h"
#include "checkpoint/format/casts.h"
#include "checkpoint/format/safetensors.h"
#include "env/faulty_files.h"
#include "export/export_checkpoint.h"

namespace evermoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelShape small_shape(const std::string& style) {
  ModelShape shape;
  shape.vocabulary = 64;
  shape.sequence_length = 16;
  shape.layers = 2;
  shape.hidden = 64;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_dim = 16;
  shape.dense_hidden = 128;
  shape.expert_hidden = 64;
  shape.experts = 2;
  shape.top_k = 1;
  return with_style(shape, style).value();
}

// A checkpoint of made-up numbers in the model's operators.
class ExportTest : public testing::Test {
 protected:
  void save(const ModelShape& shape) {
    state_.operators.clear();
    for (const OperatorSpec& spec : model_operators(shape)) {
      state_.operators.emplace_back(spec.name, spec.flat_size);
    }
    std::sort(state_.operators.begin(), state_.operators.end());
    auto job = FakeJob::open(real_files(), {.directory = folder_.at("checkpoints"),
                                            .world_size = 2,
                                            .state_types = state_.state_types,
                                            .compute_type = state_.compute_type});
    ASSERT_TRUE(job.ok()) << job.status();
    ASSERT_TRUE((*job)->save(state_, Step(7)).ok());
  }

  absl::StatusOr<ExportSummary> write(const ExportPlan& plan, const ExportOptions& options = {},
                                      Files& files = real_files()) {
    ASSIGN_OR_RETURN(const auto reader, CheckpointReader::open(real_files(), folder_.path()));
    return export_checkpoint(files, *reader, plan, out_, options);
  }

  std::vector<float> master(const std::string& operator_name) const {
    for (size_t i = 0; i < state_.operators.size(); ++i) {
      if (state_.operators[i].first != operator_name) continue;
      std::vector<float> values(static_cast<size_t>(state_.operators[i].second));
      cast_elements(state_.state_types[0], state_.bytes(i, StatePart::kMaster), ElementType::kFp32,
                    std::as_writable_bytes(std::span(values)));
      return values;
    }
    return {};
  }

  // An exported tensor's bytes.
  std::string tensor(const std::string& file, const std::string& name) const {
    const std::string path = join_path(out_, file);
    const std::string content = read_file(real_files(), path, 1 << 30).value();
    const auto header = parse_safetensors_header(std::as_bytes(std::span(content)),
                                                 static_cast<int64_t>(content.size()), path);
    EXPECT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->metadata.at("format"), "pt");
    for (const SafetensorsTensor& found : header->tensors) {
      if (found.name != name) continue;
      return content.substr(static_cast<size_t>(header->header_bytes + found.begin),
                            static_cast<size_t>(found.end - found.begin));
    }
    ADD_FAILURE() << path << " has no " << name;
    return {};
  }
  std::vector<float> floats(const std::string& file, const std::string& name) const {
    const std::string bytes = tensor(file, name);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  FakeState state_;
  ScratchFolder folder_;
  std::string out_ = folder_.at("exported");
};

const ExportTensor& find(const ExportPlan& plan, const std::string& name) {
  for (const ExportOperator& op : plan.operators) {
    for (const ExportTensor& tensor : op.tensors) {
      if (tensor.name == name) return tensor;
    }
  }
  ADD_FAILURE() << "no " << name;
  static const ExportTensor none;
  return none;
}

TEST(ExportFormatTest, EveryPresetHasItsClassOrAReason) {
  const std::map<std::string, std::string> classes = {
      {"qwen-moe-tiny", "qwen2-moe"},      {"qwen1.5-moe-a2.7b", "qwen2-moe"},
      {"qwen2-57b-a14b", "qwen2-moe"},     {"mixtral-tiny", "mixtral"},
      {"mixtral-8x7b", "mixtral"},         {"deepseek-moe-tiny", "ernie4.5-moe"},
      {"deepseek-moe-16b", "ernie4.5-moe"}};
  for (const auto& [name, expected] : classes) {
    const auto format = choose_format(preset(name).value());
    ASSERT_TRUE(format.ok()) << name << ": " << format.status();
    EXPECT_EQ(to_string(*format), expected) << name;
  }
  const absl::Status gpt = choose_format(preset("gpt-moe-tiny").value()).status();
  EXPECT_EQ(exit_code(gpt), 2);
  EXPECT_EQ(
      gpt.message(),
      "no class of transformers computes this model: it has model.norm = layernorm (only rmsnorm), "
      "model.activation = gelu (only swiglu), model.position = learned (only rotary), "
      "model.linear_bias = true (only false)");
}

TEST(ExportFormatTest, NamesWhatDoesNotFitEachClass) {
  ModelShape shape = small_shape("deepseek-moe");
  shape.qkv_bias = true;
  shape.moe_every = 2;
  EXPECT_EQ(choose_format(shape).status().message(),
            "no class of transformers computes this model: not Qwen2MoeForCausalLM because of "
            "model.shared_gate = false (only true); not MixtralForCausalLM because of "
            "model.shared_hidden = 128 (only 0), model.qkv_bias = true (only false), "
            "model.normalise_top_k = false (only true), model.moe_every = 2 (only 1); not "
            "Ernie4_5_MoeForCausalLM because of model.qkv_bias = true (only false)");
  shape = small_shape("deepseek-moe");
  shape.shared_hidden = 192;
  shape.expert_hidden = 128;
  EXPECT_THAT(
      misfits(shape, ExportFormat::kErnie45Moe),
      ElementsAre("model.shared_hidden = 192 (only multiples of model.expert_hidden, 128)"));
  shape = small_shape("qwen-moe");
  shape.routed_scale = 2.5;
  EXPECT_EQ(
      plan_export(shape, ExportFormat::kQwen2Moe, ElementType::kFp32).status().message(),
      "Qwen2MoeForCausalLM does not compute this model: it has model.routed_scale = 2.5 (only 1)");
}

TEST(ExportPlanTest, CutsFusedParameters) {
  const ModelShape shape = small_shape("qwen-moe");
  const ExportPlan plan = plan_export(shape, ExportFormat::kQwen2Moe, ElementType::kFp32).value();
  const ExportTensor& q = find(plan, "model.layers.1.self_attn.q_proj.weight");
  const ExportTensor& k = find(plan, "model.layers.1.self_attn.k_proj.weight");
  const ExportTensor& v = find(plan, "model.layers.1.self_attn.v_proj.weight");
  EXPECT_THAT(q.shape, ElementsAre(64, 64));
  EXPECT_THAT(k.shape, ElementsAre(32, 64));
  EXPECT_EQ(k.source, (FlatRange{q.source.end, q.source.end + 32 * 64}));
  EXPECT_EQ(v.source, (FlatRange{k.source.end, k.source.end + 32 * 64}));
  EXPECT_EQ(q.interleaved_head_dim, 0);
  const ExportTensor& gate = find(plan, "model.layers.0.mlp.experts.1.gate_proj.weight");
  const ExportTensor& up = find(plan, "model.layers.0.mlp.experts.1.up_proj.weight");
  EXPECT_EQ(gate.source, (FlatRange{0, 64 * 64}));
  EXPECT_EQ(up.source, (FlatRange{64 * 64, 2 * 64 * 64}));
  EXPECT_THAT(find(plan, "model.layers.0.mlp.shared_expert_gate.weight").shape, ElementsAre(1, 64));
  EXPECT_THAT(find(plan, "model.layers.0.self_attn.v_proj.bias").shape, ElementsAre(32));
}

TEST(ExportPlanTest, EveryParameterIsExportedOnce) {
  for (const char* style : {"qwen-moe", "mixtral", "deepseek-moe"}) {
    const ModelShape shape = small_shape(style);
    const ExportPlan plan =
        plan_export(shape, choose_format(shape).value(), ElementType::kFp32).value();
    int64_t covered = 0;
    for (const ExportOperator& op : plan.operators) {
      std::vector<std::pair<int64_t, int64_t>> ranges;
      for (const ExportTensor& tensor : op.tensors) {
        if (tensor.source.size() == 0) continue;
        EXPECT_EQ(tensor.source.size(), tensor.numel()) << tensor.name;
        ranges.emplace_back(tensor.source.begin, tensor.source.end);
        covered += tensor.source.size();
      }
      std::sort(ranges.begin(), ranges.end());
      for (size_t i = 1; i < ranges.size(); ++i)
        EXPECT_LE(ranges[i - 1].second, ranges[i].first) << op.name;
    }
    EXPECT_EQ(covered, count_parameters(shape).total) << style;
  }
}

TEST(ExportPlanTest, DenseLayersAreSaidInEachClassesWords) {
  ModelShape shape = small_shape("qwen-moe");
  shape.layers = 6;
  shape.moe_every = 2;
  shape.dense_first_layers = 3;
  const auto qwen = plan_export(shape, ExportFormat::kQwen2Moe, ElementType::kFp32).value().config;
  EXPECT_EQ(qwen["mlp_only_layers"], nlohmann::json({0, 1, 2, 4}));
  EXPECT_EQ(qwen["decoder_sparse_step"], 2);
  shape.shared_gate = false;
  shape.qkv_bias = false;
  const auto ernie =
      plan_export(shape, ExportFormat::kErnie45Moe, ElementType::kBf16).value().config;
  EXPECT_EQ(ernie["moe_layer_start_index"], 3);
  EXPECT_EQ(ernie["moe_layer_interval"], 2);
  EXPECT_EQ(ernie["moe_norm_min"], 1.0);
  EXPECT_EQ(ernie["dtype"], "bfloat16");
}

TEST_F(ExportTest, WritesTheMasterWeights) {
  const ModelShape shape = small_shape("qwen-moe");
  save(shape);
  const ExportPlan plan = plan_export(shape, ExportFormat::kQwen2Moe, ElementType::kFp32).value();
  const auto summary = write(plan);
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(summary->parameters, count_parameters(shape).total);
  EXPECT_THAT(summary->weight_files, ElementsAre("model.safetensors"));
  EXPECT_THAT(real_files().list(out_).value(),
              ElementsAre("config.json", "generation_config.json", "model.safetensors"));
  const std::vector<float> head = master("head");
  EXPECT_EQ(floats("model.safetensors", "lm_head.weight"),
            std::vector<float>(head.begin(), head.begin() + 64 * 64));
  EXPECT_EQ(floats("model.safetensors", "model.norm.weight"),
            std::vector<float>(head.begin() + 64 * 64, head.begin() + 65 * 64));
}

TEST_F(ExportTest, RowsOfRotatedHeadsAreInterleaved) {
  const ModelShape shape = small_shape("deepseek-moe");
  save(shape);
  ASSERT_TRUE(
      write(plan_export(shape, ExportFormat::kErnie45Moe, ElementType::kFp32).value()).ok());
  const std::vector<float> block = master("layer.0.block");  // begins with attention.qkv.weight
  const std::vector<float> q =
      floats("model.safetensors", "model.layers.0.self_attn.q_proj.weight");
  const std::vector<float> v =
      floats("model.safetensors", "model.layers.0.self_attn.v_proj.weight");
  const int stored[] = {0, 8, 1, 9};  // head_dim 16: the pairs (i, i + 8) become neighbours
  for (int head = 0; head < 4; ++head) {
    for (int row = 0; row < 4; ++row) {
      for (int column = 0; column < 64; ++column) {
        ASSERT_EQ(q[static_cast<size_t>((16 * head + row) * 64 + column)],
                  block[static_cast<size_t>((16 * head + stored[row]) * 64 + column)]);
      }
    }
  }
  EXPECT_EQ(v, std::vector<float>(block.begin() + 96 * 64, block.begin() + 128 * 64));
  EXPECT_EQ(floats("model.safetensors", "model.layers.1.mlp.moe_statics.e_score_correction_bias"),
            std::vector<float>(2));
}

TEST_F(ExportTest, RoundsToBf16LikeTheTrainer) {
  const ModelShape shape = small_shape("mixtral");
  save(shape);
  ASSERT_TRUE(write(plan_export(shape, ExportFormat::kMixtral, ElementType::kBf16).value()).ok());
  const std::vector<float> gate = master("layer.1.gate");
  const std::string bytes =
      tensor("model.safetensors", "model.layers.1.block_sparse_moe.gate.weight");
  ASSERT_EQ(bytes.size(), 2 * 64 * sizeof(uint16_t));
  for (size_t i = 0; i < 2 * 64; ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, &bytes[i * sizeof(bits)], sizeof(bits));
    ASSERT_EQ(bits, bf16_from_float(gate[i])) << i;
  }
}

TEST_F(ExportTest, NarrowMastersAreWidened) {
  const ModelShape shape = small_shape("mixtral");
  for (const ElementType type : {ElementType::kBf16, ElementType::kFp16, ElementType::kFp8}) {
    state_.state_types[0] = type;
    state_.compute_type = type;
    save(shape);
    out_ = folder_.at(absl::StrCat("model-", to_string(type)));
    ASSERT_TRUE(write(plan_export(shape, ExportFormat::kMixtral, ElementType::kFp32).value()).ok());
    const std::vector<float> gate = master("layer.1.gate");
    const std::vector<float> exported =
        floats("model.safetensors", "model.layers.1.block_sparse_moe.gate.weight");
    EXPECT_EQ(exported, std::vector<float>(gate.begin(), gate.begin() + std::ssize(exported)))
        << to_string(type);
  }
}

TEST_F(ExportTest, LargeModelsAreDealtToFiles) {
  const ModelShape shape = small_shape("mixtral");
  save(shape);
  const ExportPlan plan = plan_export(shape, ExportFormat::kMixtral, ElementType::kFp32).value();
  const int64_t limit = 40'000;  // two matrices of 64 x 64
  const auto summary = write(plan, {.file_bytes_max = limit});
  ASSERT_TRUE(summary.ok()) << summary.status();
  const auto index = nlohmann::json::parse(
      read_file(real_files(), join_path(out_, "model.safetensors.index.json"), 1 << 20).value());
  EXPECT_EQ(index["metadata"]["total_size"], summary->bytes);
  size_t tensors = 0;
  for (const ExportOperator& op : plan.operators) {
    for (const ExportTensor& exported : op.tensors) {
      const std::string file = index["weight_map"].at(exported.name);
      EXPECT_EQ(tensor(file, exported.name).size(), static_cast<size_t>(exported.numel()) * 4);
      ++tensors;
    }
  }
  EXPECT_EQ(index["weight_map"].size(), tensors);
  for (const std::string& file : summary->weight_files) {
    EXPECT_THAT(file, HasSubstr(absl::StrCat("-of-000", summary->weight_files.size())));
    EXPECT_LT(real_files().file_size(join_path(out_, file)).value(), limit + 4096);
  }
}

TEST_F(ExportTest, RefusesOperatorsOfAnotherModel) {
  ModelShape shape = small_shape("mixtral");
  save(shape);
  shape.layers = 3;
  const auto result = write(plan_export(shape, ExportFormat::kMixtral, ElementType::kFp32).value());
  EXPECT_EQ(exit_code(result.status()), 1);
  EXPECT_THAT(
      std::string(result.status().message()),
      HasSubstr("its operators are not those of its configuration: layer.2.block is missing"));
  EXPECT_FALSE(real_files().exists(out_));
}

// Whatever fails: no folder under the final name unless it is complete, no leftovers, and the next
// export works.
TEST_F(ExportTest, AFailureAtAnyFileOperationLeavesNothingHalf) {
  const ModelShape shape = small_shape("mixtral");
  save(shape);
  const ExportPlan plan = plan_export(shape, ExportFormat::kMixtral, ElementType::kFp32).value();
  FaultyFiles healthy(real_files(), {});
  ASSERT_TRUE(write(plan, {.file_bytes_max = 200'000}, healthy).ok());
  const std::vector<std::string> complete = real_files().list(out_).value();
  const int64_t operations = healthy.operation_count();
  ASSERT_GT(operations, 20);
  for (int64_t at = 0; at < operations; ++at) {
    ASSERT_TRUE(remove_tree(real_files(), out_).ok());
    FaultyFiles files(real_files(), {.fault = FileFault::kNoSpace, .first = at, .last = at});
    const auto result = write(plan, {.file_bytes_max = 200'000}, files);
    if (files.fault_count() == 0) continue;
    EXPECT_FALSE(result.ok()) << "operation " << at;
    EXPECT_FALSE(real_files().exists(out_ + ".exporting")) << "operation " << at;
    if (real_files().exists(out_)) {
      EXPECT_EQ(real_files().list(out_).value(), complete) << "operation " << at;
    }
  }
}

TEST_F(ExportTest, ReplacesWhatAKilledExportLeft) {
  const ModelShape shape = small_shape("mixtral");
  save(shape);
  ASSERT_TRUE(real_files().create_directories(out_ + ".exporting").ok());
  ASSERT_TRUE(
      write_file_synced(real_files(), out_ + ".exporting/model-00001-of-00009.safetensors", "x")
          .ok());
  ASSERT_TRUE(real_files().create_directories(out_).ok());  // an empty folder may be filled
  ASSERT_TRUE(write(plan_export(shape, ExportFormat::kMixtral, ElementType::kFp32).value()).ok());
  EXPECT_EQ(real_files().list(out_)->size(), 3u);
  EXPECT_FALSE(real_files().exists(out_ + ".exporting"));
}

}  // namespace
}  // namespace evermoe
