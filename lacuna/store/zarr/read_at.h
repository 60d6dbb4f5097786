// A file open for reads at places, each one request, and what Zarr's readers share on top of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lacuna/core/system/file.h"
#include "lacuna/store/zarr/zarr_metadata.h"

namespace lacuna {

class OpenFile {
 public:
  OpenFile() = default;
  explicit OpenFile(const fs::path& path);  // throws Error unless it is a regular file
  ~OpenFile();
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;

  const fs::path& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // of the file when it was opened; 0: none is open
  // The kernel is not to read ahead: what is asked for is all that is wanted.
  void expect_random_reads() const;
  // Fills `out` from this place by one pread, more only where the kernel hands out less. Throws
  // Error for a file that ends before.
  void read(uint64_t place, std::span<std::byte> out) const;

 private:
  fs::path path_;
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

// The index of a shard, checked. Throws Error that names the file.
std::vector<ShardEntry> read_shard_index(const ZarrMetadata& metadata, const OpenFile& shard);
// Repeats one element all over `out`.
void fill_with(std::span<const std::byte> element, std::span<std::byte> out);

}  // namespace lacuna
