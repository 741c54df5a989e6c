#include "cli/commands/node_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands/host_list.h"
#include "cli/commands/host_list_fuzz_entry.h"

namespace evermoe {
namespace {

using ::testing::HasSubstr;

// ---- lists of hosts

std::string hosts(const std::string& list) {
  const auto all = expand_host_list(list);
  return all.ok() ? absl::StrJoin(*all, " ") : std::string(all.status().message());
}

TEST(HostList, ExpandsWhatSlurmWrites) {
  EXPECT_EQ(hosts("login1"), "login1");
  EXPECT_EQ(hosts("gpu[001-003,7],login1"), "gpu001 gpu002 gpu003 gpu7 login1");
  EXPECT_EQ(hosts("rack[0-1]node[2-3]"), "rack0node2 rack0node3 rack1node2 rack1node3");
  EXPECT_EQ(hosts("a[9-11].example"), "a9.example a10.example a11.example");
  EXPECT_EQ(hosts("a[08-10],b"), "a08 a09 a10 b");
  EXPECT_EQ(hosts("10.0.0.[1-2]"), "10.0.0.1 10.0.0.2");
}

TEST(HostList, RefusesWhatIsNone) {
  for (const char* list : {"", ",", "a,,b", "a[1-2", "a1]", "a[[1]]", "a]1[", "a[]", "a[2-1]",
                           "a[x]", "a[1-2-3]", "a[-1]", "a[1,]", "a[9999999999]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(expand_host_list(list).status())) << list;
  }
  EXPECT_THAT(hosts("a[2-1]"), HasSubstr("'2-1' is no range of numbers"));
}

TEST(HostList, HasALimit) {
  EXPECT_EQ(expand_host_list("a[0-65535]")->size(), kHostsMax);
  EXPECT_THAT(hosts("a[0-65536]"), HasSubstr("too many hosts"));
  EXPECT_THAT(hosts("a[0-999][0-999][0-999][0-999]"), HasSubstr("too many hosts"));
  EXPECT_THAT(hosts("a[0-999999999]"), HasSubstr("too many hosts"));
  EXPECT_THAT(hosts("a[0-40000],b[0-40000]"), HasSubstr("too many hosts"));
}

TEST(HostList, ArbitraryBytesAreExpandedOrRefused) {
  std::mt19937 random(7);
  const std::string letters = "a0123459[]-,,x";
  for (int trial = 0; trial < 20'000; ++trial) {
    std::string list(random() % 16, ' ');
    for (char& c : list) c = letters[random() % letters.size()];
    fuzz_host_list(reinterpret_cast<const uint8_t*>(list.data()), list.size());
  }
}

// ---- launchers

using Variables = std::map<std::string, std::string>;

NodePlace place_of(const Variables& variables, const std::string& host = "here",
                   NodePlace place = {}) {
  const absl::Status status = complete_from(
      [&](const char* name) {
        const auto found = variables.find(name);
        return found == variables.end() ? "" : found->second;
      },
      host, place);
  EXPECT_TRUE(status.ok()) << status;
  return place;
}
std::string refusal(const Variables& variables, NodePlace place = {}) {
  return std::string(complete_from(
                         [&](const char* name) {
                           const auto found = variables.find(name);
                           return found == variables.end() ? "" : found->second;
                         },
                         "here", place)
                         .message());
}
void expect_place(const NodePlace& place, int node, int nodes, const std::string& join) {
  EXPECT_EQ(place.node, node);
  EXPECT_EQ(place.nodes, nodes);
  EXPECT_EQ(place.join, join);
  EXPECT_EQ(place.listen, join);
}

const Variables kSlurm = {{"SLURM_NODEID", "2"},
                          {"SLURM_PROCID", "2"},
                          {"SLURM_NNODES", "4"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_STEP_NUM_NODES", "3"},
                          {"SLURM_STEP_NUM_TASKS", "3"},
                          {"SLURM_JOB_NODELIST", "gpu[01-04]"}};

TEST(NodeEnvironment, Slurm) {
  expect_place(place_of(kSlurm), 2, 3, "gpu01:29600");
  Variables step = kSlurm;
  step["SLURM_STEP_NODELIST"] = "gpu[02-04]";
  step["MASTER_PORT"] = "7000";
  expect_place(place_of(step), 2, 3, "gpu02:7000");
  step["MASTER_ADDR"] = "10.0.0.9";
  expect_place(place_of(step), 2, 3, "10.0.0.9:7000");
}

TEST(NodeEnvironment, SeveralTasksOfSlurmOnAMachineAreRefused) {
  Variables two = kSlurm;
  two["SLURM_STEP_NUM_TASKS"] = "6";
  EXPECT_EQ(refusal(two),
            "node: Slurm has started 6 tasks on 3 machines, allowed: one on each "
            "(srun --ntasks-per-node=1)");
}

TEST(NodeEnvironment, MpirunOnManyMachinesOrOne) {
  Variables mpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                   {"OMPI_COMM_WORLD_SIZE", "2"},
                   {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                   {"PMIX_RANK", "1"}};
  expect_place(place_of(mpi), 1, 2, "127.0.0.1:29600");
  mpi["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  EXPECT_THAT(refusal(mpi), HasSubstr("no --join HOST:PORT"));
  // Its daemons are tasks of Slurm, and so are their numbers.
  mpi.insert(kSlurm.begin(), kSlurm.end());
  expect_place(place_of(mpi), 1, 2, "gpu01:29600");
}

TEST(NodeEnvironment, TorchrunsAgentHasThePortItself) {
  expect_place(place_of({{"RANK", "3"},
                         {"WORLD_SIZE", "4"},
                         {"GROUP_RANK", "3"},
                         {"GROUP_WORLD_SIZE", "4"},
                         {"MASTER_ADDR", "h"},
                         {"MASTER_PORT", "29500"},
                         {"TORCHELASTIC_RUN_ID", "x"}}),
               3, 4, "h:29501");
}

TEST(NodeEnvironment, Kubernetes) {
  NodePlace place;
  place.nodes = 5;
  place.join = "evermoe-0.evermoe:29600";
  expect_place(place_of({{"JOB_COMPLETION_INDEX", "4"}}, "evermoe-4-x7x", place), 4, 5, place.join);
  const Variables pod = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"}};
  expect_place(place_of(pod, "evermoe-3.evermoe.default.svc", place), 3, 5, place.join);
}

TEST(NodeEnvironment, SaysWhatIsMissing) {
  EXPECT_THAT(refusal({}), HasSubstr("no --node (RANK, OMPI_COMM_WORLD_RANK, SLURM_NODEID"));
  NodePlace place;
  place.node = 1;
  EXPECT_THAT(refusal({}, place), HasSubstr("no --nodes (WORLD_SIZE"));
  place.nodes = 2;
  EXPECT_THAT(refusal({}, place), HasSubstr("no --join HOST:PORT"));
  EXPECT_THAT(refusal({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "many"}}, place),
              HasSubstr("MASTER_PORT is 'many'"));
  EXPECT_THAT(refusal({{"MASTER_ADDR", "h"}, {"MASTER_PORT", "99999"}}, place),
              HasSubstr("MASTER_PORT): found \"h:99999\", allowed: HOST:PORT"));
  place.nodes = 1;
  EXPECT_THAT(refusal({}, place), HasSubstr("--node: found 1, allowed: integer from 0 to 0"));
  NodePlace newcomer = place;
  newcomer.may_come_later = true;
  newcomer.join = newcomer.listen = "h:1";
  EXPECT_EQ(refusal({}, newcomer), "") << "an elastic job has room for more";
  place.node = 0;
  EXPECT_EQ(refusal({}, place), "") << "one node needs nobody";
}

TEST(NodeEnvironment, AddressesAreHostAndPort) {
  for (const char* good : {"h:1", "10.0.0.9:65535", "[::1]:29600"})
    EXPECT_TRUE(check_address("--listen", good).ok()) << good;
  for (const char* bad : {"", "h", ":1", "h:", "h:0", "h:-5", "h:65536", "h:many"})
    EXPECT_TRUE(absl::IsInvalidArgument(check_address("--listen", bad))) << bad;
}

}  // namespace
}  // namespace evermoe
