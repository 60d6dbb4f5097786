#include "lacuna/recording/windows.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <set>
#include <tuple>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/system/threads.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/transforms/transforms.h"
#include "lacuna/recording/trials.h"
#include "lacuna/screen/samples.h"

namespace lacuna {
namespace {

using Flags = std::shared_ptr<const std::vector<uint8_t>>;  // [T], 1: may be read

// Rows that a window reads of one field: row t - oldest .. t - newest, in groups of `step` bins.
struct Needed {
  int64_t oldest, newest;  // below 0: after t
  Flags is_ok;
  bool reads_first_bin_only = false;
};

std::string field_words(const Session& session, const Segment& segment, const std::string& field) {
  return fmt::format("field '{}' of {}/{}", field, session.name, segment.name);
}

const Field& needed_field(const Session& session, const Segment& segment, const std::string& name,
                          std::string_view what) {
  if (const Field* field = segment.find(name)) return *field;
  std::vector<std::string> names;
  for (const Field& field : segment.fields) names.push_back(field.name);
  throw Error(
      "session '{}', segment '{}': no field '{}' for the {}; there is {}; name another, or leave "
      "the segment out (segments)",
      session.name, segment.name, name, what, fmt::join(names, ", "));
}

bool is_row_validity(const Field& field) {
  return field.role == FieldRole::validity && field.columns() == 1 && field.shape.size() == 1;
}

void and_with(std::vector<uint8_t>& is_ok, std::span<const uint8_t> flags) {
  for (uint64_t t = 0; t < is_ok.size(); ++t) is_ok[t] &= flags[t];
}

// Rows on which every field may be read.
Flags rows_valid_for_all(const Segment& segment, const WindowSettings& settings) {
  auto is_ok = std::make_shared<std::vector<uint8_t>>(segment.frames, uint8_t(1));
  for (const Field& field : segment.fields) {
    if (!is_row_validity(field) || field.name == settings.validity) continue;
    const bool is_own = field.name.ends_with("_valid") &&
                        segment.find(field.name.substr(0, field.name.size() - 6)) != nullptr;
    if (!is_own) and_with(*is_ok, read_flags(field));
  }
  return is_ok;
}

Flags rows_valid(const Segment& segment, const Field& field, const Flags& for_all,
                 const WindowSettings& settings) {
  const Field* own = segment.find(field.name + "_valid");
  if (!own || !is_row_validity(*own) || own->name == settings.validity) return for_all;
  auto is_ok = std::make_shared<std::vector<uint8_t>>(*for_all);
  and_with(*is_ok, read_flags(*own));
  return is_ok;
}

// nan: u8 [T], 1 where a row holds a value that is not finite; empty: nowhere.
Flags without_nan(const Flags& rows, std::span<const uint8_t> nan) {
  if (nan.empty()) return rows;
  auto is_ok = std::make_shared<std::vector<uint8_t>>(*rows);
  for (uint64_t t = 0; t < is_ok->size(); ++t) (*is_ok)[t] &= uint8_t(nan[t] == 0);
  return is_ok;
}

bool is_group_ok(const Needed& needed, uint64_t first, uint64_t step) {
  const uint64_t bins = needed.reads_first_bin_only ? 1 : step;
  for (uint64_t k = 0; k < bins; ++k)
    if (!(*needed.is_ok)[first + k]) return false;
  return true;
}

// The windows of one stretch, added to `runs`. Few rows are invalid: each takes away the windows
// that would read it.
void add_runs(const Stretch& stretch, const std::vector<Needed>& all, uint64_t step,
              WindowRun pattern, std::vector<WindowRun>& runs) {
  const int64_t groups = int64_t((stretch.end - stretch.begin) / step);
  int64_t begin = 0, end = groups;  // windows that stay within the stretch
  for (const Needed& needed : all) {
    begin = std::max(begin, needed.oldest);
    end = std::min(end, groups + needed.newest);
  }
  if (begin >= end) return;
  std::vector<uint8_t> is_window(size_t(groups), 0);
  std::fill(is_window.begin() + begin, is_window.begin() + end, uint8_t(1));
  for (const Needed& needed : all)
    for (int64_t g = 0; g < groups; ++g) {
      if (is_group_ok(needed, stretch.begin + uint64_t(g) * step, step)) continue;
      const int64_t first = std::max<int64_t>(0, g + needed.newest);
      const int64_t last = std::min(groups - 1, g + needed.oldest);
      for (int64_t w = first; w <= last; ++w) is_window[size_t(w)] = 0;
    }
  pattern.trial = stretch.trial;
  for (int64_t g = begin; g < end; ++g) {
    if (!is_window[size_t(g)]) continue;
    const uint64_t t = stretch.begin + uint64_t(g) * step;
    if (g == begin || !is_window[size_t(g) - 1]) {
      pattern.begin = t;
      runs.push_back(pattern);
    }
    runs.back().end = t + step;
  }
}

const Field* validity_by_unit(const Session& session, const Segment& segment,
                              const WindowSettings& settings) {
  if (!settings.validity.empty())
    return &needed_field(session, segment, settings.validity, "validity");
  for (const Field& field : segment.fields)
    if (field.role == FieldRole::validity && field.shape.size() > 1) return &field;
  return nullptr;
}

// Units are found by their number: a field with fewer columns would be read beyond its row.
void check_one_column_a_unit(const Session& session, const Segment& segment, const Field& field,
                             std::string_view what) {
  if (field.columns() != session.units.size())
    throw Error("{} has {} columns, but the session has {} units; name another field for the {}",
                field_words(session, segment, field.name), field.columns(), session.units.size(),
                what);
}

// A stimulus row that is not finite must not be served; which row of which field.
void refuse_nan_frames(const Session& session, const Segment& segment, const Field& field,
                       std::span<const WindowRun> runs, int64_t oldest, int64_t newest) {
  if (field.nan_rows == 0) return;
  const Array nan = read_nan_rows(field);
  const auto flags = nan.as<uint8_t>();
  for (const WindowRun& run : runs) {
    const auto step = int64_t(run.step);
    const int64_t last = int64_t(run.end) - step;  // the run's last window
    for (int64_t row = int64_t(run.begin) - oldest * step; row <= last - newest * step; row += step)
      if (flags[size_t(row)])
        throw Error(
            "{} is not finite in row {}, which the window at t = {} serves; mark the row in a "
            "validity field ({}_valid), or repair it",
            field_words(session, segment, field.name), row,
            std::max(int64_t(run.begin), row + newest * step), field.name);
  }
}

// The same of a count, unless its unit is not chosen or not valid there.
void refuse_nan_counts(const Session& session, const Segment& segment, const Field& field,
                       const Field* validity, std::span<const uint32_t> units,
                       std::span<const WindowRun> runs, uint64_t bins_after) {
  if (field.nan_rows == 0) return;
  const Array nan = read_nan_rows(field), counts = field.map();
  const Array valid = validity ? validity->map() : Array();
  const auto flags = nan.as<uint8_t>();
  std::vector<float> values(units.size());
  std::vector<uint8_t> is_valid(units.size());
  const auto refuse_row = [&](uint64_t t) {
    read_columns(field, counts.bytes().data() + t * field.row_bytes(), units, values.data());
    std::ranges::fill(is_valid, uint8_t(1));
    if (validity)
      and_flags(*validity, valid.bytes().data() + t * validity->row_bytes(), units,
                is_valid.data());
    for (size_t u = 0; u < units.size(); ++u)
      if (!std::isfinite(values[u]) && is_valid[u] != 0)
        throw Error(
            "{} is not finite in row {} for unit '{}', which a window serves as its target; mark "
            "it in a validity field, or leave the unit out (units)",
            field_words(session, segment, field.name), t, session.units[units[u]]);
  };
  for (const WindowRun& run : runs)
    for (uint64_t t = run.begin; t < run.end - run.step + bins_after; ++t)
      if (flags[t]) refuse_row(t);
}

std::vector<uint32_t> choose_units(const Session& session, const std::vector<std::string>& names,
                                   std::set<std::string>& found) {
  std::vector<uint32_t> units;
  for (uint32_t u = 0; u < session.units.size(); ++u) {
    const std::string& unit = session.units[u];
    bool is_chosen = names.empty();
    for (const std::string& one : {unit, session.name + "/" + unit})
      if (std::find(names.begin(), names.end(), one) != names.end()) {
        is_chosen = true;
        found.insert(one);
      }
    if (is_chosen) units.push_back(u);
  }
  return units;
}

bool is_chosen(const std::vector<std::string>& names, const std::string& name) {
  return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
}

void check_window_settings(const Recording& recording, const WindowSettings& settings) {
  if (settings.stimulus.lags == 0 || settings.target_rows == 0 || settings.step == 0)
    throw Error("a window has at least one lag and one target row, and a step of at least one bin");
  for (const LaggedField& input : settings.inputs)
    if (input.lags == 0) throw Error("input '{}' has no lags; give it at least one", input.field);
  if (!(settings.most_gap >= 1))
    throw Error("most_gap is {} bins; steps of one bin are no gap: use at least 1",
                settings.most_gap);
  for (const std::string& name : settings.sessions) recording.session(name);
  std::set<std::string> known;
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments) known.insert(segment.name);
  for (const std::string& name : settings.segments)
    if (!known.contains(name))
      throw Error("{}: no session has a segment '{}'; there is {}", recording.path().string(), name,
                  fmt::join(known, ", "));
}

// Not every session was shown every stimulus: where no session is named, those without any of the
// segments that are to be read are not the recording's for this purpose.
bool lacks_segments(const Session& session, const WindowSettings& settings) {
  for (const Segment& segment : session.segments)
    if (is_chosen(settings.segments, segment.name)) return false;
  if (!settings.sessions.empty())
    throw Error("session '{}' has none of the segments chosen ({}); leave it out (sessions)",
                session.name, fmt::join(settings.segments, ", "));
  return true;
}

// What windows of one segment need, and so which there are.
class SegmentWindows {
 public:
  SegmentWindows(const Session& session, const Segment& segment, const WindowSettings& settings,
                 std::span<const uint32_t> units, const Transforms* transforms)
      : session_(session), segment_(segment), settings_(settings), units_(units) {
    const Flags for_all = rows_valid_for_all(segment, settings);
    const auto valid = [&](const Field& field) {
      return rows_valid(segment, field, for_all, settings);
    };
    const Field& stimulus = needed_field(session, segment, settings.stimulus.field, "stimulus");
    add(settings.stimulus, valid(stimulus), true);
    for (const LaggedField& input : settings.inputs) {
      if (transforms && transforms->has(input.field)) {
        const auto nan = transforms->nan_rows(session, segment, input.field);
        const auto made_of = transforms->valid_rows(session, segment, input.field);
        auto is_ok = std::make_shared<std::vector<uint8_t>>(*for_all);
        if (!made_of.empty()) and_with(*is_ok, made_of);
        add(input, without_nan(is_ok, nan), false);
      } else {
        const Field& field = needed_field(session, segment, input.field, "inputs");
        const Array nan = read_nan_rows(field);
        add(input, without_nan(valid(field), nan.as<uint8_t>()), false);
      }
    }
    const Field& counts = needed_field(session, segment, settings.counts, "counts");
    check_one_column_a_unit(session, segment, counts, "counts");
    const Field* const by_unit = validity_by_unit(session, segment, settings);
    if (by_unit && by_unit->shape.size() > 1)
      check_one_column_a_unit(session, segment, *by_unit, "validity");
    all_.push_back({0, 1 - int64_t(settings.target_rows), valid(counts), false});
    for (const Needed& needed : all_) {
      oldest_ = std::max(oldest_, needed.oldest);
      newest_ = std::min(newest_, needed.newest);
    }
  }
  // Groups from the oldest that a window reads to its last target row.
  uint64_t length() const { return uint64_t(oldest_ - newest_ + 1); }
  uint64_t longest_stretch() const { return longest_; }

  void add_to(std::vector<WindowRun>& runs, const WindowRun& pattern) {
    const size_t before = runs.size();
    for (const Stretch& stretch : find_stretches(session_, segment_, settings_.most_gap)) {
      longest_ = std::max(longest_, (stretch.end - stretch.begin) / settings_.step);
      add_runs(stretch, all_, settings_.step, pattern, runs);
    }
    refuse_nan(std::span(runs).subspan(before));
  }

 private:
  void add(const LaggedField& lagged, Flags is_ok, bool reads_first_bin_only) {
    all_.push_back({lagged.first + int64_t(lagged.lags) - 1, lagged.first, std::move(is_ok),
                    reads_first_bin_only});
  }
  void refuse_nan(std::span<const WindowRun> runs) const {
    const Field& stimulus = segment_.field(settings_.stimulus.field);
    const Field& counts = segment_.field(settings_.counts);
    const Field* validity = validity_by_unit(session_, segment_, settings_);
    refuse_nan_frames(session_, segment_, stimulus, runs, all_[0].oldest, all_[0].newest);
    refuse_nan_counts(session_, segment_, counts, validity, units_, runs,
                      settings_.target_rows * settings_.step);
  }

  const Session& session_;
  const Segment& segment_;
  const WindowSettings& settings_;
  std::span<const uint32_t> units_;
  std::vector<Needed> all_;  // the stimulus first
  int64_t oldest_ = 0, newest_ = 0;
  uint64_t longest_ = 0;
};

// All windows of one session. Throws Error where it has none.
std::vector<WindowRun> session_runs(const Session& session, uint32_t number,
                                    const WindowSettings& settings, std::span<const uint32_t> units,
                                    const Transforms* transforms) {
  std::vector<WindowRun> runs;
  uint64_t length = 0, longest = 0;
  for (uint32_t g = 0; g < session.segments.size(); ++g) {
    if (!is_chosen(settings.segments, session.segments[g].name)) continue;
    SegmentWindows segment(session, session.segments[g], settings, units, transforms);
    segment.add_to(runs, {.session = number, .segment = g, .step = settings.step});
    length = segment.length();
    longest = std::max(longest, segment.longest_stretch());
  }
  if (!runs.empty()) return runs;
  if (length > longest)
    throw Error(
        "session '{}': a window of {} rows is longer than every trial (the longest has {} rows "
        "without a gap); use fewer lags or target rows, or leave the session out (sessions)",
        session.name, length, longest);
  throw Error(
      "session '{}' has no window: no trial has {} rows in a row that are valid; look at its "
      "validity with `lacuna info`, or leave the session out (sessions)",
      session.name, length);
}

}  // namespace

Json to_json(const WindowSettings& settings) {
  const auto lagged = [](const LaggedField& one) {
    return Json{{"field", one.field}, {"lags", one.lags}, {"first", one.first}};
  };
  Json json = {{"stimulus", lagged(settings.stimulus)}, {"inputs", Json::array()}};
  for (const LaggedField& input : settings.inputs) json["inputs"].push_back(lagged(input));
  json["counts"] = settings.counts;
  json["validity"] = settings.validity;
  json["target_rows"] = settings.target_rows;
  json["step"] = settings.step;
  json["sessions"] = settings.sessions;
  json["segments"] = settings.segments;
  json["units"] = settings.units;
  json["most_gap"] = settings.most_gap;
  json["transforms"] = settings.transforms;
  return json;
}

WindowSettings with_target_rows(WindowSettings settings, uint64_t rows) {
  const auto widen = [&](LaggedField& lagged) {
    lagged.lags += rows - 1;
    lagged.first -= int64_t(rows - 1);
  };
  widen(settings.stimulus);
  for (LaggedField& input : settings.inputs) widen(input);
  settings.target_rows = rows;
  return settings;
}

Windows::Windows(const Recording& recording, const WindowSettings& settings)
    : recording_(recording), settings_(settings) {
  check_window_settings(recording, settings_);
  if (!settings_.transforms.empty())
    transforms_ = std::make_shared<const Transforms>(recording_, settings_.transforms);
  for (const std::string& name : {settings_.stimulus.field, settings_.counts})
    if (transforms_ && transforms_->has(name))
      throw Error(
          "field '{}' is made by transforms, which are for inputs here; write it into a recording "
          "with `lacuna transform`",
          name);
  std::set<std::string> found_units;
  for (const Session& session : recording_.sessions()) {
    units_.emplace_back();
    if (!is_chosen(settings_.sessions, session.name) || lacks_segments(session, settings_))
      continue;
    units_.back() = choose_units(session, settings_.units, found_units);
    if (units_.back().empty())
      throw Error(
          "session '{}' has none of the units chosen; name one of it, or leave the session "
          "out (sessions)",
          session.name);
  }
  for (const std::string& unit : settings_.units)
    if (!found_units.contains(unit))
      throw Error("{}: no session has a unit '{}'; `lacuna info` lists them",
                  recording_.path().string(), unit);
  // Sessions at once: a large recording has a gigabyte of trials, times and flags.
  std::vector<std::vector<WindowRun>> runs(units_.size());
  std::vector<std::exception_ptr> errors(units_.size());
  parallel_for(units_.size(), 0, [&](uint64_t s) {
    if (units_[s].empty()) return;
    try {
      runs[s] = session_runs(recording_.sessions()[s], uint32_t(s), settings_, units_[s],
                             transforms_.get());
    } catch (...) {
      errors[s] = std::current_exception();
    }
  });
  for (size_t s = 0; s < runs.size(); ++s) {  // of several errors, the first session's
    if (errors[s]) std::rethrow_exception(errors[s]);
    runs_.insert(runs_.end(), runs[s].begin(), runs[s].end());
  }
  number_runs();
  warm_transforms();
}

// Whoever makes inputs later finds everything there: threads search what nobody adds to any more.
void Windows::warm_transforms() const {
  std::set<std::tuple<uint32_t, uint32_t>> seen;
  for (const WindowRun& run : runs_) {
    if (!transforms_ || !seen.insert({run.session, run.segment}).second) continue;
    const Session& session = recording_.sessions()[run.session];
    for (const LaggedField& input : settings_.inputs)
      if (transforms_->has(input.field))
        transforms_->warm(session, session.segments[run.segment], input.field);
  }
}

void Windows::number_runs() {
  first_.assign(1, 0);
  for (const WindowRun& run : runs_) first_.push_back(first_.back() + run.size());
}

Windows Windows::only(std::vector<WindowRun> runs) const {
  LACUNA_ASSERT(std::ranges::is_sorted(runs, {}, &WindowRun::session));
  Windows some = *this;
  some.runs_ = std::move(runs);
  some.number_runs();
  return some;
}

Windows Windows::of_part(const RecordingSplit& split, std::string_view part) const {
  const auto wanted = uint8_t(part_from_name(part));
  const uint64_t after = settings_.target_rows * settings_.step;  // bins of the targets
  std::vector<WindowRun> runs;
  for (const WindowRun& run : runs_) {
    const Session& session = recording_.sessions()[run.session];
    const auto parts = split.of(session.name, session.segments[run.segment].name);
    if (parts.empty()) continue;
    bool is_open = false;
    for (uint64_t t = run.begin; t < run.end; t += run.step) {
      const auto targets = parts.subspan(t, after);
      const bool is_in = std::ranges::all_of(targets, [&](uint8_t p) { return p == wanted; });
      if (is_in && !is_open) {
        runs.push_back(run);
        runs.back().begin = t;
      }
      if (is_in) runs.back().end = t + run.step;
      is_open = is_in;
    }
  }
  if (runs.empty())
    throw Error("split '{}' has no window in {}; draw another, or choose other sessions",
                split.name, part);
  return only(std::move(runs));
}

Window Windows::at(uint64_t window) const {
  LACUNA_ASSERT(window < size());
  const auto next = std::upper_bound(first_.begin(), first_.end(), window);
  const size_t r = size_t(next - first_.begin()) - 1;
  const WindowRun& run = runs_[r];
  return {run.session, run.segment, run.begin + (window - first_[r]) * run.step};
}

std::pair<uint64_t, uint64_t> Windows::of_session(uint32_t session) const {
  const auto range = std::ranges::equal_range(runs_, session, {}, &WindowRun::session);
  return {first_[size_t(range.begin() - runs_.begin())],
          first_[size_t(range.end() - runs_.begin())]};
}

const Field* Windows::validity_of(uint32_t session, uint32_t segment) const {
  const Session& in = recording_.sessions()[session];
  return validity_by_unit(in, in.segments[segment], settings_);
}

}  // namespace lacuna
