#include "lacuna/run/tensorboard.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <span>
#include <string>

#include "lacuna/core/crc32c.h"
#include "lacuna/core/error.h"

namespace lacuna {
namespace {

// ---- protobuf, as far as events need it: a field is its number and kind, then its value.
enum Kind : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += char(value | 0x80);
  out += char(value);
}

template <class T>
void put_little_endian(std::string& out, T value) {
  for (size_t byte = 0; byte < sizeof(T); ++byte) out += char(value >> (8 * byte));
}

void put_key(std::string& out, uint32_t field, Kind kind) { put_varint(out, field << 3 | kind); }

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// message Event { double wall_time = 1; int64 step = 2; string file_version = 3;
//                 Summary summary = 5; SessionLog session_log = 7; }
std::string event(double wall_time, int64_t step, uint32_t field, std::string_view contents) {
  std::string out;
  put_key(out, 1, kFixed64);
  put_little_endian(out, std::bit_cast<uint64_t>(wall_time));
  put_key(out, 2, kVarint);
  put_varint(out, uint64_t(step));
  put_bytes(out, field, contents);
  return out;
}

constexpr uint32_t kFileVersion = 3, kSummary = 5, kSessionLog = 7;  // fields of Event

// message Summary { repeated Value value = 1; }
// message Value { string tag = 1; float simple_value = 2; }
std::string summary(std::string_view tag, float number) {
  std::string value;
  put_bytes(value, 1, tag);
  put_key(value, 2, kFixed32);
  put_little_endian(value, std::bit_cast<uint32_t>(number));
  std::string out;
  put_bytes(out, 1, value);
  return out;
}

// message SessionLog { enum { START = 1 } status = 1; }
std::string session_start() {
  std::string out;
  put_key(out, 1, kVarint);
  put_varint(out, 1);
  return out;
}

// ---- the file
// Masked, because a checksum of data that holds its own checksum is a weak one.
uint32_t masked_crc(std::string_view data) {
  return std::rotr(crc32c(std::as_bytes(std::span(data))), 15) + 0xa282ead8u;
}

// A name that no earlier start of the run has, and that comes after theirs in order.
fs::path new_file(const fs::path& folder) {
  const auto second = uint64_t(unix_seconds());
  for (int number = 0;; ++number) {
    fs::path path = folder / fmt::format("events.out.tfevents.{:010}.lacuna.{:03}.{}", second,
                                         number, ::getpid());
    if (!fs::exists(path)) return path;
  }
}

}  // namespace

EventWriter::EventWriter(const fs::path& folder, int64_t first_step) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error("{}: cannot create: {}", folder.string(), error.message());
  path_ = new_file(folder);
  file_.open(path_, std::ios::binary);
  if (!file_) throw_errno(path_.string(), "cannot create");
  write_record(event(unix_seconds(), 0, kFileVersion, "brain.Event:2"));
  write_record(event(unix_seconds(), first_step, kSessionLog, session_start()));
  flush();
}

void EventWriter::scalar(std::string_view tag, int64_t step, float value, double wall_time) {
  write_record(event(wall_time, step, kSummary, summary(tag, value)));
}

void EventWriter::write_record(std::string_view data) {
  std::string record;
  put_little_endian(record, uint64_t(data.size()));
  put_little_endian(record, masked_crc(record));
  record += data;
  put_little_endian(record, masked_crc(data));
  file_ << record;
  if (!file_) throw_errno(path_.string(), "cannot write");
}

void EventWriter::flush() {
  if (!file_.flush()) throw_errno(path_.string(), "cannot write");
}

double unix_seconds() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace lacuna
