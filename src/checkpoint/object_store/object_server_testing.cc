#include "checkpoint/object_store/object_server_testing.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "env/clock.h"
#include "env/files.h"

namespace evermoe {
namespace {

constexpr int kServerPorts = 5;
constexpr absl::Duration kStartMax = absl::Seconds(120);

bool is_free(int port) {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool bound =
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  ::close(socket);
  return bound;
}

// That and the ones above it, below those that the system hands out.
int free_ports() {
  std::random_device random;
  for (int tries = 0; tries < 1000; ++tries) {
    const int first = 15'000 + static_cast<int>(random() % 15'000);
    bool all = true;
    for (int i = 0; i < kServerPorts && all; ++i) all = is_free(first + i);
    if (all) return first;
  }
  CHECK(false) << "no free ports";
  __builtin_unreachable();
}

}  // namespace

ObjectServer::ObjectServer(const std::string& folder) : folder_(folder), port_(free_ports()) {
  CHECK_OK(real_files().create_directories(folder_));
  start();
  const S3Options made = options();
  const auto client = HttpClient::create(made.http).value();
  const std::string nothing =
      "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  const absl::Duration deadline = real_clock().now() + kStartMax;
  while (true) {
    const auto answer =
        client->send({"PUT", absl::StrCat(made.endpoint, "/", bucket_), {nothing}, {}});
    // 409: it was made before, and objects could not be put into it yet.
    has_bucket_ = answer.ok() && (answer->status / 100 == 2 || answer->status == 409);
    if (has_bucket_ && open("probe")->put("up", {}).ok()) return;
    const bool may_follow =
        has_bucket_ || !answer.ok() || answer->status == 503;  // its servers are still starting
    CHECK(may_follow && real_clock().now() < deadline)
        << (answer.ok() ? answer->body : std::string(answer.status().message()));
    real_clock().sleep_until(real_clock().now() + absl::Milliseconds(100));
  }
}

ObjectServer::~ObjectServer() { kill(); }

void ObjectServer::start() {
  SpawnOptions spawned;
  spawned.program = "/usr/bin/python3";
  spawned.arguments = {EVERMOE_SOURCE_DIR "/tests/object_server/swift_server.py", folder_,
                       absl::StrCat(port_)};
  spawned.own_group = true;
  spawned.parent_death_signal = SIGTERM;
  auto process = spawn(spawned);
  CHECK_OK(process.status());
  process_ = *std::move(process);
  const auto client = HttpClient::create({}).value();
  const absl::Duration deadline = real_clock().now() + kStartMax;
  const std::string question = absl::StrCat("http://127.0.0.1:", port_, "/healthcheck");
  while (true) {
    const auto answer = client->send({"GET", question, {}, {}});
    // The servers behind it come up by themselves; until then it may say that there is no bucket,
    // and in the beginning there is none.
    if (answer.ok() && answer->status == 200) {
      const absl::Status put = open("probe")->put("up", {});
      if (put.ok() || (!has_bucket_ && absl::IsInvalidArgument(put))) return;
    }
    CHECK(real_clock().now() < deadline) << "the server of objects does not start: " << folder_;
    real_clock().sleep_until(real_clock().now() + absl::Milliseconds(100));
  }
}

void ObjectServer::kill() {
  if (!process_) return;
  (void)process_->kill_group(SIGKILL);
  (void)process_->wait(absl::Seconds(10));
  process_.reset();
}

S3Options ObjectServer::options() const {
  S3Options options;
  options.endpoint = absl::StrCat("http://127.0.0.1:", port_);
  options.http.signer = {"test:tester", "testing", "", "us-east-1"};
  options.part_bytes = 1 << 20;
  return options;
}

std::unique_ptr<ObjectStore> ObjectServer::open(const std::string& prefix) const {
  auto store = open_s3_store(url(prefix), options());
  CHECK_OK(store.status());
  return *std::move(store);
}

std::vector<std::pair<std::string, std::string>> ObjectServer::environment() const {
  const S3Options made = options();
  return {{"AWS_ENDPOINT_URL", made.endpoint},
          {"AWS_ACCESS_KEY_ID", made.http.signer.key},
          {"AWS_SECRET_ACCESS_KEY", made.http.signer.secret},
          {"AWS_REGION", made.http.signer.region}};
}

}  // namespace evermoe
