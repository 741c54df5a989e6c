#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>

#include "planner/cluster_model/gpu_catalog.h"
#include "planner/report/csv_table.h"

namespace evermoe {
namespace {

TEST(GpuCatalogTest, NamesAndUnknownOnes) {
  for (const std::string& name : gpu_names()) {
    const auto gpu = gpu_spec(name);
    ASSERT_TRUE(gpu.ok());
    EXPECT_GT(gpu->flops, 1e14);
    EXPECT_GT(gpu->fabric_bytes_per_second, gpu->host_bytes_per_second);
  }
  EXPECT_EQ(gpu_spec("A100").status().message().substr(0, 30), "no GPU \"A100\", allowed: V100-3");
}

TEST(GpuCatalogTest, GroupedProductsByTheRecordedTable) {
  std::ifstream file(std::string(EVERMOE_SOURCE_DIR) + "/data/planner/grouped-gemm-efficiency.csv");
  std::stringstream text;
  text << file.rdbuf();
  const auto table = CsvTable::parse(text.str(), "grouped-gemm-efficiency.csv");
  ASSERT_TRUE(table.ok());
  for (int i = 0; i < table->rows(); ++i) {
    CsvTable::Row row = table->row(i);
    const double tokens = row.number("tokens_per_expert");
    EXPECT_NEAR(grouped_product_share(tokens), row.number("default") / 0.7, 1e-9) << tokens;
  }
  EXPECT_NEAR(grouped_product_share(std::sqrt(64 * 128)), 0.275 / 0.7, 1e-9);
}

}  // namespace
}  // namespace evermoe
