#include "control/hosting/may_host_later.h"

#include <gtest/gtest.h>

namespace evermoe {
namespace {

TEST(MayHostLater, OnlyWhereTheJobGoesOnAndNobodyHasToChangeAnything) {
  const absl::Status full = absl::ResourceExhaustedError("no space");
  EXPECT_TRUE(may_host_later(full, true, false));
  EXPECT_TRUE(may_host_later(absl::InternalError("stale handle"), true, false));
  EXPECT_FALSE(may_host_later(full, false, false)) << "at the start people have to know";
  EXPECT_FALSE(may_host_later(absl::InvalidArgumentError("another model"), true, false));
  EXPECT_TRUE(may_host_later(absl::InvalidArgumentError("cannot be written"), true, true))
      << "the workers were started with it";
  EXPECT_FALSE(may_host_later(Hopeless("recomputed bits differ"), true, true));
  EXPECT_FALSE(may_host_later(absl::OkStatus(), true, true));
}

}  // namespace
}  // namespace evermoe
