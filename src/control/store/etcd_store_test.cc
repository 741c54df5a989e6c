// The election of a host in real etcd servers, which are killed, stopped and restarted.
#include "control/store/etcd_store.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "control/store/host_campaign.h"
#include "data/folder_testing.h"
#include "env/process.h"

namespace evermoe {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(60);
constexpr absl::Duration kTimeout = absl::Seconds(1);

// Below those that the kernel gives to whoever calls (ip_local_port_range): it stays free while a
// server is started again.
int free_port() {
  std::random_device dice;
  for (;;) {
    const int port = std::uniform_int_distribution(10'000, 32'767)(dice);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    ::close(fd);
    if (is_free) return port;
  }
}

template <typename Condition>
bool wait_for(Condition condition) {
  const absl::Duration end = real_clock().now() + kDeadline;
  while (!condition()) {
    if (real_clock().now() > end) return false;
    real_clock().sleep_until(real_clock().now() + absl::Milliseconds(10));
  }
  return true;
}

// An authority and a certificate that it signed, for 127.0.0.1; by openssl, as an administrator
// makes them.
class Certificates {
 public:
  Certificates() {
    openssl({"-keyout", path("authority.key"), "-out", path("authority.pem"), "-subj",
             "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE"});
    openssl({"-CA", path("authority.pem"), "-CAkey", path("authority.key"), "-keyout", path("key"),
             "-out", path("certificate"), "-subj", "/CN=store", "-addext",
             "basicConstraints=CA:FALSE", "-addext", "subjectAltName=IP:127.0.0.1", "-addext",
             "extendedKeyUsage=serverAuth,clientAuth"});
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::vector<std::string> flags() const {
    return {"--cert-file",       path("certificate"),   "--key-file",        path("key"),
            "--trusted-ca-file", path("authority.pem"), "--client-cert-auth"};
  }
  ControlConfig shown_to(const std::string& store) const {
    return {.store = store,
            .store_authority = path("authority.pem"),
            .store_certificate = path("certificate"),
            .store_key = path("key")};
  }

 private:
  static void openssl(std::vector<std::string> arguments) {
    SpawnOptions options;
    options.program = EVERMOE_OPENSSL;
    options.arguments = {"req",   "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                         "-days", "2",     "-nodes"};
    options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
    const auto process = spawn(options);
    CHECK_OK(process.status());
    const auto exit = (*process)->wait(kDeadline);
    CHECK(exit.ok() && exit->ok()) << "openssl " << absl::StrJoin(arguments, " ");
  }

  TestFolder folder_;
};

// So many members of one cluster.
class Servers {
 public:
  explicit Servers(int count, const Certificates* certificates = nullptr)
      : certificates_(certificates) {
    std::vector<std::string> cluster;
    for (int i = 0; i < count; ++i) {
      clients_.push_back(absl::StrCat("127.0.0.1:", free_port()));
      peers_.push_back(absl::StrCat("http://127.0.0.1:", free_port()));
      cluster.push_back(absl::StrCat("m", i, "=", peers_.back()));
    }
    cluster_ = absl::StrJoin(cluster, ",");
    processes_.resize(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) start(i);
  }

  void start(int i) {
    const auto at = static_cast<size_t>(i);
    const std::string client =
        absl::StrCat(certificates_ == nullptr ? "http://" : "https://", clients_[at]);
    SpawnOptions options;
    options.program = EVERMOE_ETCD;
    options.arguments = {"--name",
                         absl::StrCat("m", i),
                         "--data-dir",
                         folder_.path(absl::StrCat("m", i)),
                         "--listen-client-urls",
                         client,
                         "--advertise-client-urls",
                         client,
                         "--listen-peer-urls",
                         peers_[at],
                         "--initial-advertise-peer-urls",
                         peers_[at],
                         "--initial-cluster",
                         cluster_,
                         "--log-level",
                         "panic"};
    if (certificates_ != nullptr) {
      const std::vector<std::string> flags = certificates_->flags();
      options.arguments.insert(options.arguments.end(), flags.begin(), flags.end());
    }
    options.parent_death_signal = SIGKILL;
    auto process = spawn(options);
    ASSERT_TRUE(process.ok()) << process.status();
    processes_[at] = *std::move(process);
  }
  void kill(int i) { processes_[static_cast<size_t>(i)].reset(); }
  void signal(int i, int number) {
    ASSERT_TRUE(processes_[static_cast<size_t>(i)]->kill(number).ok());
  }
  ControlConfig config() const {
    const std::string members = absl::StrJoin(clients_, ",");
    return certificates_ == nullptr ? ControlConfig{.store = "etcd://" + members}
                                    : certificates_->shown_to("etcds://" + members);
  }
  std::unique_ptr<HostStore> open(const std::string& key = "test/host") const {
    auto opened = open_etcd_store(config(), key);
    CHECK(opened.ok()) << opened.status().ToString();
    return *std::move(opened);
  }
  // With a first answer.
  std::unique_ptr<HostStore> ready() const {
    auto store = open();
    EXPECT_TRUE(wait_for([&] { return store->holder(kTimeout).ok(); })) << "etcd does not come up";
    return store;
  }

 private:
  const Certificates* const certificates_;  // null: without TLS
  TestFolder folder_;
  std::vector<std::string> clients_, peers_;
  std::string cluster_;
  std::vector<std::unique_ptr<ChildProcess>> processes_;
};

TEST(EtcdStore, WhatIsNoStoreIsRefused) {
  for (const char* const text :
       {"", "h:1", "etcd://", "etcd://h", "etcd://h:", "etcd://:1", "etcd://h:1/x", "http://h:1"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(open_etcd_store({.store = text}, "s").status())) << text;
  }
}

TEST(EtcdStore, NobodyThereIsAnErrorInTime) {
  const auto store =
      open_etcd_store({.store = absl::StrCat("etcd://127.0.0.1:", free_port())}, "s").value();
  const absl::Duration began = real_clock().now();
  EXPECT_TRUE(absl::IsDeadlineExceeded(store->holder(kTimeout).status()));
  EXPECT_LT(real_clock().now() - began, absl::Seconds(10));
}

TEST(EtcdStore, OneIsElectedUntilItsLeaseIsOver) {
  const Servers servers(1);
  const auto store = servers.ready();
  EXPECT_FALSE(store->holder(kTimeout).value().has_value());
  const LeaseNumber first = store->grant(absl::Seconds(30), kTimeout).value();
  const LeaseNumber second = store->grant(absl::Seconds(30), kTimeout).value();
  EXPECT_NE(first, second);
  EXPECT_EQ(store->claim(first, "a:1", kTimeout)->lease, first);
  EXPECT_EQ(store->claim(first, "a:1", kTimeout)->lease, first) << "asked again";
  EXPECT_EQ(store->claim(second, "b:1", kTimeout)->address, "a:1");
  EXPECT_EQ(store->holder(kTimeout).value()->address, "a:1");
  EXPECT_FALSE(servers.open("test/another")->holder(kTimeout).value().has_value());
  EXPECT_TRUE(store->keep_alive(first, kTimeout).ok());
  EXPECT_TRUE(store->revoke(first, kTimeout).ok());
  EXPECT_TRUE(absl::IsNotFound(store->keep_alive(first, kTimeout)));
  EXPECT_TRUE(absl::IsNotFound(store->revoke(first, kTimeout)));
  EXPECT_EQ(store->claim(second, "b:1", kTimeout)->lease, second);
  EXPECT_EQ(store->claim(first, "a:1", kTimeout)->lease, second);
  EXPECT_TRUE(store->revoke(second, kTimeout).ok());
  EXPECT_TRUE(absl::IsNotFound(store->claim(first, "a:1", kTimeout).status()));
}

TEST(EtcdStore, WithTlsBothEndsProveWhoTheyAre) {
  const Certificates ours, others;
  const Servers servers(1, &ours);
  const auto store = servers.ready();
  const LeaseNumber lease = store->grant(absl::Seconds(30), kTimeout).value();
  EXPECT_EQ(store->claim(lease, "a:1", kTimeout)->lease, lease);
  EXPECT_TRUE(store->keep_alive(lease, kTimeout).ok());

  const auto is_refused = [&](const ControlConfig& config) {
    const auto opened = open_etcd_store(config, "test/host");
    return opened.ok() && absl::IsDeadlineExceeded((*opened)->holder(kTimeout).status());
  };
  const ControlConfig right = servers.config();
  ControlConfig wrong = others.shown_to(right.store);
  EXPECT_TRUE(is_refused(wrong)) << "neither knows the other's authority";
  wrong.store_authority = right.store_authority;
  EXPECT_TRUE(is_refused(wrong)) << "a stranger calls";
  wrong = right;
  wrong.store_certificate = wrong.store_key = "";
  EXPECT_TRUE(is_refused(wrong)) << "nobody says who calls";
  wrong = right;
  wrong.store_authority = others.path("authority.pem");
  EXPECT_TRUE(is_refused(wrong)) << "a stranger answers";
  wrong = {.store = absl::StrCat("etcd://", right.store.substr(std::strlen("etcds://")))};
  EXPECT_TRUE(is_refused(wrong)) << "without TLS";
}

TEST(EtcdStore, FilesThatAreNoneAreNamed) {
  const TestFolder folder;
  const auto opened =
      open_etcd_store({.store = "etcds://h:1", .store_authority = folder.path("missing.pem")}, "s");
  EXPECT_TRUE(absl::IsInvalidArgument(opened.status()));
  EXPECT_NE(opened.status().message().find("control.store_authority: "), std::string::npos);
  EXPECT_NE(opened.status().message().find("missing.pem"), std::string::npos);
}

// ---- campaigns

class Candidate {
 public:
  Candidate(const Servers& servers, const std::string& address, std::atomic<int>& hosts)
      : store_(servers.open()), hosts_(hosts) {
    ElectionOptions options;
    options.address = address;
    options.ttl = absl::Seconds(3);
    CampaignEvents events;
    events.on_won = [this] {
      EXPECT_EQ(hosts_++, 0) << "two hosts at once";
      is_host_ = true;
    };
    events.on_lost = [this](const std::string&) {
      --hosts_;
      is_host_ = false;
    };
    events.on_host = [this](const std::string& address) {
      EXPECT_FALSE(address.empty() && is_host_) << "its agent hears of it before it has to end";
    };
    campaign_.emplace(*store_, options, real_clock(), std::move(events));
  }
  bool is_host() const { return is_host_; }

 private:
  const std::unique_ptr<HostStore> store_;
  std::atomic<int>& hosts_;
  std::atomic<bool> is_host_ = false;
  std::optional<HostCampaign> campaign_;
};

TEST(EtcdCampaign, TheNextOneWinsWhenTheHostLeaves) {
  const Servers servers(1);
  servers.ready();
  std::atomic<int> hosts = 0;
  auto first = std::make_unique<Candidate>(servers, "a:1", hosts);
  ASSERT_TRUE(wait_for([&] { return first->is_host(); }));
  Candidate second(servers, "b:1", hosts);
  first.reset();
  EXPECT_TRUE(wait_for([&] { return second.is_host(); }));
}

TEST(EtcdCampaign, AHostWithoutItsStoreResignsAndSomebodyWinsWhenItIsBack) {
  Servers servers(1);
  servers.ready();
  std::atomic<int> hosts = 0;
  const Candidate first(servers, "a:1", hosts), second(servers, "b:1", hosts);
  ASSERT_TRUE(wait_for([&] { return hosts == 1; }));
  for (const bool is_killed : {true, false}) {
    is_killed ? servers.kill(0) : servers.signal(0, SIGSTOP);
    EXPECT_TRUE(wait_for([&] { return hosts == 0; })) << "nobody may go on without a lease";
    is_killed ? servers.start(0) : servers.signal(0, SIGCONT);
    EXPECT_TRUE(wait_for([&] { return hosts == 1; }));
  }
}

TEST(EtcdCampaign, OneLostMemberOfThreeCostsNoHost) {
  Servers servers(3);
  servers.ready();
  std::atomic<int> hosts = 0;
  const Candidate first(servers, "a:1", hosts), second(servers, "b:1", hosts);
  ASSERT_TRUE(wait_for([&] { return hosts == 1; }));
  for (int i = 0; i < 3; ++i) {
    servers.kill(i);
    real_clock().sleep_until(real_clock().now() + absl::Seconds(4));  // longer than a lease
    EXPECT_TRUE(wait_for([&] { return hosts == 1; })) << "without member " << i;
    servers.start(i);
    servers.ready();
  }
}

}  // namespace
}  // namespace evermoe
