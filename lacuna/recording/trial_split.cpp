#include "lacuna/recording/trial_split.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "lacuna/core/error.h"
#include "lacuna/core/random.h"
#include "lacuna/recording/field_values.h"
#include "lacuna/recording/trials.h"

namespace lacuna {
namespace {

constexpr std::array<Part, 4> kAllParts = {Part::train, Part::validation, Part::test, Part::unused};

struct Trial {
  uint32_t session = 0;
  std::vector<std::pair<uint64_t, uint64_t>> rows;  // [begin, end) in the parts of the split
  uint64_t size = 0;
  std::set<int64_t> stimuli;
};

// Trials that must lie in one part.
struct TrialGroup {
  std::vector<uint32_t> trials;
  std::map<uint32_t, uint64_t> rows;  // by session
  uint64_t size = 0;
  size_t part = 0;  // in kAllParts
};

RecordingSplit cover_all(const Recording& recording, std::string name) {
  RecordingSplit split;
  split.name = std::move(name);
  uint64_t first = 0;
  for (const Session& session : recording.sessions())
    for (const Segment& segment : session.segments) {
      split.segments.push_back({session.name, segment.name, first, segment.frames});
      first += segment.frames;
    }
  return split;
}

std::vector<Trial> find_trials(const Recording& recording, const RecordingSplit& split,
                               const TrialSplitOptions& options) {
  std::vector<Trial> trials;
  size_t covered = 0;
  for (uint32_t s = 0; s < recording.sessions().size(); ++s)
    for (const Segment& segment : recording.sessions()[s].segments) {
      const uint64_t first = split.segments[covered++].first;
      const bool has_numbers = segment.find(FieldRole::trial) != nullptr;
      std::vector<int64_t> ids;
      if (const Field* field = segment.find(FieldRole::stimulus_id))
        ids = read_whole_numbers(*field);
      std::map<int64_t, size_t> by_number;
      for (const Stretch& stretch :
           find_stretches(recording.sessions()[s], segment, options.most_gap)) {
        const auto found = by_number.find(stretch.trial);
        const bool is_new = !has_numbers || found == by_number.end();
        const size_t at = is_new ? trials.size() : found->second;
        if (is_new) {
          trials.emplace_back().session = s;
          by_number[stretch.trial] = at;
        }
        Trial& trial = trials[at];
        trial.rows.push_back({first + stretch.begin, first + stretch.end});
        trial.size += stretch.end - stretch.begin;
        for (uint64_t t = stretch.begin; t < stretch.end && !ids.empty(); ++t)
          if (ids[t] >= 0 && (t == stretch.begin || ids[t] != ids[t - 1]))
            trial.stimuli.insert(ids[t]);
      }
    }
  return trials;
}

// Trials that share a stimulus, directly or through others.
std::vector<TrialGroup> group_trials(const std::vector<Trial>& trials, RepeatScope scope) {
  std::vector<uint32_t> parent(trials.size());
  std::iota(parent.begin(), parent.end(), 0u);
  const auto root = [&](uint32_t t) {
    while (parent[t] != t) t = parent[t] = parent[parent[t]];
    return t;
  };
  std::map<std::pair<int64_t, int64_t>, uint32_t> shown;  // (session or -1, stimulus) -> trial
  for (uint32_t t = 0; t < trials.size() && scope != RepeatScope::none; ++t)
    for (const int64_t stimulus : trials[t].stimuli) {
      const int64_t session = scope == RepeatScope::session ? trials[t].session : -1;
      const auto [at, is_new] = shown.insert({{session, stimulus}, t});
      if (!is_new) parent[root(t)] = root(at->second);
    }
  std::map<uint32_t, TrialGroup> groups;
  for (uint32_t t = 0; t < trials.size(); ++t) {
    TrialGroup& group = groups[root(t)];
    group.trials.push_back(t);
    group.rows[trials[t].session] += trials[t].size;
    group.size += trials[t].size;
  }
  std::vector<TrialGroup> all;
  for (auto& [first, group] : groups) all.push_back(std::move(group));
  return all;
}

using Fractions = std::array<double, 4>;  // of kAllParts

// Each group goes to the part that its sessions, and all together, need most.
void deal_out(std::vector<TrialGroup>& groups, const Fractions& fractions,
              const TrialSplitOptions& options, size_t sessions) {
  std::vector<std::array<double, 4>> need(sessions + 1);  // rows still missing; the last: of all
  for (const TrialGroup& group : groups)
    for (size_t p = 0; p < 4; ++p) {
      for (const auto& [session, rows] : group.rows)
        need[session][p] += fractions[p] * double(rows);
      need[sessions][p] += fractions[p] * double(group.size);
    }
  Random random(options.seed);
  std::vector<uint32_t> order = shuffled(uint32_t(groups.size()), random);
  const auto is_repeated = [&](uint32_t g) { return groups[g].trials.size() > 1; };
  if (options.repeated) std::ranges::stable_partition(order, is_repeated);  // while there is room
  for (const uint32_t g : order) {
    TrialGroup& group = groups[g];
    double best = -std::numeric_limits<double>::infinity();
    const size_t wanted = size_t(options.repeated.value_or(Part::unused));
    const bool has_wish = options.repeated && is_repeated(g) && need[sessions][wanted] > 0;
    for (size_t p = 0; p < 4; ++p) {
      if (fractions[p] <= 0 || (has_wish && p != wanted)) continue;
      double score = need[sessions][p] / double(sessions);
      for (const auto& [session, rows] : group.rows)
        score += need[session][p] * double(rows) / double(group.size);
      if (score > best) {
        best = score;
        group.part = p;
      }
    }
    for (const auto& [session, rows] : group.rows) need[session][group.part] -= double(rows);
    need[sessions][group.part] -= double(group.size);
  }
}

// A part that was asked for takes the smallest group of the part that has the most of them, within
// a session that has enough groups of its own, or (no session) among all.
void fill_empty_parts(std::vector<TrialGroup>& groups, const Fractions& fractions,
                      std::optional<uint32_t> session) {
  for (size_t wanted = 0; wanted < 3; ++wanted) {
    if (fractions[wanted] <= 0) continue;
    std::array<uint64_t, 4> count = {};
    std::array<TrialGroup*, 4> smallest = {};
    bool is_there = false;
    for (TrialGroup& group : groups) {
      if (session && !group.rows.contains(*session)) continue;
      is_there |= group.part == wanted;
      if (session && group.rows.size() > 1) continue;
      ++count[group.part];
      TrialGroup*& small = smallest[group.part];
      if (!small || group.size < small->size) small = &group;
    }
    const size_t most = size_t(std::max_element(count.begin(), count.end()) - count.begin());
    if (!is_there && count[most] > 1) smallest[most]->part = wanted;
  }
}

Json counts_of(const std::vector<uint8_t>& parts) {
  Json counts = Json::object();
  for (const Part part : kAllParts)
    counts[std::string(lacuna::name(part))] =
        uint64_t(std::count(parts.begin(), parts.end(), uint8_t(part)));
  return counts;
}

Fractions checked_fractions(const std::array<double, 3>& given) {
  double sum = 0;
  for (const double fraction : given) {
    if (!(fraction >= 0) || fraction > 1)
      throw UsageError("a fraction of {} is no fraction; each is between 0 and 1", fraction);
    sum += fraction;
  }
  if (sum <= 0 || sum > 1 + 1e-9)
    throw UsageError("fractions add up to {}; they are above 0 and at most 1 together", sum);
  const double rest = 1 - sum;
  return {given[0], given[1], given[2], rest > 1e-9 ? rest : 0};
}

const RecordingSplit::Covered& find_covered(const Recording& recording, const RecordingSplit& split,
                                            const std::string& key) {
  const size_t slash = key.find('/');
  const Session& session = recording.session(key.substr(0, slash));
  if (slash == key.npos && session.segments.size() != 1)
    throw Error("'{}' has {} segments; name one, as in \"{}/{}\"", key, session.segments.size(),
                key, session.segments[0].name);
  const std::string segment =
      slash == key.npos ? session.segments[0].name : session.segment(key.substr(slash + 1)).name;
  for (const auto& one : split.segments)
    if (one.session == session.name && one.segment == segment) return one;
  LACUNA_ASSERT(false);
  return split.segments[0];
}

void put_rows(const Json& rows, const std::string& key, const RecordingSplit::Covered& segment,
              Part part, std::vector<uint8_t>& parts) {
  if (!rows.is_array()) throw Error("'{}' is not a list of rows", key);
  const auto put = [&](uint64_t row) {
    if (row >= segment.frames)
      throw Error("row {} of {} does not exist; it has {} rows (from 0)", row, key, segment.frames);
    uint8_t& at = parts[segment.first + row];
    if (at != uint8_t(Part::unused) && at != uint8_t(part))
      throw Error("row {} of {} is in {} and in {}", row, key, lacuna::name(Part(at)),
                  lacuna::name(part));
    at = uint8_t(part);
  };
  for (const Json& one : rows) {
    if (one.is_number_unsigned()) {
      put(one.get<uint64_t>());
    } else if (one.is_array() && one.size() == 2 && one[0].is_number_unsigned() &&
               one[1].is_number_unsigned()) {
      for (uint64_t t = one[0].get<uint64_t>(); t < one[1].get<uint64_t>(); ++t) put(t);
    } else {
      throw Error("{} in '{}' is neither the number of a row nor a pair [begin, end)", one.dump(),
                  key);
    }
  }
}

}  // namespace

RepeatScope repeat_scope_from_name(std::string_view name) {
  if (name == "recording" || name == "together") return RepeatScope::recording;
  if (name == "session") return RepeatScope::session;
  if (name == "apart") return RepeatScope::none;
  throw UsageError("'{}' is no way to treat repeats; use together, session or apart", name);
}

RecordingSplit draw_trial_split(const Recording& recording, std::string name,
                                const TrialSplitOptions& options) {
  const Fractions fractions = checked_fractions(options.fractions);
  RecordingSplit split = cover_all(recording, std::move(name));
  const std::vector<Trial> trials = find_trials(recording, split, options);
  std::vector<TrialGroup> groups = group_trials(trials, options.repeats);
  const size_t sessions = recording.sessions().size();
  deal_out(groups, fractions, options, sessions);
  for (uint32_t s = 0; s < sessions; ++s) fill_empty_parts(groups, fractions, s);
  fill_empty_parts(groups, fractions, std::nullopt);
  const auto& last = split.segments.back();
  std::vector<uint8_t> parts(last.first + last.frames, uint8_t(Part::unused));
  std::array<uint64_t, 4> trial_counts = {};
  for (const TrialGroup& group : groups)
    for (const uint32_t t : group.trials) {
      ++trial_counts[group.part];
      for (const auto& [begin, end] : trials[t].rows)
        std::fill(parts.begin() + int64_t(begin), parts.begin() + int64_t(end),
                  uint8_t(kAllParts[group.part]));
    }
  for (size_t p = 0; p < 3; ++p)
    if (fractions[p] > 0 && trial_counts[p] == 0)
      throw Error(
          "{} would be empty: there are {} trials, which fall into {} groups that share no "
          "stimulus; "
          "ask for fewer parts, or let repeats be drawn apart",
          lacuna::name(kAllParts[p]), trials.size(), groups.size());
  constexpr std::array<std::string_view, 3> kScopes = {"recording", "session", "none"};
  split.how = {{"by", "trial"},
               {"seed", options.seed},
               {"fractions", options.fractions},
               {"repeats_together", kScopes[size_t(options.repeats)]},
               {"repeated", options.repeated ? lacuna::name(*options.repeated) : "anywhere"},
               {"groups", groups.size()},
               {"trials",
                {{"train", trial_counts[0]},
                 {"validation", trial_counts[1]},
                 {"test", trial_counts[2]},
                 {"unused", trial_counts[3]}}},
               {"counts", counts_of(parts)}};
  split.parts = Array::from(std::move(parts));
  return split;
}

RecordingSplit recording_split_from_json(const Recording& recording, std::string name,
                                         const fs::path& file) {
  RecordingSplit split = cover_all(recording, std::move(name));
  const auto& last = split.segments.back();
  std::vector<uint8_t> parts(last.first + last.frames, uint8_t(Part::unused));
  try {
    const Json json = read_json(file);
    if (!json.is_object()) throw Error("not an object of parts: train, validation, test");
    for (const auto& [part_name, lists] : json.items()) {
      const Part part = part_from_name(part_name);
      if (!lists.is_object())
        throw Error("'{}' is not an object of lists of rows by \"SESSION/SEGMENT\"", part_name);
      if (part == Part::unused) continue;
      for (const auto& [key, rows] : lists.items())
        put_rows(rows, key, find_covered(recording, split, key), part, parts);
    }
  } catch (const Error& error) {
    const std::string_view words = error.what();
    if (words.starts_with(file.string())) throw;
    throw Error("{}: {}", file.string(), words);
  }
  split.how = {
      {"by", "file"},
      {"source",
       {{"path", file.string()}, {"bytes", fs::file_size(file)}, {"xxh3", hex(hash_file(file))}}},
      {"counts", counts_of(parts)}};
  split.parts = Array::from(std::move(parts));
  return split;
}

}  // namespace lacuna
