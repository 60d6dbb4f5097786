// What all fuzz targets share. A target is one file: it hands the bytes it is given to a reader.
//
//   extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
//     static const MemoryFile file;
//     file.write({data, size});
//     return try_reading([&] { use(read_npy(file.path())); });
//   }
//
// An Error is a reader's right answer to bad bytes. Anything else that leaves a target is a
// finding: another exception, a failed LACUNA_ASSERT, what the sanitizers see, a hang, gigabytes.
//
// `make fuzz` builds targets with clang's libFuzzer, which looks for new paths through the code;
// `make test` builds the same files with replay.cpp, which feeds them the kept inputs of
// fuzz/corpus/<target>/.
#pragma once

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "lacuna/core/array.h"
#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/file.h"

namespace lacuna::fuzz {

// True when read() came to its end, false when it threw an Error.
template <class Read>
bool reads(Read&& read) {
  try {
    read();
    return true;
  } catch (const Error&) {
    return false;
  }
}
// The same as the value that a target returns.
template <class Read>
int try_reading(Read&& read) {
  reads(read);
  return 0;
}

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Reads every byte, so that the sanitizers see one that is not there.
inline void touch(std::span<const std::byte> bytes) {
  [[maybe_unused]] static volatile uint64_t seen;
  seen = hash64(bytes);
}
inline void touch(const Array& array) { touch(array.bytes()); }

// `whole` with changes: of three bytes each, two say where (modulo its size), the third what the
// byte there is xored with.
inline std::string patched(std::string whole, const uint8_t* data, size_t size) {
  for (size_t at = 0; at + 3 <= size && !whole.empty(); at += 3)
    whole[(data[at] + 256u * data[at + 1]) % whole.size()] ^= char(data[at + 2]);
  return whole;
}

// A file without a disk.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    if (fd_ < 0) throw_errno("memfd", "cannot create");
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void write(std::string_view bytes) const {
    if (::ftruncate(fd_, 0) != 0) throw_errno("memfd", "cannot empty");
    write_at(fd_, std::as_bytes(std::span(bytes)), 0, "memfd");
  }
  fs::path path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

// A directory in memory, gone with the process.
class MemoryDirectory {
 public:
  MemoryDirectory() {
    const fs::path shared = "/dev/shm";
    const fs::path parent =
        ::access(shared.c_str(), W_OK) == 0 ? shared : fs::temp_directory_path();
    std::string name = (parent / "lacuna-fuzz-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw_errno(name, "cannot create");
    path_ = name;
  }
  ~MemoryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  MemoryDirectory(const MemoryDirectory&) = delete;
  MemoryDirectory& operator=(const MemoryDirectory&) = delete;

  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

// Without a flush to the disk.
inline void write_file(const fs::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) throw_errno(path.string(), "cannot write");
}

}  // namespace lacuna::fuzz
