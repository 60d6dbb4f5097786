#include "lacuna/store/gzip.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <vector>

#include "lacuna/core/error.h"

namespace lacuna {
namespace {

constexpr size_t kReadBytes = 1 << 18;
constexpr int kGzipOnly = 15 + 16;  // zlib's largest window, in gzip's wrapping
constexpr unsigned char kGzipMagic[] = {0x1f, 0x8b};

}  // namespace

struct GzipFile::State {
  explicit State(const fs::path& file)
      : path(file), fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (fd < 0) throw_errno(path.string(), "cannot open");
  }
  ~State() {
    if (is_gzip) ::inflateEnd(&stream);
    ::close(fd);
  }

  void begin() {
    struct stat info = {};
    if (::fstat(fd, &info) != 0) throw_errno(path.string(), "cannot read its size");
    if (!S_ISREG(info.st_mode)) throw Error("{}: not a regular file", path.string());
    bytes = uint64_t(info.st_size);
    fill(sizeof kGzipMagic);
    if (!starts_with_magic()) return;
    if (::inflateInit2(&stream, kGzipOnly) != Z_OK)
      throw Error("{}: no memory for unpacking it", path.string());
    is_gzip = true;
  }

  std::span<const unsigned char> unread() const {
    return std::span<const unsigned char>(buffer).subspan(used);
  }
  bool starts_with_magic() const {
    return unread().size() >= sizeof kGzipMagic &&
           std::memcmp(unread().data(), kGzipMagic, sizeof kGzipMagic) == 0;
  }
  uint64_t place() const { return taken - unread().size(); }  // in the file, of what is unread

  // Reads from the file until `wanted` bytes are unread; false where it ends before.
  bool fill(size_t wanted) {
    while (unread().size() < wanted) {
      buffer.erase(buffer.begin(), buffer.begin() + ptrdiff_t(used));
      used = 0;
      const size_t had = buffer.size();
      buffer.resize(had + kReadBytes);
      const ssize_t got = ::read(fd, buffer.data() + had, kReadBytes);
      buffer.resize(had + size_t(std::max<ssize_t>(got, 0)));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno(path.string(), "cannot read");
      if (got == 0) return false;
      taken += uint64_t(got);
    }
    return true;
  }

  size_t read(std::span<char> out) {
    size_t done = 0;
    while (done < out.size() && !is_done) {
      const size_t got = is_gzip ? unpack(out.subspan(done)) : copy(out.subspan(done));
      done += got;
    }
    return done;
  }

  size_t copy(std::span<char> out) {
    if (!fill(1)) is_done = true;
    const size_t count = std::min(out.size(), unread().size());
    std::memcpy(out.data(), unread().data(), count);
    used += count;
    return count;
  }

  size_t unpack(std::span<char> out) {
    if (!is_inside && !begin_member()) return 0;
    if (!fill(1))
      throw Error("{}: damaged or cut short: its gzip data have no end; copy it again",
                  path.string());
    const auto in = unread();
    stream.next_in = const_cast<Bytef*>(in.data());
    stream.avail_in = uInt(in.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = uInt(std::min<size_t>(out.size(), UINT_MAX));
    const uInt room = stream.avail_out;
    const int code = ::inflate(&stream, Z_NO_FLUSH);
    used += in.size() - stream.avail_in;
    if (code == Z_STREAM_END)
      is_inside = false;
    else if (code != Z_OK)
      throw Error("{}: damaged or cut short near byte {} ({}); copy it again", path.string(),
                  place(), stream.msg ? stream.msg : ::zError(code));
    return room - stream.avail_out;
  }

  // To the next gzip file in this one; false after the last.
  bool begin_member() {
    fill(sizeof kGzipMagic);
    if (!starts_with_magic()) {
      check_padding();
      is_done = true;
      return false;
    }
    ::inflateReset(&stream);
    return is_inside = true;
  }

  void check_padding() {
    for (; fill(1); used = buffer.size()) {
      const auto rest = unread();
      const auto other = std::ranges::find_if(rest, [](unsigned char c) { return c != 0; });
      if (other == rest.end()) continue;
      throw Error("{}: something else stands behind its gzip data, at byte {}; copy it again",
                  path.string(), place() + uint64_t(other - rest.begin()));
    }
  }

  fs::path path;
  int fd;
  uint64_t bytes = 0, taken = 0;  // of the file; read from it
  bool is_gzip = false, is_inside = false, is_done = false;
  z_stream stream = {};
  std::vector<unsigned char> buffer;  // the last bytes taken, unread from `used` on
  size_t used = 0;
};

GzipFile::GzipFile(const fs::path& path) : state_(std::make_unique<State>(path)) {
  state_->begin();
}
GzipFile::~GzipFile() = default;

size_t GzipFile::read(std::span<char> bytes) { return state_->read(bytes); }
uint64_t GzipFile::bytes_read() const { return state_->place(); }
uint64_t GzipFile::bytes() const { return state_->bytes; }

}  // namespace lacuna
