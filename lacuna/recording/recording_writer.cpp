#include "lacuna/recording/recording_writer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/hash.h"
#include "lacuna/core/system/stop.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_json.h"
#include "lacuna/store/zarr/read_at.h"

namespace lacuna {
namespace {

constexpr uint64_t kLargeRowBytes = 512;          // from here on each row has a checksum of its own
constexpr uint64_t kCheckedBlockBytes = 1 << 16;  // of smaller rows share one
constexpr uint64_t kReadBytes = 1 << 24;

uint64_t rows_a_check(const Field& field) {
  if (field.role == FieldRole::stimulus || field.row_bytes() >= kLargeRowBytes) return 1;
  return kCheckedBlockBytes / std::max<uint64_t>(1, field.row_bytes());
}

template <class T>
bool holds_non_finite(const std::byte* row, uint64_t columns) {
  for (uint64_t c = 0; c < columns; ++c) {
    T value;
    std::memcpy(&value, row + c * sizeof(T), sizeof(T));
    if (!std::isfinite(double(float(value)))) return true;
  }
  return false;
}
template <>
bool holds_non_finite<double>(const std::byte* row, uint64_t columns) {
  for (uint64_t c = 0; c < columns; ++c) {
    double value;
    std::memcpy(&value, row + c * sizeof value, sizeof value);
    if (!std::isfinite(value)) return true;
  }
  return false;
}

// What is known of a field's rows once they have gone by: checksums, and rows that are not finite.
class RowSummary {
 public:
  explicit RowSummary(const Field& field)
      : dtype_(field.dtype),
        columns_(field.columns()),
        row_bytes_(field.row_bytes()),
        check_rows_(field.check_rows) {}

  void add(std::span<const std::byte> rows) {
    whole_.add(rows);
    for (uint64_t at = 0; at < rows.size(); at += row_bytes_) add_row(rows.subspan(at, row_bytes_));
  }
  // Completes `field`, and returns the contents of its two small files.
  std::pair<Array, Array> finish(Field& field) {
    if (check_rows_ > 1 && rows_ % check_rows_ != 0) checks_.push_back(uint32_t(block_.value()));
    field.xxh3 = whole_.value();
    field.nan_rows = uint64_t(std::count(nan_.begin(), nan_.end(), uint8_t(1)));
    return {Array::from(std::move(checks_)), Array::from(std::move(nan_))};
  }
  uint64_t rows() const { return rows_; }

 private:
  void add_row(std::span<const std::byte> row) {
    ++rows_;
    if (check_rows_ == 1) {
      checks_.push_back(uint32_t(hash64(row)));
    } else {
      block_.add(row);
      if (rows_ % check_rows_ == 0) {
        checks_.push_back(uint32_t(block_.value()));
        block_ = Hasher();
      }
    }
    if (dtype_ == DType::f32) nan_.push_back(holds_non_finite<float>(row.data(), columns_));
    if (dtype_ == DType::f64) nan_.push_back(holds_non_finite<double>(row.data(), columns_));
    if (dtype_ == DType::bf16) nan_.push_back(holds_non_finite<BFloat16>(row.data(), columns_));
  }

  DType dtype_;
  uint64_t columns_, row_bytes_, check_rows_, rows_ = 0;
  Hasher whole_, block_;
  std::vector<uint32_t> checks_;
  std::vector<uint8_t> nan_;
};

// A field being written: its file, with a header that may have to be written again.
struct OpenField {
  Field field;
  std::string file;  // in the recording
  FileWriter writer;
  RowSummary summary;
  Hasher whole_file;
  uint64_t expected_rows;

  OpenField(Field given, std::string name, const fs::path& path, uint64_t rows)
      : field(std::move(given)),
        file(std::move(name)),
        writer(path),
        summary(field),
        expected_rows(rows) {
    const std::string header = npy_header(npy_description(field.dtype), stored_shape(rows));
    field.place = {.file = path, .offset = header.size()};
    writer.write(header);
    whole_file.add(header);
  }
  Shape stored_shape(uint64_t rows) const {
    if (field.packed) return {rows, field.row_bytes()};
    Shape shape = field.shape;
    shape[0] = rows;
    return shape;
  }
  void append(std::span<const std::byte> rows) {
    LACUNA_ASSERT(rows.size() % field.row_bytes() == 0);
    writer.write(rows);
    whole_file.add(rows);
    summary.add(rows);
  }
  // XXH3 of the whole file, which is read again where its header was not known before its rows.
  uint64_t close() {
    field.shape[0] = summary.rows();
    if (summary.rows() == expected_rows) {
      writer.close();
      return whole_file.value();
    }
    const std::string header =
        npy_header(npy_description(field.dtype), stored_shape(summary.rows()));
    LACUNA_ASSERT(header.size() == field.place.offset);
    writer.write_at_start(std::as_bytes(std::span(header)));
    writer.close();
    return hash_file(field.place.file);
  }
};

void check_field_fits(const Session& session, const Segment& segment, const Field& field) {
  const bool is_by_unit = field.role == FieldRole::counts ||
                          (field.role == FieldRole::validity && field.shape.size() > 1);
  if (is_by_unit && (field.shape.size() != 2 || field.columns() != session.units.size()))
    throw Error("field '{}' of {}/{} has rows of [{}], but the session names {} units", field.name,
                session.name, segment.name,
                fmt::join(field.shape.begin() + 1, field.shape.end(), ", "), session.units.size());
  const bool is_a_number_a_row = field.role == FieldRole::trial || field.role == FieldRole::time ||
                                 field.role == FieldRole::stimulus_id;
  if (is_a_number_a_row && field.columns() != 1)
    throw Error("field '{}' of {}/{} is of role {}, which is one number a row, not {}", field.name,
                session.name, segment.name, name(field.role), field.columns());
  if (field.role == FieldRole::stimulus && field.shape.size() < 2)
    throw Error("field '{}' of {}/{} is a stimulus of one number a row; use role other", field.name,
                session.name, segment.name);
  if (field.row_bytes() == 0)
    throw Error("field '{}' of {}/{} has rows without elements; leave it out", field.name,
                session.name, segment.name);
}

Json entry_of(const fs::path& path, uint64_t xxh3, DType dtype, const Shape& shape) {
  return {{"dtype", name(dtype)},
          {"shape", shape},
          {"bytes", fs::file_size(path)},
          {"xxh3", hex(xxh3)}};
}

}  // namespace

struct RecordingWriter::State {
  fs::path path;
  std::unique_ptr<DirectoryWriter> fresh;  // of a new recording
  std::unique_ptr<DirectoryLock> lock;     // of one that grows
  std::vector<Session> sessions;           // all; those from `added_from` on are ours
  size_t added_from = 0;
  Json files = Json::object();  // ours
  std::set<fs::path> folders;
  std::vector<fs::path> written;  // files, also one that is not whole
  std::unique_ptr<OpenField> open;
  bool may_name_units = false;  // by the first counts: none were named

  Session& session() {
    LACUNA_ASSERT(sessions.size() > added_from);
    return sessions.back();
  }
  Segment& segment() {
    LACUNA_ASSERT(!session().segments.empty());
    return session().segments.back();
  }
  // The file's path; its folders are made, and a link in its place is taken away.
  fs::path prepare(const std::string& file) {
    const fs::path whole = path / file;
    for (const fs::path& folder : {whole.parent_path().parent_path(), whole.parent_path()}) {
      if (fs::is_symlink(folder))
        throw Error(
            "{}: a link; what belongs into the recording would be elsewhere; replace it by a "
            "folder",
            folder.string());
      std::error_code error;
      fs::create_directory(folder, error);
      if (error)
        throw Error("{}: cannot create the directory: {}", folder.string(), error.message());
      folders.insert(folder);
    }
    if (fs::is_symlink(whole)) fs::remove(whole);
    written.push_back(whole);
    return whole;
  }
  void add_small(const std::string& file, const Array& array) {
    const fs::path whole = prepare(file);
    files[file] = entry_of(whole, write_npy(whole, array), array.dtype(), array.shape());
  }
  Field new_field(const FieldInfo& info);
  void add_finished(Field field, RowSummary& summary);
  void add_to_segment(Field field, const Array& checks, const Array& nan);
};

Field RecordingWriter::State::new_field(const FieldInfo& info) {
  check_part_name("field", info.name);
  if (segment().find(info.name))
    throw Error("field '{}' of {}/{} is there twice; rename one", info.name, session().name,
                segment().name);
  LACUNA_ASSERT(!info.packed || info.dtype == DType::u8);
  Field field;
  field.name = info.name;
  field.role = info.role;
  field.dtype = info.dtype;
  field.shape = {0};
  field.shape.insert(field.shape.end(), info.row_shape.begin(), info.row_shape.end());
  field.packed = info.packed;
  field.recorded_as = info.recorded_as;
  if (field.role == FieldRole::counts && may_name_units && field.shape.size() == 2) {
    for (uint64_t u = 0; u < field.columns(); ++u) session().units.push_back(std::to_string(u));
    may_name_units = false;
  }
  check_field_fits(session(), segment(), field);
  field.check_rows = rows_a_check(field);
  return field;
}

void RecordingWriter::State::add_finished(Field field, RowSummary& summary) {
  const auto [checks, nan] = summary.finish(field);
  add_to_segment(std::move(field), checks, nan);
}

void RecordingWriter::State::add_to_segment(Field field, const Array& checks, const Array& nan) {
  const std::string &in = session().name, &of = segment().name;
  if (field.rows() == 0)
    throw Error("field '{}' of {}/{} has no rows; leave the segment out", field.name, in, of);
  if (segment().fields.empty()) segment().frames = field.rows();
  if (field.rows() != segment().frames)
    throw Error(
        "fields of {}/{} differ in length: '{}' has {} rows, '{}' has {}; they share one time "
        "axis: cut them to the same rows, or put them into segments of their own",
        in, of, segment().fields.front().name, segment().frames, field.name, field.rows());
  add_small(field_file(in, of, field.name, ".check"), checks);
  field.check_file = path / field_file(in, of, field.name, ".check");
  if (field.nan_rows > 0) {
    add_small(field_file(in, of, field.name, ".nan"), nan);
    field.nan_file = path / field_file(in, of, field.name, ".nan");
  }
  segment().fields.push_back(std::move(field));
}

RecordingWriter::RecordingWriter(const fs::path& path, const Options& options, const Json& made_by)
    : state_(std::make_unique<State>()) {
  state_->path = path.has_filename() ? path : path.parent_path();
  if (options.add) {
    Recording::open(path);  // says what is wrong with it, if anything
    state_->lock = DirectoryWriter::lock(path);
    state_->sessions = Recording::open(path).sessions();
    state_->added_from = state_->sessions.size();
  } else {
    state_->fresh = std::make_unique<DirectoryWriter>(path, Recording::format(),
                                                      made_by.is_null() ? Json::object() : made_by);
  }
}

RecordingWriter::~RecordingWriter() = default;

void RecordingWriter::begin_session(const SessionInfo& info) {
  LACUNA_ASSERT(!state_->open);
  check_part_name("session", info.name);
  for (const Session& there : state_->sessions)
    if (there.name == info.name)
      throw Error("{}: session '{}' is there already; leave it out, or give it another name",
                  state_->path.string(), info.name);
  if (!(info.rate > 0) || !std::isfinite(info.rate))
    throw Error("session '{}' has a rate of {} bins a second; it must be above 0", info.name,
                info.rate);
  std::set<std::string_view> units;
  for (const std::string& unit : info.units)
    if (unit.empty() || !units.insert(unit).second)
      throw Error("session '{}' has a unit named '{}' twice, or without a name; name each",
                  info.name, unit);
  state_->may_name_units = info.units.empty();
  state_->sessions.push_back({info.name, info.subject, info.rate, info.units, {}});
}

void RecordingWriter::begin_segment(const std::string& name) {
  LACUNA_ASSERT(!state_->open);
  check_part_name("segment", name);
  for (const Segment& there : state_->session().segments)
    if (there.name == name)
      throw Error("segment '{}' of session '{}' is there twice; rename one", name,
                  state_->session().name);
  state_->session().segments.push_back({name, 0, {}});
}

void RecordingWriter::begin_field(const FieldInfo& info) {
  LACUNA_ASSERT(!state_->open);
  Field field = state_->new_field(info);
  std::string file = field_file(state_->session().name, state_->segment().name, info.name);
  const fs::path path = state_->prepare(file);
  state_->open = std::make_unique<OpenField>(std::move(field), std::move(file), path, info.rows);
}

void RecordingWriter::begin_field(const std::string& name, FieldRole role, DType dtype,
                                  Shape row_shape, const std::string& recorded_as) {
  begin_field({.name = name,
               .role = role,
               .dtype = dtype,
               .row_shape = std::move(row_shape),
               .recorded_as = recorded_as});
}

void RecordingWriter::append(std::span<const std::byte> rows) {
  LACUNA_ASSERT(state_->open);
  throw_if_stopped();
  state_->open->append(rows);
}

void RecordingWriter::end_field() {
  LACUNA_ASSERT(state_->open);
  OpenField& open = *state_->open;
  const uint64_t xxh3 = open.close();
  state_->files[open.file] =
      entry_of(open.field.place.file, xxh3, open.field.dtype, open.stored_shape(open.field.rows()));
  state_->add_finished(std::move(open.field), open.summary);
  state_->open.reset();
}

void RecordingWriter::add_field(const std::string& name, FieldRole role, const Array& rows) {
  LACUNA_ASSERT(!rows.shape().empty());
  begin_field({.name = name,
               .role = role,
               .dtype = rows.dtype(),
               .row_shape = Shape(rows.shape().begin() + 1, rows.shape().end()),
               .rows = rows.shape()[0]});
  append(rows.bytes());
  end_field();
}

void RecordingWriter::add_in_place(const std::string& name, FieldRole role, DType dtype,
                                   Shape shape, const FieldPlace& place, Progress& progress) {
  LACUNA_ASSERT(!state_->open && !shape.empty());
  Field field = state_->new_field({.name = name,
                                   .role = role,
                                   .dtype = dtype,
                                   .row_shape = Shape(shape.begin() + 1, shape.end())});
  field.shape = std::move(shape);
  field.place = {.file = fs::absolute(place.file).lexically_normal(),
                 .offset = place.offset,
                 .in_place = true};
  if (place.offset % item_size(dtype) != 0)
    throw Error("{}: field '{}' starts at byte {}, unaligned; import it without --in-place",
                place.file.string(), name, place.offset);
  field.map();                            // says what is wrong with the file, if anything
  const OpenFile file(field.place.file);  // read, not mapped: its pages would count as our memory
  RowSummary summary(field);
  const uint64_t piece = std::max<uint64_t>(1, kReadBytes / field.row_bytes()) * field.row_bytes();
  std::vector<std::byte> block;
  progress.begin("reading " + name, field.bytes(), "bytes");
  for (uint64_t at = 0; at < field.bytes(); at += piece) {
    throw_if_stopped();
    const uint64_t size = std::min(piece, field.bytes() - at);
    block.resize(size);
    file.read(field.place.offset + at, block);
    summary.add(block);
    progress.advance(at + size);
  }
  progress.end();
  state_->add_finished(std::move(field), summary);
}

void RecordingWriter::add_reference(const Field& source) {
  LACUNA_ASSERT(!state_->open);
  Field field = state_->new_field({.name = source.name,
                                   .role = source.role,
                                   .dtype = source.dtype,
                                   .row_shape = Shape(source.shape.begin() + 1, source.shape.end()),
                                   .packed = source.packed,
                                   .recorded_as = source.recorded_as});
  field.shape[0] = source.rows();
  field.place = source.place;
  field.place.file = fs::absolute(source.place.file).lexically_normal();
  field.place.in_place = true;
  field.xxh3 = source.xxh3;
  field.check_rows = source.check_rows;
  field.nan_rows = source.nan_rows;
  state_->add_to_segment(std::move(field), read_npy(source.check_file), read_nan_rows(source));
}

void RecordingWriter::add_truth(const std::string& name, const Array& array) {
  check_part_name("truth", name);
  const fs::path folder = state_->path / "truth";
  if (fs::is_symlink(folder)) throw Error("{}: a link; replace it by a folder", folder.string());
  fs::create_directory(folder);
  state_->folders.insert(folder);
  const std::string file = truth_file(state_->session().name, name);
  const fs::path path = state_->path / file;
  if (fs::is_symlink(path)) fs::remove(path);
  state_->written.push_back(path);
  state_->files[file] = entry_of(path, write_npy(path, array), array.dtype(), array.shape());
}

Recording RecordingWriter::commit(const Json& made_by) {
  LACUNA_ASSERT(!state_->open);
  State& state = *state_;
  if (state.sessions.size() == state.added_from)
    throw Error("{}: no session was given; a recording has at least one", state.path.string());
  for (size_t s = state.added_from; s < state.sessions.size(); ++s)
    for (const Segment& segment : state.sessions[s].segments)
      if (segment.fields.empty())
        throw Error("segment '{}' of session '{}' has no fields", segment.name,
                    state.sessions[s].name);
  for (const fs::path& folder : state.folders) sync_directory(folder);
  const Json fingerprint = fingerprint_of(state.sessions).to_json();
  if (state.fresh) {
    Json extra = {{"files", state.files}, {"sessions", Json::array()}};
    for (const Session& session : state.sessions) extra["sessions"].push_back(to_json(session));
    extra["splits"] = Json::array();
    extra["fingerprint"] = fingerprint;
    extra["made_by"] = made_by;
    state.fresh->commit(extra);
  } else {
    SealedJson manifest = load_manifest(state.path);
    read_manifest(state.path, [&] {
      for (const auto& [file, entry] : state.files.items()) manifest.json.at("files")[file] = entry;
      for (size_t s = state.added_from; s < state.sessions.size(); ++s)
        manifest.json.at("sessions").push_back(to_json(state.sessions[s]));
      manifest.json["fingerprint"] = fingerprint;
      manifest.json["added_by"].push_back(made_by);
    });
    replace_manifest(state.path, manifest);
    state.lock.reset();
  }
  return Recording::open(state.path);
}

void RecordingWriter::discard() {
  State& state = *state_;
  state.open.reset();
  for (const fs::path& file : state.written) fs::remove(file);
  std::error_code is_not_empty;  // then somebody else has put something there
  for (auto folder = state.folders.rbegin(); folder != state.folders.rend(); ++folder)
    fs::remove(*folder, is_not_empty);  // inner ones first
  if (state.fresh) {
    fs::remove(state.path / kPartialManifest);
    fs::remove(state.path, is_not_empty);
  }
  state.fresh.reset();
  state.lock.reset();
}

}  // namespace lacuna
