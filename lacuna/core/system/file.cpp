#include "lacuna/core/system/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "lacuna/core/error.h"
#include "lacuna/core/system/mapped_fault.h"

namespace lacuna {
namespace {

constexpr size_t kBufferBytes = 1 << 20;

class FileDescriptor {
 public:
  // Not blocking: opening a pipe in place of a file would wait for its writer.
  FileDescriptor(const fs::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK)) {
    if (fd_ < 0) throw_errno(path.string(), "cannot open");
  }
  ~FileDescriptor() { ::close(fd_); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

struct stat stat_of(const FileDescriptor& file, const fs::path& path) {
  struct stat info = {};
  if (::fstat(file.get(), &info) != 0) throw_errno(path.string(), "cannot read its size");
  return info;
}

struct Mapping {
  Mapping(const FileDescriptor& file, size_t size, const fs::path& path)
      : bytes(size), address(::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0)) {
    if (address == MAP_FAILED) throw_errno(path.string(), "cannot map into memory");
    range.emplace(address, size, path);
  }
  ~Mapping() {
    range.reset();
    ::munmap(address, bytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  size_t bytes;
  void* address;
  std::optional<MappedRange> range;  // names the file if it is cut short (mapped_fault.h)
};

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  const FileDescriptor file(path, O_RDONLY);
  const struct stat info = stat_of(file, path);
  if (!S_ISREG(info.st_mode)) throw Error("{}: not a regular file", path.string());
  const size_t size = size_t(info.st_size);
  if (size == 0) return;  // an empty file cannot be mapped; it has no bytes
  const auto mapping = std::make_shared<const Mapping>(file, size, path);
  owner_ = std::shared_ptr<const void>(mapping, mapping->address);
  bytes_ = {static_cast<const std::byte*>(mapping->address), size};
}

FileWriter::FileWriter(const fs::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
  if (fd_ < 0) throw_errno(path_.string(), "cannot create");
  buffer_.reserve(kBufferBytes);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(std::span<const std::byte> bytes) {
  LACUNA_ASSERT(fd_ >= 0);
  if (buffer_.size() + bytes.size() > kBufferBytes) flush();
  if (bytes.size() >= kBufferBytes)
    write_at(fd_, bytes, size_, path_);
  else
    buffer_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  size_ += bytes.size();
}

void FileWriter::write_at_start(std::span<const std::byte> bytes) {
  flush();
  write_at(fd_, bytes, 0, path_);
}

void FileWriter::close() {
  flush();
  if (::fsync(fd_) != 0) throw_errno(path_.string(), "cannot flush to the disk");
  if (::close(std::exchange(fd_, -1)) != 0) throw_errno(path_.string(), "cannot close");
}

void FileWriter::flush() {
  write_at(fd_, std::as_bytes(std::span(buffer_)), size_ - buffer_.size(), path_);
  buffer_.clear();
}

AtomicFile::AtomicFile(const fs::path& path) : path_(path), temporary_(path) {
  std::random_device random;
  temporary_ += "." + hex(uint64_t(random()) << 32 | random()) + ".tmp";
}

AtomicFile::~AtomicFile() {
  if (!is_committed_) ::unlink(temporary_.c_str());
}

void AtomicFile::commit() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw_errno(path_.string(), "cannot rename");
  is_committed_ = true;
  sync_directory(path_.parent_path());
}

void write_at(int fd, std::span<const std::byte> bytes, uint64_t place, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), off_t(place));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_errno(path.string(), "cannot write");
    bytes = bytes.subspan(size_t(written));
    place += uint64_t(written);
  }
}

std::string read_text(const fs::path& path) {
  const MappedFile file(path);
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

void write_text_atomically(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  FileWriter writer(file.temporary());
  writer.write(text);
  writer.close();
  file.commit();
}

void sync_directory(const fs::path& directory) {
  const fs::path path = directory.empty() ? fs::path(".") : directory;
  const FileDescriptor file(path, O_RDONLY | O_DIRECTORY);
  if (::fsync(file.get()) != 0) throw_errno(path.string(), "cannot flush to the disk");
}

uint64_t hash_file(const fs::path& path, const std::function<void(uint64_t)>& advance) {
  const FileDescriptor file(path, O_RDONLY);
  const mode_t mode = stat_of(file, path).st_mode;
  if (!S_ISREG(mode) && !S_ISDIR(mode))  // reading a directory says so itself
    throw Error("{}: not a regular file", path.string());
  std::vector<std::byte> buffer(kBufferBytes);
  Hasher hasher;
  uint64_t total = 0;
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(path.string(), "cannot read");
    if (got == 0) return hasher.value();
    hasher.add(std::span(buffer).first(size_t(got)));
    total += uint64_t(got);
    if (advance) advance(total);
  }
}

uint64_t free_disk_bytes(const fs::path& path) {
  struct statvfs info = {};
  if (::statvfs(path.c_str(), &info) != 0) throw_errno(path.string(), "cannot read free space");
  return uint64_t(info.f_bavail) * info.f_frsize;
}

}  // namespace lacuna
