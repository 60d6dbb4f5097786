#include "lacuna/store/zarr/read_at.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lacuna/core/error.h"

namespace lacuna {

OpenFile::OpenFile(const fs::path& path) : path_(path) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd_ < 0) throw_errno(path.string(), "cannot open");
  struct stat info = {};
  const bool is_regular = ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  if (!is_regular) {
    ::close(fd_);
    throw Error("{}: not a regular file", path.string());
  }
  bytes_ = uint64_t(info.st_size);
}

OpenFile::~OpenFile() {
  if (fd_ >= 0) ::close(fd_);
}

OpenFile::OpenFile(OpenFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      bytes_(std::exchange(other.bytes_, 0)) {}

OpenFile& OpenFile::operator=(OpenFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void OpenFile::expect_random_reads() const { ::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM); }

void OpenFile::read(uint64_t place, std::span<std::byte> out) const {
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = ::pread(fd_, out.data() + done, out.size() - done, off_t(place + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(path_.string(), "cannot read");
    if (got == 0)
      throw Error("{}: truncated: {} bytes from byte {} on, {} expected; copy it again",
                  path_.string(), done, place, out.size());
    done += size_t(got);
  }
}

std::vector<ShardEntry> read_shard_index(const ZarrMetadata& metadata, const OpenFile& shard) {
  const uint64_t bytes = metadata.index_bytes();
  if (shard.bytes() < bytes)
    throw Error("{}: truncated: {} bytes, its index alone has {}; copy it again",
                shard.path().string(), shard.bytes(), bytes);
  std::vector<std::byte> index(bytes);
  shard.read(metadata.is_index_first ? 0 : shard.bytes() - bytes, index);
  try {
    return parse_shard_index(metadata, index, shard.bytes());
  } catch (const Error& error) {
    throw Error("{}: {}; it was damaged or cut short: copy it again", shard.path().string(),
                error.what());
  }
}

void fill_with(std::span<const std::byte> element, std::span<std::byte> out) {
  const bool is_zero = std::ranges::all_of(element, [](std::byte b) { return b == std::byte(0); });
  if (is_zero) {
    std::ranges::fill(out, std::byte(0));
    return;
  }
  for (size_t at = 0; at + element.size() <= out.size(); at += element.size())
    std::memcpy(out.data() + at, element.data(), element.size());
}

}  // namespace lacuna
