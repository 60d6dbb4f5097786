#include "lacuna/ladder/frame_holder.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/ladder/host_copy.h"
#include "lacuna/ops/cast/pixels.h"
#include "lacuna/recording/checked_rows.h"

namespace lacuna {

void FrameCast::operator()(const std::byte* frames, uint64_t count, std::byte* out) const {
  const uint64_t all = count * pixels;
  if (from == to) {
    std::memcpy(out, frames, all * item_size(to));
  } else if (from == DType::u8) {
    const auto* x = reinterpret_cast<const uint8_t*>(frames);
    if (to == DType::f32)
      normalise_pixels(x, all, reinterpret_cast<float*>(out));
    else
      normalise_pixels(x, all, reinterpret_cast<BFloat16*>(out));
  } else {
    LACUNA_ASSERT(from == DType::f32 && to == DType::bf16);
    const auto* x = reinterpret_cast<const float*>(frames);
    auto* y = reinterpret_cast<BFloat16*>(out);
    for (uint64_t i = 0; i < all; ++i) y[i] = BFloat16(x[i]);
  }
}

namespace {

// Memory of this thread, used again.
std::byte* thread_bytes(uint64_t bytes) {
  thread_local std::vector<std::byte> buffer;
  if (buffer.size() < bytes) buffer.resize(bytes);
  return buffer.data();
}

// The rows of one field, read by requests at places and compared when they are new.
class RowFile {
 public:
  explicit RowFile(const Field& field)
      : field_(field), row_bytes_(field.row_bytes()), checks_(field) {
    fd_ = ::open(field.place.file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) throw_errno(field.place.file.string(), "cannot open");
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_RANDOM);  // a window, and nothing behind it
    // Of the checksums, 4 bytes a row, all are wanted soon: a cold one would cost a page.
    const int checks = ::open(field.check_file.c_str(), O_RDONLY | O_CLOEXEC);
    if (checks < 0) return;
    ::posix_fadvise(checks, 0, 0, POSIX_FADV_WILLNEED);
    ::close(checks);
  }
  ~RowFile() { ::close(fd_); }
  RowFile(const RowFile&) = delete;
  RowFile& operator=(const RowFile&) = delete;

  const Field& field() const { return field_; }
  uint64_t row_bytes() const { return row_bytes_; }

  // In the order of time.
  void read(uint64_t first, uint64_t count, std::byte* out) const {
    read_bytes(place_of(first), out, count * row_bytes_);
    checks_.check(first, count, out);
  }

  // Newest first, straight to where they belong: one request that scatters.
  void read_newest_first(uint64_t t, uint64_t lags, std::byte* out) const {
    constexpr uint64_t kMost = 256;  // of a request; the system's own limit is 1024
    iovec parts[kMost];
    for (uint64_t done = 0; done < lags; done += kMost) {
      const uint64_t some = std::min(kMost, lags - done);
      const uint64_t first = t - done - (some - 1);
      for (uint64_t i = 0; i < some; ++i)
        parts[i] = {out + (done + some - 1 - i) * row_bytes_, row_bytes_};
      scatter(place_of(first), parts, some);
    }
    for (uint64_t lag = 0; lag < lags; ++lag) checks_.check(t - lag, 1, out + lag * row_bytes_);
  }

 private:
  uint64_t place_of(uint64_t row) const { return field_.place.offset + row * row_bytes_; }

  void read_bytes(uint64_t place, std::byte* out, uint64_t bytes) const {
    while (bytes > 0) {
      const ssize_t got = ::pread(fd_, out, bytes, off_t(place));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno(field_.place.file.string(), "cannot read");
      if (got == 0)
        throw Error("{} ends before byte {}: it has been truncated", field_.place.file.string(),
                    place + bytes);
      out += got;
      place += uint64_t(got);
      bytes -= uint64_t(got);
    }
  }

  void scatter(uint64_t place, const iovec* parts, uint64_t count) const {
    ssize_t got = -1;
    do got = ::preadv(fd_, parts, int(count), off_t(place));
    while (got < 0 && errno == EINTR);
    if (got < 0) throw_errno(field_.place.file.string(), "cannot read");
    for (uint64_t i = 0; i < count; ++i) {  // what a short read has left out
      const uint64_t have = std::min<uint64_t>(uint64_t(got), parts[i].iov_len);
      got -= ssize_t(have);
      if (have < parts[i].iov_len)
        read_bytes(place + i * row_bytes_ + have, static_cast<std::byte*>(parts[i].iov_base) + have,
                   parts[i].iov_len - have);
    }
  }

  Field field_;
  uint64_t row_bytes_;
  mutable CheckedRows checks_;
  int fd_ = -1;
};

class DiskFrames : public FrameHolder {
 public:
  explicit DiskFrames(const SegmentFields& fields) {
    for (const Field& field : fields) files_.push_back(std::make_unique<RowFile>(field));
  }

  void read(uint32_t segment, uint64_t t, uint64_t lags, uint64_t step, const FrameCast& cast,
            std::byte* out) const override {
    const RowFile& file = *files_[segment];
    if (cast.is_copy() && step == 1) {
      file.read_newest_first(t, lags, out);
      return;
    }
    const uint64_t rows = (lags - 1) * step + 1, bytes = file.row_bytes();
    std::byte* const buffer = thread_bytes(rows * bytes);
    file.read(t - (rows - 1), rows, buffer);
    for (uint64_t lag = 0; lag < lags; ++lag)
      cast(buffer + (rows - 1 - lag * step) * bytes, 1, out + lag * cast.to_bytes());
  }
  void read_rows(uint32_t segment, uint64_t first, uint64_t count, std::byte* out) const override {
    files_[segment]->read(first, count, out);
  }
  uint64_t disk_bytes() const override {
    uint64_t bytes = 0;
    for (const auto& file : files_) bytes += file->field().bytes();
    return bytes;
  }

 private:
  std::vector<std::unique_ptr<RowFile>> files_;
};

}  // namespace

std::unique_ptr<FrameHolder> hold_on_disk(const SegmentFields& fields) {
  return std::make_unique<DiskFrames>(fields);
}

// ---- in memory
struct HeldPlan {
  SegmentFields fields;
  DType dtype = DType::u8;
  HostCopyPlan copy;
  std::vector<uint64_t> begin;  // [segments] of the copy's bytes
  struct Piece {
    uint32_t segment;
    uint64_t first, rows;
  };
  std::vector<Piece> pieces;

  uint64_t pixels(size_t segment) const { return fields[segment].columns(); }
  uint64_t row_bytes(size_t segment) const { return pixels(segment) * item_size(dtype); }
};

std::shared_ptr<const HeldPlan> plan_held(SegmentFields fields, DType dtype,
                                          const std::string& session) {
  constexpr uint64_t kPiece = uint64_t(64) << 20;  // what a kill may cost
  const auto plan = std::make_shared<HeldPlan>();
  plan->fields = std::move(fields);
  plan->dtype = dtype;
  plan->copy.words = "frames of session " + session;
  Hasher hasher;
  hasher.add(fmt::format("frames as {}", name(dtype)));
  uint64_t bytes = 0;
  for (size_t s = 0; s < plan->fields.size(); ++s) {
    const Field& field = plan->fields[s];
    hasher.add(fmt::format("{} {} {} {}", hex(field.xxh3), name(field.dtype), field.rows(),
                           field.columns()));
    plan->begin.push_back(bytes);
    const uint64_t row = plan->row_bytes(s);
    const uint64_t rows = std::max<uint64_t>(1, kPiece / std::max<uint64_t>(row, 1));
    for (uint64_t first = 0; first < field.rows(); first += rows) {
      plan->pieces.push_back({uint32_t(s), first, std::min(rows, field.rows() - first)});
      bytes += plan->pieces.back().rows * row;
      plan->copy.cuts.push_back(bytes);
    }
  }
  plan->copy.key = hasher.value();
  return plan;
}

uint64_t bytes_of(const HeldPlan& plan) { return plan.copy.cuts.back(); }
bool is_held_already(const HeldPlan& plan) { return HostCopy::is_held(plan.copy); }

namespace {

class HeldFrames : public FrameHolder {
 public:
  HeldFrames(std::shared_ptr<const HeldPlan> plan, Progress& progress, uint64_t done)
      : plan_(std::move(plan)) {
    std::vector<std::unique_ptr<RowFile>> files(plan_->fields.size());  // opened where needed
    const auto fill = [&](uint64_t piece, std::span<std::byte> out) {
      const auto& [segment, first, rows] = plan_->pieces[piece];
      if (!files[segment]) files[segment] = std::make_unique<RowFile>(plan_->fields[segment]);
      load(*files[segment], first, rows, segment, out);
    };
    copy_ = HostCopy::share(plan_->copy, fill, progress, done);
  }

  void read(uint32_t segment, uint64_t t, uint64_t lags, uint64_t step, const FrameCast& cast,
            std::byte* out) const override {
    const uint64_t bytes = plan_->row_bytes(segment), to = cast.to_bytes();
    const std::byte* frame = copy_->bytes().data() + plan_->begin[segment] + t * bytes;
    for (uint64_t lag = 0; lag < lags; ++lag) cast(frame - lag * step * bytes, 1, out + lag * to);
  }
  void read_rows(uint32_t segment, uint64_t first, uint64_t count, std::byte* out) const override {
    const uint64_t bytes = plan_->row_bytes(segment);
    std::memcpy(out, copy_->bytes().data() + plan_->begin[segment] + first * bytes, count * bytes);
  }
  uint64_t held_bytes() const override { return copy_->bytes().size(); }

 private:
  void load(const RowFile& file, uint64_t first, uint64_t rows, uint32_t segment,
            std::span<std::byte> out) const {
    constexpr uint64_t kRequest = uint64_t(4) << 20;
    const FrameCast cast = {file.field().dtype, plan_->dtype, plan_->pixels(segment)};
    const uint64_t some = std::max<uint64_t>(1, kRequest / file.row_bytes());
    parallel_for((rows + some - 1) / some, 0, [&](uint64_t i) {
      const uint64_t begin = i * some, count = std::min(some, rows - begin);
      std::byte* const to = out.data() + begin * cast.to_bytes();
      if (cast.is_copy()) {
        file.read(first + begin, count, to);
        return;
      }
      std::byte* const buffer = thread_bytes(count * file.row_bytes());
      file.read(first + begin, count, buffer);
      cast(buffer, count, to);
    });
  }

  std::shared_ptr<const HeldPlan> plan_;
  std::shared_ptr<const HostCopy> copy_;
};

}  // namespace

std::unique_ptr<FrameHolder> hold_in_memory(std::shared_ptr<const HeldPlan> plan,
                                            Progress& progress, uint64_t done) {
  return std::make_unique<HeldFrames>(std::move(plan), progress, done);
}

}  // namespace lacuna
