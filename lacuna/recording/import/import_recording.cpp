#include "lacuna/recording/import/import_recording.h"

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/text/text.h"
#include "lacuna/recording/import/import_plan.h"
#include "lacuna/recording/import/narrow.h"
#include "lacuna/recording/recording_writer.h"

namespace lacuna {
namespace {

constexpr uint64_t kBlockBytes = 16 << 20;  // of rows, read at once
constexpr double kImportRoom = 1.2;         // times the bytes must be free on the disk
constexpr uint64_t kMostRowBytes = 64 << 20;
constexpr uint64_t kMostBlockBytes = 48 << 20;  // where chunks of the source are larger

// Rows of a block: whole chunks of the source where they are not too large.
uint64_t block_rows(const ForeignArray& array) {
  const uint64_t row = std::max<uint64_t>(array.row_bytes(), 1);
  const uint64_t chunk = std::max<uint64_t>(array.rows_together(), 1);
  if (chunk * row > kMostBlockBytes) return std::max<uint64_t>(kMostBlockBytes / row, 1);
  return std::max<uint64_t>(kBlockBytes / row / chunk, 1) * chunk;
}

// Calls f(rows, first row) for all rows in order until it returns false.
template <class F>
void for_each_block(ForeignArray& array, const std::string& task, Progress& progress, F&& f) {
  const uint64_t step = block_rows(array);
  std::vector<std::byte> block;
  progress.begin(task, array.rows() * array.row_bytes(), "bytes");
  for (uint64_t begin = 0; begin < array.rows(); begin += step) {
    const uint64_t end = std::min(begin + step, array.rows());
    block.resize((end - begin) * array.row_bytes());
    array.read_rows(begin, end, block);
    if (!f(std::span<const std::byte>(block), begin)) break;
    progress.advance(end * array.row_bytes());
  }
  progress.end();
}

// [T, 1] of what is one number a row is [T].
Shape row_shape_of(const PlannedField& field, size_t units) {
  const Shape& shape = field.array->shape;
  Shape row(shape.begin() + 1, shape.end());
  const bool is_one_a_row = field.role == FieldRole::trial || field.role == FieldRole::time ||
                            field.role == FieldRole::stimulus_id ||
                            (field.role == FieldRole::validity && units != 1);
  if (is_one_a_row && field.array->row_elements() == 1) row.clear();
  return row;
}

// Throws Error where the bytes cannot be used as they lie.
FieldPlace place_of(const PlannedField& field) {
  ForeignArray& array = *field.array;
  std::string why;
  const std::optional<FieldPlace> place = array.place(why);
  const bool is_usable = is_same_bytes(array.type) || array.type == ElementType::boolean;
  if (place && !is_usable)
    why = fmt::format("elements of {} are held as {}", name(array.type), name(held_as(array.type)));
  if (!place || !is_usable)
    throw Error(
        "{}: cannot stay in place: {}; import it without --in-place, or leave it out "
        "with --skip {}",
        array.where, why, field.field);
  return *place;
}

// Before anything is read, which takes long.
void check_places(const std::vector<PlannedSession>& sessions) {
  for (const PlannedSession& session : sessions)
    for (const PlannedSegment& segment : session.segments)
      for (const PlannedField& field : segment.fields) place_of(field);
}

class Copier {
 public:
  Copier(const RecordingImport& import, RecordingWriter& writer, RecordingImportReport& report,
         Progress& progress)
      : import_(import), writer_(writer), report_(report), progress_(progress) {}

  void copy(const PlannedSession& session, const PlannedSegment& segment,
            const PlannedField& field) {
    ForeignArray& array = *field.array;
    if (array.row_bytes() > kMostRowBytes)
      throw Error("{}: rows of {} bytes; is its first dimension time? Save it with time first",
                  array.where, array.row_bytes());
    if (array.rows() == 0)
      throw Error("{}: has no rows; leave it out with --skip {}", array.where, field.field);
    ImportedField done = {.session = session.name,
                          .segment = segment.name,
                          .field = field.field,
                          .source = array.where,
                          .role = field.role,
                          .from = std::string(name(array.type)),
                          .to = std::string(name(held_as(array.type))),
                          .note = {},
                          .rows = array.rows(),
                          .from_bytes = array.rows() * array.row_bytes(),
                          .to_bytes = 0};
    const Shape row_shape = row_shape_of(field, session.units.size());
    if (import_.in_place)
      refer(field, row_shape, done);
    else
      copy_rows(field, row_shape, done);
    array.release();
    report_.fields.push_back(std::move(done));
  }

 private:
  void refer(const PlannedField& field, const Shape& row_shape, ImportedField& done) {
    ForeignArray& array = *field.array;
    Shape shape = {array.rows()};
    shape.insert(shape.end(), row_shape.begin(), row_shape.end());
    writer_.add_in_place(field.field, field.role, held_as(array.type), shape, place_of(field),
                         progress_);
    done.to_bytes = done.from_bytes;
    done.note = "in place";
  }

  NarrowForm narrow_form(const PlannedField& field, ImportedField& done) {
    ForeignArray& array = *field.array;
    NarrowCheck check(field.role, array.type, array.row_elements());
    if (!check.add({}, 0)) return NarrowForm::as_is;
    for_each_block(
        array, "checking " + array.where, progress_,
        [&](std::span<const std::byte> rows, uint64_t first) { return check.add(rows, first); });
    if (check.form() == NarrowForm::as_is)
      done.note = fmt::format("stays {}: {}", done.to, check.why());
    return check.form();
  }

  void copy_rows(const PlannedField& field, const Shape& row_shape, ImportedField& done) {
    ForeignArray& array = *field.array;
    const NarrowForm form = import_.narrow ? narrow_form(field, done) : NarrowForm::as_is;
    const DType dtype = dtype_of_form(form, held_as(array.type));
    const bool is_changed = form != NarrowForm::as_is || !is_same_bytes(array.type);
    std::string recorded_as = is_changed ? done.from : "";
    if (form == NarrowForm::pixels_u8)
      recorded_as += " of (k - 127) / 255", done.note = recorded_as;
    writer_.begin_field({.name = field.field,
                         .role = field.role,
                         .dtype = dtype,
                         .row_shape = row_shape,
                         .packed = form == NarrowForm::bits,
                         .recorded_as = recorded_as,
                         .rows = array.rows()});
    std::vector<std::byte> changed;
    for_each_block(array, "importing " + array.where, progress_,
                   [&](std::span<const std::byte> rows, uint64_t) {
                     if (form != NarrowForm::as_is) {
                       narrow_rows(form, array.type, array.row_elements(), rows, changed);
                       rows = changed;
                     } else if (!is_same_bytes(array.type)) {
                       changed.resize(rows.size() / item_size(array.type) * item_size(dtype));
                       convert(array.type, rows, changed);
                       rows = changed;
                     }
                     done.to_bytes += rows.size();
                     writer_.append(rows);
                     return true;
                   });
    writer_.end_field();
    done.to = form == NarrowForm::bits ? "bits" : std::string(name(dtype));
  }

  const RecordingImport& import_;
  RecordingWriter& writer_;
  RecordingImportReport& report_;
  Progress& progress_;
};

void copy_sessions(const std::vector<PlannedSession>& sessions, const RecordingImport& import,
                   RecordingWriter& writer, RecordingImportReport& report, Progress& progress) {
  Copier copier(import, writer, report, progress);
  for (const PlannedSession& session : sessions) {
    writer.begin_session({.name = session.name,
                          .subject = session.subject,
                          .rate = *session.rate,
                          .units = session.units});
    for (const PlannedSegment& segment : session.segments) {
      writer.begin_segment(segment.name);
      for (const PlannedField& field : segment.fields) copier.copy(session, segment, field);
    }
  }
}

// The folder on whose disk `path` will lie: the nearest that is there.
fs::path nearest_folder(const fs::path& path) {
  fs::path folder = fs::absolute(path);
  while (!fs::exists(folder) && folder.has_parent_path() && folder != folder.parent_path())
    folder = folder.parent_path();
  return folder;
}

// What will be written: at most, or with --narrow at least, since only the values tell.
uint64_t bytes_to_write(const RecordingImport& import,
                        const std::vector<PlannedSession>& sessions) {
  uint64_t bytes = 0;
  for (const PlannedSession& session : sessions)
    for (const PlannedSegment& segment : session.segments)
      for (const PlannedField& field : segment.fields) {
        const uint64_t elements = field.array->rows() * field.array->row_elements();
        const bool may_narrow = import.narrow && field.role != FieldRole::behaviour &&
                                field.role != FieldRole::time && field.role != FieldRole::trial;
        bytes += may_narrow ? (field.role == FieldRole::validity ? elements / 8 : elements)
                            : elements * item_size(held_as(field.array->type));
      }
  return bytes;
}

void check_room(const fs::path& out, const RecordingImport& import,
                const std::vector<PlannedSession>& sessions) {
  if (import.in_place) return;
  const uint64_t bytes = bytes_to_write(import, sessions);
  const uint64_t free = free_disk_bytes(nearest_folder(out));
  if (double(bytes) * kImportRoom <= double(free)) return;
  throw Error(
      "{} {} to write, {} with a margin, but {} free on the disk of {}; {}import fewer "
      "sessions, or leave the bytes where they are with --in-place",
      import.narrow ? "at least" : "there are", format_bytes(bytes),
      format_bytes(uint64_t(double(bytes) * kImportRoom)), format_bytes(free), out.string(),
      import.narrow ? "" : "write less with --narrow, ");
}

Json to_json(const RecordingImportReport& report) {
  Json fields = Json::array();
  for (const ImportedField& field : report.fields) {
    Json entry = {{"field", fmt::format("{}/{}/{}", field.session, field.segment, field.field)},
                  {"source", field.source},
                  {"from", field.from},
                  {"to", field.to}};
    if (!field.note.empty()) entry["note"] = field.note;
    fields.push_back(std::move(entry));
  }
  return {{"fields", fields}, {"skipped", report.skipped}};
}

}  // namespace

Json RecordingImport::settings() const {
  Json list = Json::array();
  for (const ImportedSource& source : sources) {
    Json entry = {{"path", source.path.string()}};
    if (!source.session.empty()) entry["session"] = source.session;
    if (!source.segment.empty()) entry["segment"] = source.segment;
    if (!source.subject.empty()) entry["subject"] = source.subject;
    if (!source.group.empty()) entry["group"] = source.group;
    if (source.rate) entry["rate"] = *source.rate;
    list.push_back(std::move(entry));
  }
  Json settings = {{"sources", list}, {"in_place", in_place}, {"narrow", narrow}};
  if (rate) settings["rate"] = *rate;
  for (const auto& [from, to] : rename) settings["fields"][from] = to;
  for (const auto& [field, role] : roles) settings["roles"][field] = name(role);
  if (!skip.empty()) settings["skip"] = skip;
  return settings;
}

ImportedRecording import_recording(const fs::path& out, const RecordingImport& import,
                                   const std::string& command, Progress& progress) {
  if (import.sources.empty()) throw UsageError("no source was named");
  if (!import.add && fs::exists(out / "manifest.json"))
    throw Error("{}: is there already; add sessions to it with --add, or choose another name",
                out.string());
  std::vector<ForeignSource> opened;
  ImportPlanner planner(import);
  RecordingImportReport report;
  for (const ImportedSource& source : import.sources) {
    opened.push_back(open_foreign(source.path, {.group = source.group, .python = import.python}));
    planner.add(source, opened.back());
    for (const std::string& words : opened.back().skipped) report.skipped.push_back(words);
  }
  const std::vector<PlannedSession> sessions = planner.finish();
  if (import.in_place) check_places(sessions);
  check_room(out, import, sessions);
  Json made_by = {{"command", command}, {"settings", import.settings()}};
  RecordingWriter writer(out, {.add = import.add}, made_by);
  try {
    copy_sessions(sessions, import, writer, report, progress);
  } catch (const Error&) {
    writer.discard();  // what was refused is not taken for something that was interrupted
    throw;
  }
  made_by["report"] = to_json(report);
  return {writer.commit(made_by), std::move(report)};
}

}  // namespace lacuna
