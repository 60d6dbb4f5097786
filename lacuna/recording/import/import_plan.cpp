#include "lacuna/recording/import/import_plan.h"

#include <algorithm>

#include "lacuna/core/error.h"
#include "lacuna/core/text/nearest.h"
#include "lacuna/recording/import/field_names.h"

namespace lacuna {
namespace {

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

// A list of one thing is that thing: attributes come so.
const Json* find_one(const Json& metadata, std::initializer_list<const char*> keys) {
  const Json* found = find_metadata(metadata, keys);
  return found && found->is_array() && found->size() == 1 ? &found->front() : found;
}

std::optional<double> rate_in(const Json& metadata) {
  const Json* rate = find_one(metadata, {"rate", "sampling_rate", "fs", "frame_rate"});
  if (!rate || !rate->is_number()) return {};
  return rate->get<double>();
}

std::string subject_in(const Json& metadata) {
  const Json* subject = find_one(metadata, {"subject", "subject_id", "animal"});
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

}  // namespace

void ImportPlanner::add(const ImportedSource& source, const ForeignSource& opened) {
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

std::vector<PlannedSession> ImportPlanner::finish() {
  for (const auto& [old_name, name] : import_.rename) check_used(old_name, old_names_, "--field");
  for (const auto& [name, role] : import_.roles) check_used(name, names_, "--role");
  for (const std::string& name : import_.skip) check_used(name, skipped_names_, "--skip");
  for (PlannedSession& session : sessions_) settle(session);
  return std::move(sessions_);
}

bool ImportPlanner::is_skipped(const std::string& path) {
  const std::string last = split_path(path).back();
  all_names_.insert(last);
  for (const std::string& name : import_.skip)
    if (name == path || name == last) {
      skipped_names_.insert(name);
      return true;
    }
  return false;
}

void ImportPlanner::check_used(const std::string& name, const std::set<std::string>& used,
                               const char* option) {
  if (used.contains(name)) return;
  const std::vector<std::string> known(all_names_.begin(), all_names_.end());
  throw Error("{} names '{}', which no source has; nearest: '{}'", option, name,
              nearest_word(name, known));
}

void ImportPlanner::place(const ImportedSource& source, const ForeignSource& opened,
                          ForeignArray& array) {
  const std::vector<std::string> parts = split_path(array.name);
  if (parts.size() > 3)
    throw Error(
        "{}: deeper than session/segment/field; name the part to take with group=, or "
        "leave it out with --skip {}",
        array.where, array.name);
  const bool names_session = parts.size() == 3;
  if (names_session && !source.session.empty())
    throw Error("{}: holds several sessions ('{}'), so it cannot be named '{}'; leave the name out",
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
                                         source, opened.metadata_of(array.name), array.where);
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

PlannedSession& ImportPlanner::find_session(const std::string& name, const ImportedSource& source,
                                            const Json& metadata, const std::string& where) {
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
    session.subject = source.subject.empty() ? subject_in(metadata) : source.subject;
  std::optional<double> rate = source.rate ? source.rate : rate_in(metadata);
  if (!rate) rate = import_.rate;
  if (!session.rate) session.rate = rate;
  if (rate && session.rate != rate)
    throw Error(
        "{}: says {} bins a second, but another part of session '{}' says {}; give the right one "
        "with the source (PATH,rate=NUMBER), or name two sessions",
        where, *rate, name, *session.rate);
  if (session.units.empty())
    session.units = source.units.empty() ? units_in(metadata) : source.units;
  if (!source.units.empty()) given_units_.insert(name);
  return session;
}

// Names of units that came with the file are taken where they fit its counts; given ones must.
void ImportPlanner::settle(PlannedSession& session) {
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

}  // namespace lacuna
