#include "lacuna/recording/import/import_recording.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "lacuna/core/error.h"
#include "lacuna/core/text/nearest.h"
#include "lacuna/recording/import/field_names.h"
#include "lacuna/recording/import/narrow.h"
#include "lacuna/recording/recording_writer.h"

namespace lacuna {
namespace {

constexpr uint64_t kBlockBytes = 16 << 20;  // of rows, read at once
constexpr uint64_t kMostRowBytes = 64 << 20;
constexpr uint64_t kMostBlockBytes = 48 << 20;  // where chunks of the source are larger

// An array and where it goes.
struct PlannedField {
  std::string field;
  FieldRole role = FieldRole::other;
  ForeignArray* array = nullptr;
};
struct PlannedSegment {
  std::string name;
  std::vector<PlannedField> fields;
};
struct PlannedSession {
  std::string name, subject;
  std::optional<double> rate;
  std::vector<std::string> units;
  std::vector<PlannedSegment> segments;
  std::string source;  // for messages
};

std::vector<std::string> split_path(const std::string& path) {
  std::vector<std::string> parts(1);
  for (const char c : path)
    if (c == '/')
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

// ---- what metadata say of a session
const Json* find_metadata(const Json& metadata, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (metadata.contains(key)) return &metadata.at(key);
  return nullptr;
}

std::optional<double> rate_in(const Json& metadata) {
  const Json* rate = find_metadata(metadata, {"rate", "sampling_rate", "fs", "frame_rate"});
  if (!rate || !rate->is_number()) return {};
  return rate->get<double>();
}

std::string subject_in(const Json& metadata) {
  const Json* subject = find_metadata(metadata, {"subject", "subject_id", "animal"});
  return subject && subject->is_string() ? subject->get<std::string>() : "";
}

std::vector<std::string> units_in(const Json& metadata) {
  const Json* units = find_metadata(metadata, {"unit_names", "unit_ids", "cids", "units"});
  std::vector<std::string> names;
  if (!units || !units->is_array()) return {};
  for (const Json& unit : *units) {
    if (unit.is_string())
      names.push_back(unit.get<std::string>());
    else if (unit.is_number_integer())
      names.push_back(std::to_string(unit.get<int64_t>()));
    else
      return {};
  }
  return names;
}

// ---- the plan: which array becomes which field
class Planner {
 public:
  explicit Planner(const RecordingImport& import) : import_(import) {}

  void add(const ImportedSource& source, const ForeignSource& opened) {
    for (const auto& array : opened.unreadable)
      if (!is_skipped(array.name)) throw Error("{}", array.why);
    bool has_any = false;
    for (const auto& array : opened.arrays) {
      if (is_skipped(array->name)) continue;
      has_any = true;
      place(source, opened, *array);
    }
    if (!has_any) throw Error("{}: no array of numbers in it is imported", source.path.string());
  }
  std::vector<PlannedSession> finish() {
    for (const auto& [old_name, name] : import_.rename) check_used(old_name, old_names_, "--field");
    for (const auto& [name, role] : import_.roles) check_used(name, names_, "--role");
    for (const std::string& name : import_.skip) check_used(name, skipped_names_, "--skip");
    for (PlannedSession& session : sessions_) settle_units(session);
    return std::move(sessions_);
  }

 private:
  bool is_skipped(const std::string& path) {
    const std::string last = split_path(path).back();
    all_names_.insert(last);
    for (const std::string& name : import_.skip)
      if (name == path || name == last) {
        skipped_names_.insert(name);
        return true;
      }
    return false;
  }

  void check_used(const std::string& name, const std::set<std::string>& used, const char* option) {
    if (used.contains(name)) return;
    const std::vector<std::string> known(all_names_.begin(), all_names_.end());
    throw Error("{} names '{}', which no source has; nearest: '{}'", option, name,
                nearest_word(name, known));
  }

  void place(const ImportedSource& source, const ForeignSource& opened, ForeignArray& array) {
    const std::vector<std::string> parts = split_path(array.name);
    if (parts.size() > 3)
      throw Error(
          "{}: deeper than session/segment/field; name the part to take with group=, or "
          "leave it out with --skip {}",
          array.where, array.name);
    const bool names_session = parts.size() == 3;
    if (names_session && !source.session.empty())
      throw Error(
          "{}: holds several sessions ('{}'), so it cannot be named '{}'; leave the name out",
          source.path.string(), array.name, source.session);
    const fs::path& path = source.path;
    if (fs::is_regular_file(path) && parts.size() == 1 && source.session.empty() &&
        (path.extension() == ".npy" || path.extension() == ".dat"))
      throw UsageError("'{}' is one array: name its session, as in m1={}", path.string(),
                       path.string());
    const std::string stem = (path.has_filename() ? path : path.parent_path()).stem().string();
    PlannedSession& session = find_session(names_session            ? parts[0]
                                           : source.session.empty() ? stem
                                                                    : source.session,
                                           source, opened);
    const std::string segment = parts.size() > 1         ? parts[parts.size() - 2]
                                : source.segment.empty() ? "main"
                                                         : source.segment;
    auto found = std::ranges::find(session.segments, segment, &PlannedSegment::name);
    if (found == session.segments.end())
      found = session.segments.insert(found, PlannedSegment{.name = segment, .fields = {}});
    std::string field = parts.back();
    if (const auto renamed = import_.rename.find(field); renamed != import_.rename.end()) {
      old_names_.insert(field);
      field = renamed->second;
    }
    names_.insert(field);
    const auto role = import_.roles.find(field);
    found->fields.push_back(
        {.field = field,
         .role = role != import_.roles.end() ? role->second : role_of_name(field, array.shape),
         .array = &array});
  }

  PlannedSession& find_session(const std::string& name, const ImportedSource& source,
                               const ForeignSource& opened) {
    auto found = std::ranges::find(sessions_, name, &PlannedSession::name);
    if (found == sessions_.end())
      found = sessions_.insert(found, PlannedSession{.name = name,
                                                     .subject = {},
                                                     .rate = {},
                                                     .units = {},
                                                     .segments = {},
                                                     .source = source.path.string()});
    PlannedSession& session = *found;
    if (session.subject.empty())
      session.subject = source.subject.empty() ? subject_in(opened.metadata) : source.subject;
    if (!session.rate) session.rate = source.rate;
    if (!session.rate) session.rate = import_.rate;
    if (!session.rate) session.rate = rate_in(opened.metadata);
    if (session.units.empty())
      session.units = source.units.empty() ? units_in(opened.metadata) : source.units;
    if (!source.units.empty()) given_units_.insert(name);
    return session;
  }

  // Names of units that came with the file are taken where they fit its counts; given ones must.
  void settle_units(PlannedSession& session) {
    if (!session.rate)
      throw Error("{}: says no rate; give it with --rate, in bins a second", session.source);
    if (given_units_.contains(session.name)) return;
    for (const PlannedSegment& segment : session.segments)
      for (const PlannedField& field : segment.fields) {
        const uint64_t count = field.array->row_elements();
        if (field.role != FieldRole::counts || count == session.units.size()) continue;
        session.units.clear();
        for (uint64_t unit = 0; unit < count; ++unit) session.units.push_back(std::to_string(unit));
      }
  }

  const RecordingImport& import_;
  std::vector<PlannedSession> sessions_;
  std::set<std::string> all_names_, names_, old_names_, skipped_names_, given_units_;
};

// ---- copying
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
    std::string why;
    const std::optional<FieldPlace> place = array.place(why);
    const bool is_usable = is_same_bytes(array.type) || array.type == ElementType::boolean;
    if (place && !is_usable)
      why =
          fmt::format("elements of {} are held as {}", name(array.type), name(held_as(array.type)));
    if (!place || !is_usable)
      throw Error(
          "{}: cannot stay in place: {}; import it without --in-place, or leave it out "
          "with --skip {}",
          array.where, why, field.field);
    Shape shape = {array.rows()};
    shape.insert(shape.end(), row_shape.begin(), row_shape.end());
    writer_.add_in_place(field.field, field.role, held_as(array.type), shape, *place, progress_);
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
  Planner planner(import);
  RecordingImportReport report;
  for (const ImportedSource& source : import.sources) {
    opened.push_back(open_foreign(source.path, {.group = source.group, .python = import.python}));
    planner.add(source, opened.back());
    for (const std::string& words : opened.back().skipped) report.skipped.push_back(words);
  }
  const std::vector<PlannedSession> sessions = planner.finish();
  Json made_by = {{"command", command}, {"settings", import.settings()}};
  RecordingWriter writer(out, {.add = import.add}, made_by);
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
  made_by["report"] = to_json(report);
  return {writer.commit(made_by), std::move(report)};
}

}  // namespace lacuna
