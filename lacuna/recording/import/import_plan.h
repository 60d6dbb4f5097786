// Which array of which source becomes which field: the paths of arrays, --field, --role and --skip,
// and what the sources say of their sessions.
//
//   ImportPlanner planner(import);
//   planner.add(source, opened);  // for each; `opened` must outlive the plan
//   for (const PlannedSession& session : planner.finish()) ...
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lacuna/recording/import/import_recording.h"

namespace lacuna {

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

class ImportPlanner {
 public:
  explicit ImportPlanner(const RecordingImport& import) : import_(import) {}

  // Throws Error for an array that cannot be read and is not left out, or that belongs nowhere.
  void add(const ImportedSource& source, const ForeignSource& opened);
  // Throws Error for a session without a rate, and for an option that names no field.
  std::vector<PlannedSession> finish();

 private:
  bool is_skipped(const std::string& path);
  void check_used(const std::string& name, const std::set<std::string>& used, const char* option);
  void place(const ImportedSource& source, const ForeignSource& opened, ForeignArray& array);
  // where: names the array, for messages.
  PlannedSession& find_session(const std::string& name, const ImportedSource& source,
                               const Json& metadata, const std::string& where);
  void settle(PlannedSession& session);

  const RecordingImport& import_;
  std::vector<PlannedSession> sessions_;
  std::set<std::string> all_names_, names_, old_names_, skipped_names_, given_units_;
};

}  // namespace lacuna
