// A place for objects: immutable bytes under names, as S3 has them. An object is there as a whole
// or not at all.
//
// Names are relative to the place ("step-00000060/manifest-0000000001.json") and have only letters,
// digits, ".", "_", "-" and "/".
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "env/files.h"

namespace evermoe {

struct StoredObject {
  std::string name;
  int64_t bytes = 0;
  friend bool operator==(const StoredObject&, const StoredObject&) = default;
};

// Errors name the place. NotFound: no such object; PermissionDenied (the store knows the caller and
// says no, or does not know it); InvalidInput where the place itself is wrong (no such bucket,
// another region's); anything else may be gone when it is asked for again. No call tries twice. One
// thread at a time.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  // For people: "s3://bucket/prefix".
  virtual const std::string& url() const = 0;
  // All whose names begin with `prefix`, by name. NoCapacity if there are more than
  // kStoredObjectsMax.
  virtual absl::StatusOr<std::vector<StoredObject>> list(const std::string& prefix) = 0;
  // Replaces what is there. In one request, so for manifests and the like.
  virtual absl::Status put(const std::string& name, std::span<const std::byte> bytes) = 0;
  // The whole file, however long; in parts if it is longer than one.
  virtual absl::Status put_file(const std::string& name, ReadableFile& file) = 0;
  virtual absl::StatusOr<int64_t> size(const std::string& name) = 0;
  // Fills `into` from `offset` on; Corrupt if there is less.
  virtual absl::Status read(const std::string& name, int64_t offset, std::span<std::byte> into) = 0;
  // One that is not there is ok.
  virtual absl::Status remove(const std::string& name) = 0;
};

inline constexpr size_t kStoredObjectsMax = 1 << 20;

// The whole object as text. NoCapacity if it is longer than `bytes_max`.
absl::StatusOr<std::string> read_object(ObjectStore& store, const std::string& name,
                                        int64_t bytes_max);

}  // namespace evermoe
