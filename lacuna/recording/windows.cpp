#include "lacuna/recording/windows.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/recording/checked_rows.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/transforms/transforms.h"
#include "lacuna/recording/trials.h"
#include "lacuna/screen/samples.h"

namespace lacuna {
namespace {

// Rows that a window reads of one field: row t - oldest .. t - newest, in groups of `step` bins.
struct Needed {
  int64_t oldest, newest;      // below 0: after t
  std::vector<uint8_t> is_ok;  // [T]
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

void and_with(std::vector<uint8_t>& is_ok, const Field& flags) {
  const std::vector<double> numbers = read_numbers(flags);
  for (uint64_t t = 0; t < is_ok.size(); ++t)
    is_ok[t] &= uint8_t(numbers[t] != 0 && !std::isnan(numbers[t]));
}

// Rows on which every field may be read.
std::vector<uint8_t> rows_valid_for_all(const Segment& segment, const WindowSettings& settings) {
  std::vector<uint8_t> is_ok(segment.frames, 1);
  for (const Field& field : segment.fields) {
    if (!is_row_validity(field) || field.name == settings.validity) continue;
    const bool is_own = field.name.ends_with("_valid") &&
                        segment.find(field.name.substr(0, field.name.size() - 6)) != nullptr;
    if (!is_own) and_with(is_ok, field);
  }
  return is_ok;
}

std::vector<uint8_t> rows_valid(const Segment& segment, const Field& field,
                                const std::vector<uint8_t>& for_all,
                                const WindowSettings& settings) {
  std::vector<uint8_t> is_ok = for_all;
  const Field* own = segment.find(field.name + "_valid");
  if (own && is_row_validity(*own) && own->name != settings.validity) and_with(is_ok, *own);
  return is_ok;
}

void exclude_nan(std::vector<uint8_t>& is_ok, const Field& field) {
  if (field.nan_rows == 0) return;
  const Array nan = read_nan_rows(field);
  const auto flags = nan.as<uint8_t>();
  for (uint64_t t = 0; t < is_ok.size(); ++t) is_ok[t] &= uint8_t(flags[t] == 0);
}

// For each group of a stretch, how many groups in a row are in order, up to and with this one.
std::vector<uint64_t> runs_of_groups(const Stretch& stretch, const Needed& needed, uint64_t step) {
  std::vector<uint64_t> runs((stretch.end - stretch.begin) / step);
  uint64_t length = 0;
  for (uint64_t g = 0; g < runs.size(); ++g) {
    bool is_ok = true;
    const uint64_t bins = needed.reads_first_bin_only ? 1 : step;
    for (uint64_t k = 0; k < bins; ++k) is_ok &= needed.is_ok[stretch.begin + g * step + k] != 0;
    runs[g] = length = is_ok ? length + 1 : 0;
  }
  return runs;
}

// The windows of one stretch, added to `runs`.
void add_runs(const Stretch& stretch, const std::vector<Needed>& all, uint64_t step,
              WindowRun pattern, std::vector<WindowRun>& runs) {
  const int64_t groups = int64_t((stretch.end - stretch.begin) / step);
  std::vector<uint8_t> is_window(size_t(groups), 1);
  for (const Needed& needed : all) {
    const std::vector<uint64_t> lengths = runs_of_groups(stretch, needed, step);
    const uint64_t wanted = uint64_t(needed.oldest - needed.newest + 1);
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t newest = g - needed.newest;
      if (g - needed.oldest < 0 || newest >= groups || newest < 0 ||
          lengths[size_t(newest)] < wanted)
        is_window[size_t(g)] = 0;
    }
  }
  for (int64_t g = 0; g < groups; ++g) {
    if (!is_window[size_t(g)]) continue;
    const uint64_t t = stretch.begin + uint64_t(g) * step;
    if (g == 0 || !is_window[size_t(g) - 1]) {
      pattern.begin = t;
      pattern.trial = stretch.trial;
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

// A stimulus row that is not finite must not be served; which row of which field.
void refuse_nan_frames(const Session& session, const Segment& segment, const Field& field,
                       const WindowRun& run, int64_t oldest, int64_t newest, uint64_t step) {
  const Array nan = read_nan_rows(field);
  const auto flags = nan.as<uint8_t>();
  for (uint64_t t = run.begin; t < run.end; t += step)
    for (int64_t lag = newest; lag <= oldest; ++lag) {
      const uint64_t row = uint64_t(int64_t(t) - lag * int64_t(step));
      if (flags[row])
        throw Error(
            "{} is not finite in row {}, which the window at t = {} serves; mark the row in a "
            "validity field ({}_valid), or repair it",
            field_words(session, segment, field.name), row, t, field.name);
    }
}

// The same of a count, unless its unit is not chosen or not valid there.
void refuse_nan_counts(const Session& session, const Segment& segment, const Field& field,
                       const Field* validity, std::span<const uint32_t> units, const WindowRun& run,
                       uint64_t bins_after) {
  const Array nan = read_nan_rows(field), counts = field.map();
  const Array valid = validity ? validity->map() : Array();
  const auto flags = nan.as<uint8_t>();
  std::vector<float> values(units.size()), is_valid(units.size(), 1.0f);
  for (uint64_t t = run.begin; t < run.end - run.step + bins_after; ++t) {
    if (!flags[t]) continue;
    read_columns(field, counts.bytes().data() + t * field.row_bytes(), units, values.data());
    if (validity && validity->shape.size() > 1)
      read_columns(*validity, valid.bytes().data() + t * validity->row_bytes(), units,
                   is_valid.data());
    for (size_t u = 0; u < units.size(); ++u)
      if (!std::isfinite(values[u]) && is_valid[u] != 0)
        throw Error(
            "{} is not finite in row {} for unit '{}', which a window serves as its target; mark "
            "it "
            "in a validity field, or leave the unit out (units)",
            field_words(session, segment, field.name), t, session.units[units[u]]);
  }
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
  for (const std::string& name : settings.segments) {
    const auto has = [&](const Session& session) {
      return std::ranges::find(session.segments, name, &Segment::name) != session.segments.end();
    };
    if (!std::ranges::any_of(recording.sessions(), has))
      throw Error("{}: no session has a segment '{}'", recording.path().string(), name);
  }
}

// What windows of one segment need, and so which there are.
class SegmentWindows {
 public:
  SegmentWindows(const Session& session, const Segment& segment, const WindowSettings& settings,
                 std::span<const uint32_t> units, const Transforms* transforms)
      : session_(session), segment_(segment), settings_(settings), units_(units) {
    const std::vector<uint8_t> for_all = rows_valid_for_all(segment, settings);
    const auto valid = [&](const Field& field) {
      return rows_valid(segment, field, for_all, settings);
    };
    const Field& stimulus = needed_field(session, segment, settings.stimulus.field, "stimulus");
    add(settings.stimulus, valid(stimulus), true);
    for (const LaggedField& input : settings.inputs) {
      std::vector<uint8_t> is_ok;
      if (transforms && transforms->has(input.field)) {
        is_ok = for_all;
        const auto nan = transforms->nan_rows(session, segment, input.field);
        for (uint64_t t = 0; t < nan.size(); ++t) is_ok[t] &= uint8_t(nan[t] == 0);
      } else {
        const Field& field = needed_field(session, segment, input.field, "inputs");
        is_ok = valid(field);
        exclude_nan(is_ok, field);
      }
      add(input, std::move(is_ok), false);
    }
    const Field& counts = needed_field(session, segment, settings.counts, "counts");
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
  void add(const LaggedField& lagged, std::vector<uint8_t> is_ok, bool reads_first_bin_only) {
    all_.push_back({int64_t(lagged.first + lagged.lags) - 1, int64_t(lagged.first),
                    std::move(is_ok), reads_first_bin_only});
  }
  void refuse_nan(std::span<const WindowRun> runs) const {
    const Field& stimulus = segment_.field(settings_.stimulus.field);
    const Field& counts = segment_.field(settings_.counts);
    const Field* validity = validity_by_unit(session_, segment_, settings_);
    for (const WindowRun& run : runs) {
      if (stimulus.nan_rows > 0)
        refuse_nan_frames(session_, segment_, stimulus, run, all_[0].oldest, all_[0].newest,
                          settings_.step);
      if (counts.nan_rows > 0)
        refuse_nan_counts(session_, segment_, counts, validity, units_, run,
                          settings_.target_rows * settings_.step);
    }
  }

  const Session& session_;
  const Segment& segment_;
  const WindowSettings& settings_;
  std::span<const uint32_t> units_;
  std::vector<Needed> all_;  // the stimulus first
  int64_t oldest_ = 0, newest_ = 0;
  uint64_t longest_ = 0;
};

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
  for (uint32_t s = 0; s < recording_.sessions().size(); ++s) {
    const Session& session = recording_.sessions()[s];
    units_.emplace_back();
    if (!is_chosen(settings_.sessions, session.name)) continue;
    units_.back() = choose_units(session, settings_.units, found_units);
    if (units_.back().empty())
      throw Error(
          "session '{}' has none of the units chosen; name one of it, or leave the session "
          "out (sessions)",
          session.name);
    const size_t before = runs_.size();
    uint64_t length = 0, longest = 0;
    for (uint32_t g = 0; g < session.segments.size(); ++g) {
      if (!is_chosen(settings_.segments, session.segments[g].name)) continue;
      SegmentWindows segment(session, session.segments[g], settings_, units_.back(),
                             transforms_.get());
      segment.add_to(runs_, {.session = s, .segment = g, .step = settings_.step});
      length = segment.length();
      longest = std::max(longest, segment.longest_stretch());
    }
    if (runs_.size() > before) continue;
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
  for (const std::string& unit : settings_.units)
    if (!found_units.contains(unit))
      throw Error("{}: no session has a unit '{}'; `lacuna info` lists them",
                  recording_.path().string(), unit);
  number_runs();
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
